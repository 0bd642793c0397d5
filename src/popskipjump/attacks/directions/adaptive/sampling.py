"""Queries at random points around the sampling centre, and the sums of their answers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.adaptive.dct import Basis
from popskipjump.attacks.directions.adaptive.rival_weights import SLOTS, RivalWeights
from popskipjump.attacks.directions.count import affordable_directions
from popskipjump.attacks.directions.packing import STRETCH, Chunk, capacity_of, chunks_of, drawn, empty_sums, stretches
from popskipjump.attacks.directions.pool import DirectionPool, block_rows
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import l2_size, per_row, row_sums

_BLOCKS_APART = 1000  # offset of the random keys between two blocks of an iteration


class Shape(NamedTuple):
    """Distribution of the directions of A images."""

    basis: Basis
    scaled: Tensor  # (A, N) standard deviation of a coefficient, by band, in units of `unit`
    relative: Tensor  # (A,) float64, on the CPU: `unit` in units of the distance
    unit: Tensor  # (A,) float64, on the CPU: standard deviation of a coefficient with `scaled` 1
    size: Tensor  # (A,) float64, on the CPU: root mean square of a value
    spread: Tensor  # (A, d) by which directions are multiplied
    seen: Tensor  # (A, d) `spread` after clipping to the bounds


class Sums(NamedTuple):
    """Sums over an iteration's answers y at the points q."""

    signal: Tensor  # (A, d) of (y - mean y) q
    squares: Tensor  # (A,) float64, on the CPU: of (y - mean y)^2


class Sampling(NamedTuple):
    """Sampling distribution of A images."""

    rows: Tensor  # (A,)
    centre: Tensor  # (A, d)
    spread: Tensor  # (A, d) envelope: factor on the directions
    deviation: Tensor  # (A, N) standard deviation of a coefficient, by band
    radial: Tensor | None  # (A, d) unit vectors along the rays; directions are orthogonal to them
    iteration: int
    block: int  # index within the iteration


class Answers(NamedTuple):
    """Sums over the answers y, where y is twice the class weight of an adversarial answer, and 0 otherwise."""

    signal: Tensor  # (A, d) sum of (y - mean y) q over the queried (clipped) points q, on the device
    squares: Tensor  # (A,) float64, sum of (y - mean y)^2
    imbalance: Tensor  # (A,) float64, probit of the share of adversarial answers: 0 for one half
    classes: Tensor  # (A, SLOTS) adversarial answers by class, on the device


def sample(problem: Problem, where: Sampling, counts: Tensor, basis: Basis, weights: Tensor) -> Answers:
    """Draw directions, query the points, and accumulate the sums from the same buffer that the classifier read.

    Args:
        problem: the images and their oracle.
        where: sampling distribution of A images.
        counts: `(A,)` int64 on the CPU.
        basis: of the directions.
        weights: `(A, SLOTS)` of adversarial answers by class, on the device.
    """
    sums = empty_sums(len(counts), problem.dimension, problem.device)
    totals = sums.unbind(0)
    block, capacity = block_rows(problem.dimension), capacity_of(problem.dimension)
    factors = torch.ones(2, capacity, device=problem.device)
    pool = DirectionPool.of(problem, sphere=False)
    chunks = chunks_of(counts.tolist(), block, capacity, STRETCH)
    points_of = _Points(where, basis, problem.buffer("points", capacity), problem.buffer("half-way points", capacity))
    scale = basis.by_coefficient(where.deviation)
    cells, decisions = [], []  # of each call: the image and class of each answer, and whether it is adversarial
    for chunk in drawn(problem, pool, chunks, where.rows, scale, where.iteration, _BLOCKS_APART * where.block):
        images, sizes = stretches(chunk.pieces)
        points, parts = points_of(chunk, images, sizes)
        labels, decided = problem.label(points, chunk.rows, "direction")
        cells.append(labels.remainder(SLOTS).add_(chunk.images, alpha=SLOTS))
        decisions.append(decided)
        factor = factors[:, : points.shape[0]]
        torch.mul(weights.view(-1).index_select(0, cells[-1]), decided, out=factor[0])
        for image, asked, mine in zip(images, parts, factor.split_with_sizes(sizes, dim=1), strict=True):
            totals[image].addmm_(mine, asked)
    classes = torch.zeros_like(weights)
    if cells:  # integers: any order of the sum
        classes.view(-1).index_add_(0, torch.cat(cells), torch.cat(decisions).to(classes.dtype))
    return _answers(problem, sums, classes, weights, counts)


class _Points:
    """Computes the points to query from the directions of a chunk."""

    def __init__(self, where: Sampling, basis: Basis, *memory: Tensor) -> None:
        self.basis, self.memory = basis, memory  # twice `(M, d)`
        self.centre, self.spread = where.centre.unbind(0), where.spread.unbind(0)
        self.radial = None if where.radial is None else where.radial.unbind(0)
        self.inward = None if where.radial is None else (where.radial * where.spread).neg_().unbind(0)

    def __call__(self, chunk: Chunk, images: list[int], sizes: list[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Points `(M, d)`, valid until the next call, and views of them for each image's stretches."""
        rows = chunk.rows.shape[0]  # faster than len() of a tensor, as `split_with_sizes` is than `split`
        coefficients, spare = (memory[:rows] for memory in self.memory)
        pieces = coefficients.split_with_sizes([piece.size for piece in chunk.pieces])
        for piece, block, scale in zip(pieces, chunk.blocks, chunk.scales, strict=True):
            torch.mul(block, scale, out=piece)
        points, free = self.basis.turn_to_points(coefficients, spare)
        parts = points.split_with_sizes(sizes)
        if self.inward is None or self.radial is None:
            for image, part in zip(images, parts, strict=True):
                torch.addcmul(self.centre[image], part, self.spread[image], out=part)
            return points, parts
        # Elementwise products and sums: the digits of a matrix-vector product depend on the memory alignment.
        for image, part, product in zip(images, parts, free.split_with_sizes(sizes), strict=True):
            torch.mul(part, self.inward[image], out=product)
        for image, part, along in zip(images, parts, row_sums(free).split_with_sizes(sizes), strict=True):
            torch.addcmul(self.centre[image], part, self.spread[image], out=part).addr_(along, self.radial[image])
        return points, parts


def _answers(problem: Problem, sums: Tensor, classes: Tensor, weights: Tensor, counts: Tensor) -> Answers:
    """Convert sums of weighted answers to sums of centred ones: `(A, 2, d)`, `(A, SLOTS)` twice, `(A,)`."""
    n = counts.clamp(min=1)
    weighed = problem.on_cpu(torch.stack((classes, classes * weights, classes * weights**2)).sum(dim=2))
    yes, total, squares = weighed.unbind(0)
    told = squares - total**2 / n  # 0 if all answers are equal: no information
    told = torch.where(told > 1e-6 * n, told, 0.0)
    signal = torch.addcmul(sums[:, 0], sums[:, 1], per_row(problem.on_device(-total / n)))
    signal.mul_(per_row(problem.on_device(2.0 * (told > 0))))
    seen = torch.where(counts > 0, (yes + 0.5) / (n + 1), 0.5)
    return Answers(signal, 4 * told, torch.special.ndtri(seen), classes)


class Questions:
    """The queries of one iteration, block by block, and the sums of their answers."""

    def __init__(
        self,
        problem: Problem,
        border: Border,
        shape: Shape,
        iteration: int,
        classes: Tensor,
        rivals: RivalWeights | None,
        tangential: bool,
    ) -> None:
        self.problem, self.border, self.shape, self.iteration, self.rivals = problem, border, shape, iteration, rivals
        change = border.point - problem.originals(border.rows)
        self.outward = change / per_row(l2_size(change)).clamp(min=1e-12)  # from the originals, of length 1
        self.across = self.outward if tangential else None
        self.classes, self.block = classes, 0  # adversarial answers by class so far, `(A, SLOTS)`
        self.sums = Sums(torch.zeros_like(self.outward), torch.zeros_like(shape.unit))

    def ask_within(self, shift: Tensor, count: Tensor) -> Tensor:
        """`ask` within the budgets: `count` is lowered in place to what they allow."""
        count.copy_(torch.minimum(count, affordable_directions(self.problem, self.border)))
        return self.ask(shift, count)

    def ask(self, shift: Tensor, count: Tensor) -> Tensor:
        """Query `count` `(A,)` directions around centres `shift` `(A,)` outward of the border: imbalance `(A,)`."""
        problem, border, shape = self.problem, self.border, self.shape
        unit = per_row(problem.on_device(shape.unit))
        point = torch.addcmul(border.point, self.outward, per_row(problem.on_device(shift)) * unit)
        where = Sampling(border.rows, point, shape.spread, shape.scaled * unit, self.across, self.iteration, self.block)
        weights = torch.ones_like(self.classes) if self.rivals is None else self.rivals.weights(self.classes)
        answers = sample(problem, where, count, shape.basis, weights)
        self.classes, self.block = self.classes + answers.classes, self.block + 1
        self.sums = Sums(self.sums.signal.add_(answers.signal), self.sums.squares.add_(answers.squares))
        return answers.imbalance

    def begin_anew(self, who: Tensor, shape: Shape) -> None:
        """Discard the sums of some images, bool `(A,)`, and continue with directions of another shape."""
        self.sums.signal.mul_(per_row(self.problem.on_device(~who)))
        self.sums = self.sums._replace(squares=self.sums.squares * ~who)
        self.shape = shape
