"""Directions that follow what is known of the border: its spectrum, its curvature, its noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.parts.balance import Balance
from popskipjump.attacks.parts.basis import Basis, basis_of
from popskipjump.attacks.parts.contrast import SLOTS, ClassContrast
from popskipjump.attacks.parts.envelope import envelope, evenness, within_bounds
from popskipjump.attacks.parts.halves import HalfSampleSignal
from popskipjump.attacks.parts.length import LengthByWidth
from popskipjump.attacks.parts.likeness import Likeness
from popskipjump.attacks.parts.number import NumberByGain
from popskipjump.attacks.parts.outward import OutwardMemory
from popskipjump.attacks.parts.sampling import Sampling, sample
from popskipjump.attacks.parts.spectrum import (
    Belief,
    Evidence,
    amplitudes,
    even,
    expected,
    filtered,
    infer,
)
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size, per_row, row_sums
from popskipjump.sigmoid import answer_correlation

_NEAREST = 1e-6  # of the range of the bounds: a border at the original itself must not make directions of length 0
_EVIDENCE = ("signal", "weight", "noise")


@dataclass(frozen=True)
class ShapedDirections:
    """Estimates the normal across the ray from directions that are shaped, local, tangential and balanced.

    Shaped: drawn with the spectrum that earlier answers make likely, and filtered by it. Local: strong where the point
    differs from the original. Tangential: across the ray from the original, because the normal's part along the ray is
    no news. Balanced: around a point a little further out than the border, so that about half of the answers are
    adversarial in spite of the border's curvature.

    Args:
        length: how long directions are.
        number: how many of them there are in an iteration.
        part: directions after which the balance is adjusted, within an iteration that asks many.
        balance: how much of the measured imbalance to correct at once; 0 leaves the centre on the border.
        shaped: learn the spectrum; otherwise directions are even in all frequencies.
        likeness: what is likely of the spectrum beforehand.
        decay: how much of the evidence for the spectrum lasts to the next iteration.
        least: smallest variance of a frequency in units of the largest.
        local: directions are strong where the walk has changed the input already.
        tangential: draw across the ray.
        outward: asks less where a value at its bound cannot follow the normal; None asks there as elsewhere.
        contrast: weighs the classes of the answers; None weighs all alike.
        signal: measures how much an answer tells; None takes what the noise of the last search makes likely.
    """

    length: LengthByWidth = field(default_factory=LengthByWidth)
    number: NumberByGain = field(default_factory=NumberByGain)
    part: int = 40
    balance: float = 0.7
    shaped: bool = True
    likeness: Likeness = field(default_factory=Likeness)
    decay: float = 0.9
    least: float = 0.1
    local: bool = True
    tangential: bool = True
    outward: OutwardMemory | None = field(default_factory=OutwardMemory)
    contrast: ClassContrast | None = field(default_factory=ClassContrast)
    signal: HalfSampleSignal | None = None

    def __post_init__(self) -> None:
        if not (self.part >= 1 and self.balance >= 0):
            raise InputError(f"a part has at least 1 direction, and balance is at least 0: {self}.")
        if not (0 <= self.decay <= 1 and 0 < self.least <= 1):
            raise InputError(f"decay and least are shares, least above 0: {self}.")

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """See `Direction`."""
        rows, basis = border.rows, basis_of(problem.shape)
        prior = self._prior(problem, border, basis, iteration)
        belief = self._remembered(problem, rows, basis, prior)
        outward = self.outward if problem.norm.round else None  # every sign counts for a cube
        shape = self._shape(problem, border, basis, belief, outward)
        strength = self._strength(problem, rows, shape)
        dimensions = _participating(basis, belief.variance) * problem.on_cpu(evenness(shape.spread))
        counts = self.number(problem, border, dimensions, strength, iteration)
        signal, squares, half = self._ask(problem, border, shape, counts, iteration)
        told = per_row(problem.on_device(squares))
        if outward is not None:
            outward.learn(problem, rows, signal / per_row(problem.on_device(shape.size)), shape.seen**2 * told)
        weight = shape.scaled**2 * told
        unit = per_row(problem.on_device(shape.unit))
        evidence = Evidence(basis.to_coefficients(signal / shape.seen) / unit, weight, weight)
        if self.signal is not None and half is not None:
            halves = (half, Half(signal - half.signal, squares - half.squares, counts - half.counts))
            _compare(self.signal, problem, rows, shape, halves, belief)
        if self.shaped:
            belief = self._learn(problem, rows, basis, evidence, prior, strength)
        return basis.to_points(filtered(basis, belief, evidence)) * shape.seen

    def _prior(self, problem: Problem, border: Border, basis: Basis, iteration: int) -> Tensor:
        """Which spectra are likely by the change at the first border: logarithms `(A, J)`."""
        if "likely" not in problem.notes:
            change = border.point - problem.originals(border.rows)
            even_change = change / envelope(basis, change) if self.local else change
            self.likeness.note(problem, border.rows, basis, even_change)
        return self.likeness(problem, border.rows, iteration)

    def _remembered(self, problem: Problem, rows: Tensor, basis: Basis, prior: Tensor) -> Belief:
        """What is believed of the spectra of some images."""
        if not self.shaped:
            return even(basis, len(rows), problem.device)
        if "variance" not in problem.notes:
            return expected(basis, prior)
        return Belief(problem.notes.read("variance", rows, 0.0), problem.notes.read("strength", rows, 0.0))

    def _shape(
        self, problem: Problem, border: Border, basis: Basis, belief: Belief, outward: OutwardMemory | None
    ) -> Shape:
        """How long the next directions are, where and in which frequencies they are strong."""
        change = border.point - problem.originals(border.rows)
        spread = envelope(basis, change) if self.local else torch.ones_like(change)
        amplitude = amplitudes(basis, belief, self.least)
        dimensions = _participating(basis, amplitude**2)
        distance = problem.on_cpu(l2_size(change)).clamp(min=_NEAREST * problem.bounds.range)
        radius = self.length(problem, border.rows, dimensions, distance)
        length = radius * distance
        size = length / problem.dimension**0.5
        if outward is not None:
            spread = outward.narrowed(problem, border.rows, border.point, size, spread)
        # What the classifier sees: clipping takes most from pixels that lie at a bound.
        seen = spread * within_bounds(border.point, per_row(problem.on_device(size)) * spread, problem.bounds)
        root = dimensions.sqrt()
        scaled = amplitude * per_row(problem.on_device(root))
        return Shape(basis, scaled, radius / root, length / root, size, spread, seen)

    def _strength(self, problem: Problem, rows: Tensor, shape: Shape) -> Tensor:
        """How much an answer should tell, by the noise of the last search: squared correlation, float64 `(A,)`."""
        width = problem.notes.read("width", rows, 0.0).clamp(min=1e-6)
        steep = shape.relative / (4 * width)  # slope of the transition along a direction of standard deviation 1
        lost = problem.notes.read("lost", rows, 0.0)
        strength = answer_correlation(torch.zeros_like(steep), steep, 1.0, lost).clamp(min=1e-2) ** 2
        return strength if self.signal is None else self.signal.strength(problem, rows, strength)

    def _ask(
        self, problem: Problem, border: Border, shape: Shape, counts: Tensor, iteration: int
    ) -> tuple[Tensor, Tensor, Half | None]:
        """Ask around the border in parts, adjusting the balance between them.

        Args:
            problem: what is asked.
            border: A points.
            shape: of the directions.
            counts: `(A,)` int64.
            iteration: t, part of the address of the directions.

        Returns:
            The sums of (y - mean y) q, `(A, d)`, and of (y - mean y)^2, float64 `(A,)`; and what the first part alone
            says, where the signal is measured.
        """
        rows, unit = border.rows, per_row(problem.on_device(shape.unit))
        change = border.point - problem.originals(rows)
        outward = change / per_row(l2_size(change)).clamp(min=1e-12)
        across = outward if self.tangential and problem.norm.round else None  # a cube's surface is no sphere
        balance = Balance.remembered(problem, rows)
        signal = torch.zeros_like(change)
        squares = torch.zeros_like(shape.unit)
        nothing = torch.zeros(SLOTS, device=problem.device)
        half = None
        fewest = 1 if self.signal is None else 2
        parts = (counts + self.part - 1).div(self.part, rounding_mode="floor").clamp(min=fewest)  # of each image
        for part in range(int(parts.max())):
            count = (counts * (part + 1)) // parts - (counts * part) // parts
            count = torch.where(part < parts, count, 0)
            centre = torch.addcmul(border.point, outward, per_row(problem.on_device(balance.shift)) * unit)
            where = Sampling(rows, centre, shape.spread, shape.scaled * unit, across, iteration, part)
            classes = problem.notes.read("classes", rows, nothing)
            weights = torch.ones_like(classes) if self.contrast is None else self.contrast.weights(classes)
            answers = sample(problem, where, count, shape.basis, weights)
            problem.notes.write("classes", rows, classes + answers.classes)
            signal += answers.signal
            squares += answers.squares
            if self.signal is not None and half is None:
                half = Half(answers.signal, answers.squares, count)
            balance = balance.corrected(answers.imbalance, count > 0, self.balance)
        balance.note(problem, rows)
        problem.notes.write("told", rows, (squares > 0).to(torch.float64))
        return signal, squares, half

    def _learn(
        self, problem: Problem, rows: Tensor, basis: Basis, new: Evidence, prior: Tensor, strength: Tensor
    ) -> Belief:
        """Add to the evidence for the spectrum, and weigh it."""
        evidence = new
        if _EVIDENCE[0] in problem.notes:
            evidence = Evidence(*(problem.notes.read(name, rows, 0.0) for name in _EVIDENCE)).after(new, self.decay)
        belief = infer(basis, evidence, prior, problem.on_device(strength))
        for name, values in zip((*_EVIDENCE, "variance", "strength"), (*evidence, *belief), strict=True):
            problem.notes.write(name, rows, values)
        return belief


def _participating(basis: Basis, variance: Tensor) -> Tensor:
    """How many coefficients share a variance that adds up to 1: `(A, N)` by band -> float64 `(A,)` on the CPU."""
    return 1 / (variance**2 * basis.size.to(variance.device)).sum(dim=1).to("cpu", torch.float64)


def _compare(
    signal: HalfSampleSignal, problem: Problem, rows: Tensor, shape: Shape, halves: tuple[Half, Half], belief: Belief
) -> None:
    """Let two halves of the answers tell how strong they are."""
    basis = shape.basis
    spectrum = basis.spread(belief.variance * shape.scaled**2)
    spectrum = spectrum / per_row(row_sums(spectrum))
    deviation = basis.spread(shape.scaled * per_row(problem.on_device(shape.unit)))
    one, other = (
        basis.to_coefficients(half.signal / shape.seen)
        / deviation
        / per_row(problem.on_device((half.squares / half.counts.clamp(min=1)).sqrt().clamp(min=1e-6)))
        for half in halves
    )
    pairs = (halves[0].counts * halves[1].counts).to(torch.float64)
    told = (halves[0].squares > 0) & (halves[1].squares > 0)
    signal.learn(problem, rows, (one, other), torch.where(told, pairs, 0.0), spectrum)


class Half(NamedTuple):
    """What some of an iteration's answers say."""

    signal: Tensor  # (A, d) sum of (y - mean y) q
    squares: Tensor  # (A,) float64, sum of (y - mean y)^2
    counts: Tensor  # (A,) int64, answers


class Shape(NamedTuple):
    """What the directions of A images look like."""

    basis: Basis
    scaled: Tensor  # (A, N) standard deviation of a coefficient, by band, in units of `unit`
    relative: Tensor  # (A,) float64, on the CPU: `unit` in units of the distance
    unit: Tensor  # (A,) the same
    size: Tensor  # (A,) the same: root mean square of a value
    spread: Tensor  # (A, d) by which they are multiplied
    seen: Tensor  # (A, d) the same, as the bounds leave it
