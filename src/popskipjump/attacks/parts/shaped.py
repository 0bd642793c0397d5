"""Directions that follow what is known of the border: its spectrum, its curvature, its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.parts.basis import Basis, basis_of
from popskipjump.attacks.parts.direction import CHUNK
from popskipjump.attacks.parts.pool import DirectionPool, block_rows
from popskipjump.attacks.parts.spectrum import Belief, Evidence, amplitudes, even, filtered, infer
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import per_row
from popskipjump.sigmoid import answer_correlation

_FURTHEST = (-6.0, 30.0)  # shift of the sampling centre, in standard deviations of the directions along the normal


@dataclass(frozen=True)
class ShapedDirections:
    """Estimates the normal across the ray from directions that are shaped, tangential and balanced.

    Shaped: drawn with the spectrum that earlier answers make likely, and filtered by it. Tangential: across the ray
    from the original, because the normal's part along the ray is no news. Balanced: around a point a little further
    out than the border, so that about half of the answers are adversarial in spite of the border's curvature.

    Args:
        radius: length of a direction in units of the distance.
        reach: largest radius under noise; see `_radius`.
        factor: on the number of directions.
        fewest, most: directions of one iteration.
        halves: parts of an iteration between which the balance is adjusted.
        balance: how much of the measured imbalance to correct at once; 0 leaves the centre on the border.
        shaped: learn the spectrum; otherwise directions are even in all frequencies.
        tangential: draw across the ray.
        decay: how much of the evidence for the spectrum lasts to the next iteration.
        least: smallest variance of a frequency in units of the largest.
    """

    radius: float = 0.4
    reach: float = 2.0
    span: float = 1.0
    factor: float = 1.0
    fewest: int = 20
    most: int = 3000
    halves: int = 2
    balance: float = 0.7
    shaped: bool = True
    tangential: bool = True
    decay: float = 0.9
    least: float = 0.1

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Direction`."""
        basis = basis_of(problem.shape)
        belief = _remembered(problem, basis, border.rows)
        amplitude = amplitudes(basis, belief, self.least)
        dimensions = 1 / (amplitude**4 @ basis.size.to(amplitude.device)).to("cpu", torch.float64)  # (A,)
        radius = self._radius(problem, border, dimensions)
        counts = self._counts(problem, border, belief, basis, radius / dimensions.sqrt(), iteration)
        asked = self._ask(problem, border, basis, amplitude, radius, dimensions, counts, iteration)
        belief = self._learn(problem, border.rows, basis, belief, asked)
        return basis.to_points(filtered(basis, belief, asked))

    def _radius(self, problem: Problem, border: Border, dimensions: Tensor) -> Tensor:
        """Length of the directions, in units of the distance: `(A,)`.

        Under noise with a gradual transition the directions must span its width, or every answer is a coin.
        """
        width = problem.notes.read("width", border.rows, 0.0)
        span = self.span * dimensions.sqrt() * width
        scale = problem.notes.read("scale", border.rows, 1.0)
        return torch.sqrt((scale * self.radius) ** 2 + span**2).clamp(max=max(self.reach, self.radius))

    def _counts(self, problem: Problem, border: Border, belief: Belief, basis: Basis, unit: Tensor, iteration: int) -> Tensor:
        """How many directions pay: int64 `(A,)`.

        A step gains in proportion to the squared cosine, n k / (K + n k) for n answers of strength k on a normal of K
        dimensions, and costs n + m with a search of m: the gain per query is largest at n = sqrt(K m / k).
        """
        size = basis.size.to(belief.variance.device)
        dimensions = 1 / (belief.variance**2 @ size).to("cpu", torch.float64)
        width = problem.notes.read("width", border.rows, 0.0).clamp(min=1e-6)
        steep = unit / (4 * width)  # of the transition, along a direction
        lost = problem.notes.read("lost", border.rows, 0.0)
        signal = answer_correlation(torch.zeros_like(steep), steep, 1.0, lost).clamp(min=1e-2) ** 2
        search = border.searched.to(torch.float64).clamp(8, 200 if iteration > 1 else 12)
        wanted = self.factor * (dimensions * search / signal).sqrt()
        spare = (problem.affordable(border.rows) - border.searched).clamp(min=0)
        return torch.minimum(wanted.clamp(self.fewest, self.most).to(torch.int64), spare)

    def _ask(
        self,
        problem: Problem,
        border: Border,
        basis: Basis,
        amplitude: Tensor,
        radius: Tensor,
        dimensions: Tensor,
        counts: Tensor,
        iteration: int,
    ) -> Evidence:
        """Ask around the border in parts, adjusting the balance between them; displacements in units of `unit`."""
        rows, device = border.rows, problem.device
        original = problem.original[rows.to(device)]
        change = border.point - original
        distance = problem.norm.size(change).to("cpu", torch.float64)
        unit = radius * distance / dimensions.sqrt()  # standard deviation along a direction of the likely ones
        deviation = amplitude * per_row(problem.on_device(radius * distance))
        shift = problem.notes.read("shift", rows, 0.0)
        outward = (
            problem.norm.ascent(change)
            if problem.norm.name == "l2"
            else change / per_row(problem.on_device(distance.clamp(min=1e-12)))
        )
        signal = torch.zeros(len(rows), problem.dimension, device=device)
        squares = torch.zeros(len(rows), dtype=torch.float64)
        for part in range(self.halves):
            count = (counts * (part + 1)) // self.halves - (counts * part) // self.halves
            centre = border.point + per_row(problem.on_device(shift * unit)) * outward
            answers = sample(
                problem,
                Sampling(rows, centre, deviation, change if self.tangential else None, count, iteration, part),
                basis,
            )
            signal += answers.signal
            squares += answers.squares
            last = answers.imbalance
            shift = (shift - self.balance * answers.imbalance).clamp(*_FURTHEST) if self.balance else shift
        scale = problem.notes.read("scale", rows, 1.0)
        lost = (last.abs() > 1.5) & (shift.abs() > 2.0)
        fresh = torch.where(lost, scale * 0.4, (scale * 1.15).clamp(max=1.0)).clamp(min=0.01)
        problem.notes.write("scale", rows, fresh)
        problem.notes.write("shift", rows, torch.where(lost, 0.0, shift))
        weight = (deviation / per_row(problem.on_device(unit))) ** 2
        return Evidence(
            basis.to_coefficients(signal) / per_row(problem.on_device(unit)),
            weight * per_row(problem.on_device(squares)),
            weight * per_row(problem.on_device(squares)),
        )

    def _learn(self, problem: Problem, rows: Tensor, basis: Basis, belief: Belief, new: Evidence) -> Belief:
        """Update the belief in the spectrum and the strength of the signal."""
        if not self.shaped:
            return belief
        if "signal-sum" in problem.notes:
            faded = Evidence(*(problem.notes.read(name, rows, 0.0) for name in ("signal-sum", "weight", "noise")))
            evidence = faded.after(new, self.decay)
        else:
            evidence = new
        for name, values in zip(("signal-sum", "weight", "noise"), evidence, strict=True):
            problem.notes.write(name, rows, values)
        belief = infer(basis, evidence)
        problem.notes.write("variance", rows, belief.variance)
        problem.notes.write("strength", rows, belief.strength)
        return belief


def _remembered(problem: Problem, basis: Basis, rows: Tensor) -> Belief:
    """What is believed of the spectra of some images."""
    first = even(basis, len(rows), problem.device)
    if "variance" not in problem.notes:
        return first
    return Belief(problem.notes.read("variance", rows, 0.0), problem.notes.read("strength", rows, 0.0))


class Sampling(NamedTuple):
    """Directions to ask for A images."""

    rows: Tensor  # (A,)
    centre: Tensor  # (A, d)
    deviation: Tensor  # (A, N) of a coefficient, by band
    radial: Tensor | None  # (A, d): directions are drawn across it
    counts: Tensor  # (A,) int64, on the CPU
    iteration: int
    part: int  # of the iteration


class Answers(NamedTuple):
    """What was answered."""

    signal: Tensor  # (A, d) sum of (y - mean y) q over the points q as asked, on the device
    squares: Tensor  # (A,) sum of (y - mean y)^2
    imbalance: Tensor  # (A,) share of adversarial answers, in standard deviations of a normal from one half


def sample(problem: Problem, wanted: Sampling, basis: Basis) -> Answers:
    """Draw directions, ask, and add up on the buffer that the classifier read."""
    pool = DirectionPool.of(problem, sphere=False)
    block = min(CHUNK, block_rows(problem.dimension))
    capacity = max(block, CHUNK) if block_rows(problem.dimension) >= 64 else block
    sums = torch.zeros(len(wanted.counts), 2, problem.dimension, device=problem.device)
    yes = torch.zeros(len(wanted.counts), dtype=torch.float64)
    deviation = basis.spread(wanted.deviation)
    radial = None if wanted.radial is None else problem.norm.ascent(wanted.radial)
    pieces = [
        (image, number, min(block, count - start))
        for image, count in enumerate(wanted.counts.tolist())
        for number, start in enumerate(range(0, count, block))
    ]
    while pieces:
        chunk, filled = [], 0
        while pieces and filled + pieces[0][2] <= capacity:
            filled += pieces[0][2]
            chunk.append(pieces.pop(0))
        images = torch.tensor([image for image, _, _ in chunk])
        sizes = [size for _, _, size in chunk]
        numbers = torch.tensor([1000 * wanted.part + number for _, number, _ in chunk])
        blocks, scales = pool.draw(wanted.rows[images], wanted.iteration, numbers)
        where = images.to(problem.device)
        scales.mul_(deviation[where])
        drawn = torch.empty(filled, problem.dimension, device=problem.device)
        for part, rows, scale, size in zip(torch.split(drawn, sizes), blocks, scales, sizes, strict=True):
            torch.mul(rows[:size], scale, out=part)
        points = basis.to_points(drawn)
        owner = where.repeat_interleave(torch.tensor(sizes, device=problem.device))
        if radial is not None and problem.norm.name == "l2":
            axis = radial[owner]
            points = torch.addcmul(points, axis, per_row((points * axis).sum(dim=1)), value=-1)
        points += wanted.centre[owner]
        decisions = problem.decide(points, wanted.rows[images].repeat_interleave(torch.tensor(sizes)), "direction")
        weights = torch.ones(2, filled, device=problem.device)
        weights[0] = decisions
        weights[0].mul_(2).sub_(1)
        for image, part, weight in zip(
            images.tolist(), torch.split(points, sizes), torch.split(weights, sizes, dim=1), strict=True
        ):
            sums[image].addmm_(weight, part)
        said = torch.tensor([float(part.sum()) for part in torch.split(decisions.cpu(), sizes)], dtype=torch.float64)
        yes.index_add_(0, images, said)
    n = wanted.counts.clamp(min=1)
    share = yes / n
    mean = torch.where((share > 0) & (share < 1), 2 * share - 1, torch.zeros_like(share))
    signal = sums[:, 0] - per_row(problem.on_device(mean)) * sums[:, 1]
    # All answers equal: no information.
    signal *= per_row(problem.on_device((share > 0) & (share < 1)))
    squares = wanted.counts * (1 - (2 * share - 1) ** 2)
    seen = torch.where(wanted.counts > 0, (yes + 0.5) / (n + 1), torch.full_like(yes, 0.5))
    return Answers(signal, squares, torch.special.ndtri(seen))
