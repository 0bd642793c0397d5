"""Problems with a known border, put together by hand; imported by the tests beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.protocols import Begun, Locate, Search, Window
from popskipjump.attacks.searches.lines import Found, border_at
from popskipjump.geometry import norm_of
from popskipjump.oracles import (
    BaseModel,
    Classifier,
    Counted,
    Ledger,
    MajorityVote,
    NoiseModel,
    Oracle,
    Targeted,
    Ticket,
    Untargeted,
    WhiteBox,
)
from popskipjump.rng import Key
from popskipjump.types import Bounds


def problem_of(
    model: BaseModel | Oracle,
    original: Tensor,
    labels: Tensor | None = None,
    *,
    noise: NoiseModel | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    norm: str = "l2",
    seed: int = 0,
    budget: int | None = None,
    targets: Tensor | None = None,
    votes: int = 1,
    ids: Sequence[int] | Tensor | None = None,
    white_box: WhiteBox | None = None,
) -> Problem:
    """A problem on `original` `(B, *S)`; `model` is a base model, or an oracle if it has `ask`."""
    count = len(original)
    truth = torch.zeros(count, dtype=torch.int64) if labels is None else labels
    ledger = Ledger(count, budget)
    image_id = torch.arange(count) if ids is None else torch.as_tensor(ids)
    oracle = Counted(model if isinstance(model, Oracle) else Classifier(model, noise, seed), ledger, image_id)
    return Problem(
        original=original.flatten(1).float(),
        shape=tuple(original.shape[1:]),
        image_id=image_id,
        bounds=Bounds.of(bounds),
        norm=norm_of(norm),
        key=Key(seed).child("attack"),
        criterion=Untargeted(truth) if targets is None else Targeted(targets),
        oracle=oracle if votes == 1 else MajorityVote(oracle, votes),
        ledger=ledger,
        votes=votes,
        white_box=white_box,
        labels=truth,
        targets=targets,
    )


def border_of(problem: Problem, outer: Tensor, position: float | Tensor, **changes: Any) -> Border:
    """A sharp border, exactly known, at known positions of the lines from `outer` `(B, d)`."""
    count = len(outer)
    place = torch.as_tensor(position, dtype=torch.float64).expand(count).clone()
    zero = torch.zeros_like(place)
    yes = torch.ones(count, dtype=torch.bool)
    found = Found(
        position=place,
        safe=place,
        deviation=zero,
        seen=yes,
        width=zero,
        lost=zero,
        sample_ratio=zero + 1,
        searched=torch.zeros(count, dtype=torch.int64),
        settled=yes,
    )
    return border_at(problem, torch.arange(count), outer, found)._replace(**changes)


def found_by(
    search: Search[Any],
    problem: Problem,
    outer: Tensor,
    window: Window | None = None,
    iteration: int = 0,
    previous: Border | None = None,
    rows: Tensor | None = None,
) -> Border:
    """The border that a search without a past finds."""
    rows = torch.arange(len(outer)) if rows is None else rows
    return search(problem, rows, outer, window, iteration, previous, search.begin(len(rows)))[0]


def begun_at(border: Border, compared: bool = True) -> Begun:
    """A walk that begins at a border."""
    return Begun(border, torch.full((len(border.rows),), compared))


def locator(search: Search[Any], problem: Problem) -> Locate:
    """A search that forgets, as starts and restarts call it."""
    return lambda rows, outer, window: found_by(search, problem, outer, window, rows=rows)


def unit(dimension: int, axis: int = 0) -> Tensor:
    """A unit vector: `(d,)`."""
    vector = torch.zeros(dimension)
    vector[axis] = 1.0
    return vector


class Seen:
    """An oracle around a base model, with a noise if given, that keeps every point and whose it was."""

    def __init__(self, model: BaseModel, noise: NoiseModel | None = None) -> None:
        self.model = model
        self.classifier = None if noise is None else Classifier(model, noise)
        self.points: list[Tensor] = []
        self.images: list[Tensor] = []

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.points.append(points.detach().clone())
        self.images.append(ticket.image.clone())
        return self.model.labels(points) if self.classifier is None else self.classifier.ask(points, ticket)

    def all_points(self) -> Tensor:
        return torch.cat([p.flatten(1) for p in self.points])
