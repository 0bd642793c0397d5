"""Asking in shaped directions around points, and adding up the answers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.parts.basis import Basis
from popskipjump.attacks.parts.chunks import STRETCH, Chunk, capacity_of, chunks_of, drawn, empty_sums, stretches
from popskipjump.attacks.parts.contrast import SLOTS
from popskipjump.attacks.parts.pool import DirectionPool, block_rows
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import per_row, row_sums

_PARTS_APART = 1000  # blocks of directions between the parts of an iteration


class Sampling(NamedTuple):
    """Where to ask, for A images."""

    rows: Tensor  # (A,)
    centre: Tensor  # (A, d)
    spread: Tensor  # (A, d) by which directions are multiplied
    deviation: Tensor  # (A, N) standard deviation of a coefficient, by band
    radial: Tensor | None  # (A, d) of length 1: directions are drawn across it
    iteration: int
    part: int  # of the iteration


class Answers(NamedTuple):
    """What was answered; y is the weight of an adversarial answer, doubled, and 0 otherwise."""

    signal: Tensor  # (A, d) sum of (y - mean y) q over the points q as asked, on the device
    squares: Tensor  # (A,) float64, sum of (y - mean y)^2
    imbalance: Tensor  # (A,) float64, share of adversarial answers, in standard deviations of a normal from one half
    classes: Tensor  # (A, SLOTS) adversarial answers by class, on the device


def sample(problem: Problem, where: Sampling, counts: Tensor, basis: Basis, weights: Tensor) -> Answers:
    """Draw directions, ask, and add up on the buffer that the classifier read.

    Args:
        problem: what is asked.
        where: A images.
        counts: `(A,)` int64 on the CPU.
        basis: of the directions.
        weights: `(A, SLOTS)` of adversarial answers by class, on the device.
    """
    sums = empty_sums(len(counts), problem.dimension, problem.device)
    totals, classes = sums.unbind(0), torch.zeros_like(weights)
    block, capacity = block_rows(problem.dimension), capacity_of(problem.dimension)
    factors = torch.ones(2, capacity, device=problem.device)
    pool = DirectionPool.of(problem, sphere=False)
    chunks = chunks_of(counts.tolist(), block, capacity, STRETCH)
    points_of = _Points(where, basis, problem.memory("points", capacity), problem.memory("half-way points", capacity))
    scale = basis.spread(where.deviation)
    for chunk in drawn(problem, pool, chunks, where.rows, scale, where.iteration, _PARTS_APART * where.part):
        images, sizes = stretches(chunk.pieces)
        points, parts = points_of(chunk, images, sizes)
        labels, decided = problem.label(points, chunk.rows, "direction")
        cell = labels.remainder(SLOTS).add_(chunk.images, alpha=SLOTS)
        factor = factors[:, : len(points)]
        torch.mul(weights.view(-1).index_select(0, cell), decided, out=factor[0])
        classes.view(-1).index_add_(0, cell, decided.to(classes.dtype))  # whole numbers: in any order
        for image, asked, mine in zip(images, parts, torch.split(factor, sizes, dim=1), strict=True):
            totals[image].addmm_(mine, asked)
    return _answers(problem, sums, classes, weights, counts)


class _Points:
    """The points to ask, from the directions of a chunk."""

    def __init__(self, where: Sampling, basis: Basis, *memory: Tensor) -> None:
        self.basis, self.memory = basis, memory  # twice `(M, d)`
        self.centre, self.spread = where.centre.unbind(0), where.spread.unbind(0)
        self.radial = None if where.radial is None else where.radial.unbind(0)
        self.inward = None if where.radial is None else (where.radial * where.spread).neg_().unbind(0)

    def __call__(self, chunk: Chunk, images: list[int], sizes: list[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`(M, d)`, until the next call, as a whole and in the stretches that belong to images."""
        coefficients, spare = (memory[: len(chunk.rows)] for memory in self.memory)
        pieces = torch.split(coefficients, [piece.size for piece in chunk.pieces])
        for piece, block, scale in zip(pieces, chunk.blocks, chunk.scales, strict=True):
            torch.mul(block, scale, out=piece)
        points, free = self.basis.turn_to_points(coefficients, spare)
        parts: tuple[Tensor, ...] = torch.split(points, sizes)
        if self.inward is None or self.radial is None:
            for image, part in zip(images, parts, strict=True):
                torch.addcmul(self.centre[image], part, self.spread[image], out=part)
            return points, parts
        # Products and their sums: the digits of a product with a vector depend on where its rows lie in memory.
        for image, part, product in zip(images, parts, torch.split(free, sizes), strict=True):
            torch.mul(part, self.inward[image], out=product)
        for image, part, along in zip(images, parts, torch.split(row_sums(free), sizes), strict=True):
            torch.addcmul(self.centre[image], part, self.spread[image], out=part).addr_(along, self.radial[image])
        return points, parts


def _answers(problem: Problem, sums: Tensor, classes: Tensor, weights: Tensor, counts: Tensor) -> Answers:
    """The sums of weighed answers as those of answers less their mean: `(A, 2, d)`, `(A, SLOTS)` twice, `(A,)`."""
    n = counts.clamp(min=1)
    weighed = problem.on_cpu(torch.stack((classes, classes * weights, classes * weights**2)).sum(dim=2))
    yes, total, squares = weighed.unbind(0)
    told = squares - total**2 / n  # 0 where all answers are equal: they tell nothing
    told = torch.where(told > 1e-6 * n, told, 0.0)
    signal = torch.addcmul(sums[:, 0], sums[:, 1], per_row(problem.on_device(-total / n)))
    signal.mul_(per_row(problem.on_device(2.0 * (told > 0))))
    seen = torch.where(counts > 0, (yes + 0.5) / (n + 1), 0.5)
    return Answers(signal, 4 * told, torch.special.ndtri(seen), classes)
