"""Problems with a known border, put together by hand; imported by the tests beside it."""

from __future__ import annotations

import torch
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.parts.lines import border_at
from popskipjump.geometry import norm_of
from popskipjump.oracles import Classifier, Counted, Ledger, MajorityVote, Targeted, Untargeted
from popskipjump.rng import Key
from popskipjump.types import Bounds


def problem_of(
    model,
    original: Tensor,
    labels: Tensor | None = None,
    *,
    noise=None,
    bounds=(0.0, 1.0),
    norm="l2",
    seed=0,
    budget=None,
    targets=None,
    votes=1,
    ids=None,
    white_box=None,
) -> Problem:
    """A problem on `original` `(B, *S)`; `model` is a base model, or an oracle if it has `ask`."""
    count = len(original)
    truth = torch.zeros(count, dtype=torch.int64) if labels is None else labels
    ledger = Ledger(count, budget)
    image_id = torch.arange(count) if ids is None else torch.as_tensor(ids)
    oracle = Counted(model if hasattr(model, "ask") else Classifier(model, noise, seed), ledger, image_id)
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


def border_of(problem: Problem, outer: Tensor, position: float | Tensor, **changes) -> Border:
    """A border at known positions of the lines from `outer` `(B, d)`."""
    count = len(outer)
    place = torch.as_tensor(position, dtype=torch.float64).expand(count).clone()
    found = border_at(
        problem,
        torch.arange(count),
        outer,
        place,
        place,
        torch.ones(count, dtype=torch.float64),
        torch.zeros(count, dtype=torch.int64),
        torch.ones(count, dtype=torch.bool),
        None,
    )
    return found._replace(**changes)


def unit(dimension: int, axis: int = 0) -> Tensor:
    """A unit vector: `(d,)`."""
    vector = torch.zeros(dimension)
    vector[axis] = 1.0
    return vector


class Seen:
    """An oracle around a base model that keeps every point and whose it was."""

    def __init__(self, model) -> None:
        self.model = model
        self.points: list[Tensor] = []
        self.images: list[Tensor] = []

    def ask(self, points, ticket):
        self.points.append(points.detach().clone())
        self.images.append(ticket.image.clone())
        return self.model.labels(points)

    def all_points(self) -> Tensor:
        return torch.cat([p.flatten(1) for p in self.points])
