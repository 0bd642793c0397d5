"""Helpers shared by all line searches: budget checks, the log of queries, and the resulting `Border`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import l2_size
from popskipjump.sigmoid import Estimate

Indices = np.ndarray[tuple[int, ...], np.dtype[np.intp]]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Asked = tuple[Indices, list[int] | Indices, list[bool]]  # of one step: images, positions, answers


_EDGE = 0.015  # fraction of the searched part: a boundary nearer to its end may be beyond it
_UNSURE = 2.0  # standard deviations between the boundary and an end of the part, for the boundary to count as seen


def cannot_ask(problem: Problem, rows: Tensor, decisions: int) -> Tensor:
    """Images that cannot afford `decisions` decisions, or have failed: rows `(A,)` -> bool `(A,)`."""
    stop = problem.affordable(rows) < decisions
    for row in problem.failed:
        stop |= rows == row
    return stop


class Found(NamedTuple):
    """Result of a search on A lines; positions and the deviation are in units of the line."""

    position: Tensor  # (A,) of the border
    safe: Tensor  # (A,) see `Border`
    deviation: Tensor  # (A,) standard deviation of the position
    seen: Tensor  # (A,) bool, see `Border`
    width: Tensor  # (A,) see `Border`
    lost: Tensor  # (A,) see `Border`
    sample_ratio: Tensor  # (A,) see `Border`
    searched: Tensor  # (A,) int64
    settled: Tensor  # (A,) bool


def border_at(
    problem: Problem,
    rows: Tensor,
    outer: Tensor,
    found: Found,
    estimate: Estimate | None = None,
    probes: Tensor | None = None,
) -> Border:
    """The `Border` at given positions of the lines from `outer` `(A, d)` to the originals."""
    original = problem.originals(rows)
    point = problem.norm.blend(outer, original, problem.on_device(found.position))
    gap = problem.on_cpu(l2_size(outer - original))
    return Border(
        rows=rows,
        outer=outer,
        point=point,
        position=found.position,
        safe=found.safe,
        distance=problem.on_cpu(problem.norm.size(point - original)),
        gap=gap,
        sample_ratio=found.sample_ratio,
        searched=found.searched,
        settled=found.settled,
        deviation=found.deviation * gap,
        seen=found.seen,
        width=found.width,
        lost=found.lost,
        estimate=estimate,
        probes=probes,
    )


def seen_within(position: Tensor, deviation: Tensor, span: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
    """Whether the boundary is clearly inside the outer end, and the inner end, of the searched part: bool `(A,)` each.

    If the boundary may also be at an end of the part or beyond it, the search has not seen it.
    """
    edge = torch.maximum(torch.as_tensor(_EDGE * span), _UNSURE * deviation)
    return ~(position < edge), ~(span - edge - position < 0)


def counted(
    log: list[Asked], images: int, places: int, place: Callable[[Indices, Indices], Indices] | None = None
) -> Tensor:
    """Number of queries, and of adversarial answers, at each position of each line: int64 `(images, 2, places)`.

    Args:
        log: the queries and answers.
        images: A.
        places: number of positions of a line.
        place: function from images and grid indices to these positions; None if they are the same.
    """
    probes = torch.zeros(images, 2, places, dtype=torch.int64)
    if log:
        who, where, said = (np.concatenate(column) for column in zip(*log, strict=True))
        where = where if place is None else place(who, where)
        np.add.at(probes[:, 0].numpy(), (who, where), 1)
        np.add.at(probes[:, 1].numpy(), (who, where), said)
    return probes


def only_adversarial(probes: Tensor) -> Tensor:
    """Whether all answers of a search were adversarial: see `Border.probes` -> bool `(A,)`."""
    asked, adversarial = probes.sum(dim=2).unbind(dim=1)
    return (asked > 0) & (asked == adversarial)


def nearest_adversarial(log: list[Asked], images: int, position: Callable[[Indices, Indices], Floats]) -> Tensor:
    """The innermost adversarial position of each line, if its answers are consistent with a sharp boundary; else 1.

    Args:
        log: the queries and answers.
        images: A.
        position: function from images and grid indices to positions on the whole lines.

    Returns:
        float64 `(A,)`. Answers are consistent if all adversarial ones are further out than all others.
    """
    last, first = np.full(images, -1.0), np.full(images, np.inf)
    if log:
        who, where, said = (np.concatenate(column) for column in zip(*log, strict=True))
        place = position(who, where)
        yes = said.astype(bool)
        np.maximum.at(last, who[yes], place[yes])
        np.minimum.at(first, who[~yes], place[~yes])
    return torch.from_numpy(np.where((last >= 0) & (last < first), last, 1.0))
