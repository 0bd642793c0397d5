"""Monte Carlo estimate of the boundary's normal, from queries around a boundary point (eq. 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.count import DirectionCount, affordable_directions
from popskipjump.attacks.directions.packing import STRETCH, capacity_of, chunks_of, drawn, empty_sums, stretches
from popskipjump.attacks.directions.pool import DirectionPool, block_rows
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Begun, Move
from popskipjump.errors import InputError
from popskipjump.geometry import per_row


class Spread(Protocol):
    """Sampling radius around the boundary point."""

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """beta, the standard deviation of one coordinate: `(A,)`."""


@dataclass(frozen=True)
class LineSpread:
    """PSJ's beta: a fixed fraction of the search line (1/100 on MNIST, 1/300 on CIFAR-10; errata E6)."""

    part: float

    def __post_init__(self) -> None:
        check_types(self)
        if not self.part > 0:
            raise InputError(f"part (beta) must be positive, not {self.part!r}.")

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Spread`."""
        return self.part * border.gap


@dataclass(frozen=True)
class DistanceSpread:
    """HSJ's radius: `delta_t = part ||x_t - x_*||`; in the first iteration a tenth of the range of the bounds.

    Args:
        part: delta_t in units of the distance; None for 1/d.
        first: delta_1 in units of the range of the bounds; None applies `part` in the first iteration too.
        finest: smallest change of a coordinate that the classifier can resolve, in units of the range of the bounds.
            delta_t is at least d times as long, which keeps the published ratio to the tolerance of the bisection.
    """

    part: float | None = None
    first: float | None = 0.1
    finest: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        lengths = [length for length in (self.part, self.first) if length is not None]
        if min(lengths, default=1.0) <= 0 or not 0 <= self.finest < 1:
            raise InputError(f"part and first must be positive, and finest in [0, 1): {self}.")

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Spread`."""
        dimension = problem.dimension
        if iteration == 1 and self.first is not None:
            delta = torch.full_like(border.distance, self.first * problem.bounds.range)
        else:
            delta = border.distance * (1 / dimension if self.part is None else self.part)
            delta = delta.clamp(min=dimension * self.finest * problem.bounds.range)
        return delta / math.sqrt(dimension)


@dataclass(frozen=True)
class MonteCarlo:
    """Monte Carlo gradient estimate u = sum_i phi(x_t + delta_i) delta_i (eq. 1), with delta_i clipped to the bounds.

    Args:
        count: number of directions.
        spread: sampling radius.
        sphere: draw directions of constant length, as HSJ does, instead of Gaussian ones, as PSJ does.
        baseline: subtract the mean answer; this is HSJ's variance reduction, which PSJ does not use.
    """

    count: DirectionCount
    spread: Spread
    sphere: bool = False
    baseline: bool = False

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def fewest(self) -> int:
        """See `Direction`."""
        return max(int(self.count.noiseless(1)), 1)

    def begin(self, problem: Problem, begun: Begun) -> tuple[()]:
        """See `Direction`: no state, because each iteration uses only its own answers."""
        return ()

    def __call__(self, problem: Problem, border: Border, iteration: int, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """See `Direction`."""
        counts = self.count(border.sample_ratio, iteration)
        counts = torch.minimum(counts, affordable_directions(problem, border))
        spread = problem.on_device(self.spread(problem, border, iteration))
        sums, answers = accumulate(problem, border, spread, counts, iteration, self.sphere)
        return combine(sums, answers, problem.on_device(counts), border.point, self.baseline), state

    def far(self, state: tuple[()]) -> None:
        """See `Direction`."""

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: tuple[()]) -> tuple[()]:
        """See `Direction`."""
        return state


def accumulate(
    problem: Problem, border: Border, spread: Tensor, counts: Tensor, iteration: int, sphere: bool
) -> tuple[Tensor, Tensor]:
    """Query around each boundary point, and accumulate the sums from the same buffer that the classifier read.

    Args:
        problem: the images and their oracle.
        border: A boundary points.
        spread: `(A,)` beta, on the device.
        counts: `(A,)` int64, on the CPU.
        iteration: t, part of the key of the random directions.
        sphere: see `MonteCarlo`.

    Returns:
        `(A, 2, d)`: the sums of y_i q_i and of q_i over the queried points q_i, with y = +1 for adversarial and -1
        otherwise; and `(A,)` the sum of y_i.
    """
    block, capacity = block_rows(problem.dimension), capacity_of(problem.dimension)
    buffer = problem.buffer("points", capacity)
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
        answers.index_add_(0, chunk.images, weight[0])  # integers: the order of the sum does not matter
    # Convert answers from 1 and 0 to +1 and -1.
    sums[:, 0].mul_(2).sub_(sums[:, 1])
    return sums, answers.mul_(2).sub_(problem.on_device(counts))


def combine(sums: Tensor, answers: Tensor, counts: Tensor, point: Tensor, baseline: bool) -> Tensor:
    """The gradient estimate from the sums of `accumulate`: `(A, d)`.

    sum (y_i - m) (q_i - x) = sum (y_i - m) q_i - (sum y_i - n m) x, where the baseline m is the mean answer or 0. If
    all answers are equal, m = 0, as published.
    """
    mean = answers / counts.clamp(min=1)
    mean = torch.where(mean.abs() < 1, mean, 0.0) if baseline else torch.zeros_like(mean)
    rest = answers - counts * mean
    return sums[:, 0] - per_row(mean) * sums[:, 1] - per_row(rest) * point


@dataclass(frozen=True)
class TrueDirection:
    """The true gradient from the white box, for PSJ-TrueGrad."""

    @property
    def fewest(self) -> int:
        """See `Direction`: this part makes no query, but the number must be positive."""
        return 1

    def begin(self, problem: Problem, begun: Begun) -> tuple[()]:
        """See `Direction`."""
        if problem.white_box is None or problem.labels is None:
            raise InputError("the true gradient needs a white box: pass a torch module that gives logits.")
        return ()

    def __call__(self, problem: Problem, border: Border, iteration: int, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """See `Direction`."""
        if problem.white_box is None or problem.labels is None:
            raise InputError("the true gradient needs a white box: pass a torch module that gives logits.")
        rows = problem.index(border.rows)
        targets = None if problem.targets is None else problem.targets[rows]
        points = border.point.reshape(-1, *problem.shape)
        return problem.white_box.margin_gradient(points, problem.labels[rows], targets).flatten(1), state

    def far(self, state: tuple[()]) -> None:
        """See `Direction`."""

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: tuple[()]) -> tuple[()]:
        """See `Direction`."""
        return state
