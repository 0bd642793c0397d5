"""Estimating the border's normal from answers around a border point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.parts.chunks import STRETCH, capacity_of, chunks_of, drawn, empty_sums, stretches
from popskipjump.attacks.parts.pool import DirectionPool, block_rows
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import per_row


class Spread(Protocol):
    """How far around the border point to ask."""

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """beta, the standard deviation of one coordinate: `(A,)`."""


@dataclass(frozen=True)
class LineSpread:
    """PSJ's: a fixed part of the search line (1/100 on MNIST, 1/300 on CIFAR-10; errata E6)."""

    part: float

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Spread`."""
        return self.part * border.gap


@dataclass(frozen=True)
class DistanceSpread:
    """HSJ's: `delta_t = part ||x_t - x_*||`, by default 1/d; in the first iteration a tenth of the bounds' range.

    Args:
        part: delta_t in units of the distance; None for 1/d.
        first: delta_1 in units of the range of the bounds; None for no exception.
    """

    part: float | None = None
    first: float | None = 0.1

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Spread`."""
        dimension = problem.dimension
        if iteration == 1 and self.first is not None:
            delta = torch.full_like(border.distance, self.first * problem.bounds.range)
        else:
            delta = border.distance * (1 / dimension if self.part is None else self.part)
        return delta / math.sqrt(dimension)


@dataclass(frozen=True)
class Count:
    """How many directions: `n_t = base sqrt(t)` times the effort that the noise needs, within limits.

    Args:
        base: n_0 of the noiseless attack.
        factor: on all of it.
        limit: largest n_t.
    """

    base: float = 100.0
    factor: float = 1.0
    limit: int = 50_000

    def __post_init__(self) -> None:
        if self.base <= 0 or self.factor <= 0 or self.limit < 1:
            raise InputError(f"the number of directions must be positive: {self}.")

    def noiseless(self, iteration: int) -> float:
        """n_t^det."""
        return min(self.base * self.factor * math.sqrt(iteration), self.limit)

    def __call__(self, effort: Tensor, iteration: int) -> Tensor:
        """`(A,)` -> int64 `(A,)`."""
        return (self.noiseless(iteration) * effort).clamp(1, self.limit).to(torch.int64)


@dataclass(frozen=True)
class MonteCarlo:
    """u = sum_i phi(x_t + delta_i) delta_i over random directions (eq. 1), with the displacements as clipped.

    Args:
        count: how many.
        spread: how far.
        sphere: directions of one length, as in HSJ, instead of normal ones, as in PSJ.
        baseline: subtract the mean answer, HSJ's variance reduction, which PSJ does not use.
    """

    count: Count
    spread: Spread
    sphere: bool = False
    baseline: bool = False

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Direction`."""
        counts = self.count(border.effort, iteration)
        counts = torch.minimum(counts, spare(problem, border))
        spread = problem.on_device(self.spread(problem, border, iteration))
        sums, answers = accumulate(problem, border, spread, counts, iteration, self.sphere)
        return combine(sums, answers, problem.on_device(counts), border.point, self.baseline)


def spare(problem: Problem, border: Border) -> Tensor:
    """How many directions each budget allows beside the next search, int64 `(A,)`: without it they are a waste."""
    return (problem.affordable(border.rows) - border.searched).clamp(min=0)


def accumulate(
    problem: Problem, border: Border, spread: Tensor, counts: Tensor, iteration: int, sphere: bool
) -> tuple[Tensor, Tensor]:
    """Ask around each border point and add up on the very buffer that the classifier read.

    Args:
        problem: what is asked.
        border: A points.
        spread: `(A,)` beta, on the device.
        counts: `(A,)` int64, on the CPU.
        iteration: t, part of the address of the directions.
        sphere: see `MonteCarlo`.

    Returns:
        `(A, 2, d)`: the sums of y_i q_i and of q_i over the points q_i that were asked, y = +1 for adversarial and
        -1 otherwise; and `(A,)` the sum of y_i.
    """
    block, capacity = block_rows(problem.dimension), capacity_of(problem.dimension)
    buffer = problem.memory("points", capacity)
    weights = torch.ones(2, capacity, device=problem.device)
    sums = empty_sums(len(counts), problem.dimension, problem.device)
    answers = torch.zeros(len(counts), device=problem.device)
    by_image, totals = border.point.unbind(0), sums.unbind(0)
    chunks = chunks_of(counts.tolist(), block, capacity, STRETCH)
    pool = DirectionPool.of(problem, sphere)
    for chunk in drawn(problem, pool, chunks, border.rows, per_row(spread), iteration):
        used, weight = buffer[: len(chunk.rows)], weights[:, : len(chunk.rows)]
        parts = torch.split(used, [piece.size for piece in chunk.pieces])
        for piece, part, rows, scale in zip(chunk.pieces, parts, chunk.blocks, chunk.scales, strict=True):
            torch.addcmul(by_image[piece.image], rows, scale, out=part)
        weight[0].copy_(problem.decide(used, chunk.rows, "direction"))
        images, sizes = stretches(chunk.pieces)
        for image, part, factor in zip(
            images, torch.split(used, sizes), torch.split(weight, sizes, dim=1), strict=True
        ):
            totals[image].addmm_(factor, part)
        answers.index_add_(0, chunk.images, weight[0])  # whole numbers: in any order
    # From 1 and 0 to +1 and -1.
    sums[:, 0].mul_(2).sub_(sums[:, 1])
    return sums, answers.mul_(2).sub_(problem.on_device(counts))


def combine(sums: Tensor, answers: Tensor, counts: Tensor, point: Tensor, baseline: bool) -> Tensor:
    """The gradient estimate from the sums of `accumulate`: `(A, d)`.

    sum (y_i - m) (q_i - x) = sum (y_i - m) q_i - (sum y_i - n m) x, with m the mean answer or 0. If all answers are
    equal there is nothing to subtract: m = 0, as published.
    """
    mean = answers / counts.clamp(min=1)
    mean = torch.where(mean.abs() < 1, mean, 0.0) if baseline else torch.zeros_like(mean)
    rest = answers - counts * mean
    return sums[:, 0] - per_row(mean) * sums[:, 1] - per_row(rest) * point


@dataclass(frozen=True)
class TrueDirection:
    """The true gradient, from the white box: PSJ-TrueGrad."""

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Direction`."""
        if problem.white_box is None or problem.labels is None:
            raise InputError("the true gradient needs a white box: pass a torch module that gives logits.")
        rows = problem.there(border.rows)
        targets = None if problem.targets is None else problem.targets[rows]
        points = border.point.reshape(-1, *problem.shape)
        return problem.white_box.margin_gradient(points, problem.labels[rows], targets).flatten(1)
