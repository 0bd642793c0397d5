"""QuickSkipJump's estimate of the normal, from directions whose distribution adapts to earlier answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.adaptive.active_bounds import ActiveBounds, Push
from popskipjump.attacks.directions.adaptive.centring import CentreShift
from popskipjump.attacks.directions.adaptive.count import GainOptimalCount
from popskipjump.attacks.directions.adaptive.dct import Basis, basis_of
from popskipjump.attacks.directions.adaptive.envelope import envelope, evenness, within_bounds
from popskipjump.attacks.directions.adaptive.radius import AdaptiveRadius
from popskipjump.attacks.directions.adaptive.rival_weights import SLOTS, RivalWeights
from popskipjump.attacks.directions.adaptive.sampling import Questions, Shape, Sums
from popskipjump.attacks.directions.adaptive.spectrum import (
    Evidence,
    amplitudes,
    even,
    expected,
    filtered,
    infer,
)
from popskipjump.attacks.directions.adaptive.spectrum_prior import FirstChange, SpectrumPrior
from popskipjump.attacks.directions.far import FarMode, FarState, Trial
from popskipjump.attacks.directions.gain import GainState, MeasuredGain
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Begun, Move
from popskipjump.attacks.rows import replace_rows, select_rows
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size, per_row
from popskipjump.sigmoid import answer_correlation

_NEAREST = 1e-6  # smallest distance, in units of the range: a border at the original must not give length 0
_LARGE = 0.5  # an image is large if classifiers use less than this share of its frequencies
_WEAKEST = 1e-2  # smallest correlation of an answer with the normal that a search can measure


class DirectionState(NamedTuple):
    """State of `AdaptiveDirections` for each image."""

    first_change: FirstChange  # prior of the spectrum
    centre: CentreShift
    classes: Tensor  # (A, SLOTS) adversarial answers so far, by class
    far: FarState
    gain: GainState
    push: Push | None = None  # evidence for the normal at the bounds; None before the first answers
    evidence: Evidence | None = None  # for the spectrum; None before the first answers
    variance: Tensor | None = None  # (A, N) of the normal, by band, given the evidence; None before the first answers
    recalled: Tensor | None = None  # (A, d) decaying sum of earlier estimates; None if no image begins in far mode


@dataclass(frozen=True)
class AdaptiveDirections:
    """Estimates the normal across the ray from directions that are shaped, local, tangential and centred.

    Shaped: drawn with the spectrum that earlier answers make likely, and filtered by it. Local: strong where the point
    differs from the original. Tangential: across the ray from the original, because the last search already fixed the
    border along the ray, so that component of the normal carries no new information. Centred: around a point a little
    further out than the border, so that about half of the answers are adversarial in spite of the border's curvature.

    Args:
        radius: length of the directions.
        count: number of directions of an iteration.
        block: directions after which the centre is corrected, within an iteration that asks many.
        centring: share of the measured imbalance that one step corrects; 0 leaves the centre on the border.
        learn_spectrum: learn the spectrum; otherwise directions have the same variance at all frequencies.
        prior: of the spectrum.
        decay: weight of earlier evidence for the spectrum, per iteration.
        least: smallest variance of a frequency in units of the largest.
        local: make directions large where the walk has already changed the input.
        tangential: draw directions across the ray.
        active_bounds: makes directions small where a bound blocks the normal; None for no such part.
        rivals: weights the classes of the answers; None for equal weights.
        far_mode: treats large images, and images for which no patterns were tried as starts; None for no such part.
        gain: number of directions if the normal has very many effective dimensions; None always uses `count`.
    """

    radius: AdaptiveRadius = field(default_factory=AdaptiveRadius)
    count: GainOptimalCount = field(default_factory=GainOptimalCount)
    block: int = 40
    centring: float = 0.7
    learn_spectrum: bool = True
    prior: SpectrumPrior = field(default_factory=SpectrumPrior)
    decay: float = 0.9
    least: float = 0.1
    local: bool = True
    tangential: bool = True
    active_bounds: ActiveBounds | None = field(default_factory=ActiveBounds)
    rivals: RivalWeights | None = field(default_factory=RivalWeights)
    far_mode: FarMode | None = field(default_factory=FarMode)
    gain: MeasuredGain | None = field(default_factory=MeasuredGain)

    def __post_init__(self) -> None:
        check_types(self)
        if not (self.block >= 1 and self.centring >= 0):
            raise InputError(f"a block has at least 1 direction, and centring is at least 0: {self}.")
        if not (0 <= self.decay <= 1 and 0 < self.least <= 1):
            raise InputError(f"decay and least are shares, least above 0: {self}.")

    @property
    def fewest(self) -> int:
        """See `Direction`."""
        return self.count.fewest

    def begin(self, problem: Problem, begun: Begun) -> DirectionState:
        """See `Direction`."""
        border, basis = begun.border, basis_of(problem.shape)
        change = border.point - problem.originals(border.rows)
        flat = change / envelope(basis, change) if self.local else change
        first = self.prior.begin(problem, basis, flat, begun.compared)
        classes = torch.zeros(len(border.rows), SLOTS, device=problem.device)
        centre, mode = CentreShift.begin(len(border.rows)), self.far_mode or FarMode()
        # In other norms a single step does not measure the border's curvature.
        may = self.far_mode is not None and problem.norm.judges_steps
        # For a large image no start resembles the normal, and every ray is nearly tangential to the border.
        far = (~begun.compared | _is_large(basis)) & may
        centre = centre._replace(scale=torch.where(far, mode.scale, centre.scale))
        recalled = torch.zeros_like(border.point) if bool(far.any()) and not _is_large(basis) else None
        gain = (self.gain or MeasuredGain()).begin(len(far))
        return DirectionState(first, centre, classes, mode.begin(far), gain, recalled=recalled)

    def far(self, state: DirectionState) -> Tensor | None:
        """See `Direction`."""
        return state.far.far if bool(state.far.far.any()) else None

    def learn(
        self, problem: Problem, before: Border, found: Border, move: Move, state: DirectionState
    ) -> DirectionState:
        """See `Direction`."""
        if self.gain is not None and problem.norm.judges_steps:
            state = state._replace(gain=self.gain.learn(state.gain, before, found, move))
        # Large images stay far: their rays remain nearly tangential.
        if self.far_mode is None or not bool(state.far.far.any()) or _is_large(basis_of(problem.shape)):
            return state
        # Far mode needs a step rule with a ladder of angles.
        ended = state.far._replace(far=torch.zeros_like(state.far.far))
        far = ended if move.far is None else self.far_mode.learn(state.far, before, found, move)
        left = state.far.far & ~far.far  # these images continue as if the walk began here
        scale, shift = torch.where(left, 1.0, state.centre.scale), torch.where(left, 0.0, state.centre.shift)
        return state._replace(far=far, centre=state.centre._replace(scale=scale, shift=shift))

    def __call__(
        self, problem: Problem, border: Border, iteration: int, state: DirectionState
    ) -> tuple[Tensor, DirectionState]:
        """See `Direction`."""
        far = state.far.far
        if not bool(far.any()) or bool(far.all()):
            return self._estimate(problem, border, iteration, state)
        gradient = torch.empty_like(border.point)
        parts = [mask.nonzero().flatten() for mask in (far, ~far)]
        states = []
        for part in parts:
            mine = self._estimate(problem, border.select(part), iteration, select_rows(state, part))
            gradient[problem.index(part)] = mine[0]
            states.append(mine[1])
        whole = select_rows(states[0], torch.zeros_like(far, dtype=torch.int64))  # every row is replaced below
        for part, new in zip(parts, states, strict=True):
            whole = replace_rows(whole, part, new)
        return gradient, whole

    def _estimate(
        self, problem: Problem, border: Border, iteration: int, state: DirectionState
    ) -> tuple[Tensor, DirectionState]:
        """The estimate for images that are all in far mode, or all not."""
        basis = basis_of(problem.shape)
        prior = self.prior(problem, basis, state.first_change, border.width, iteration)
        variance = self._variance(problem, basis, state, prior)
        shape = self._shape(problem, border, basis, variance, state)
        strength = _strength(border, shape)
        dimensions = _participating(basis, variance) * problem.on_cpu(evenness(shape.spread))
        counts = self.count(problem, border, dimensions, strength, iteration)
        far = self.far_mode is not None and bool(state.far.far.any())
        if far:
            counts = torch.full_like(counts, (self.far_mode or FarMode()).count(iteration))
        if self.gain is not None and problem.norm.judges_steps:
            large = (dimensions > self.gain.dimensions) | _is_large(basis)
            counts, gain = self.gain(problem, border, counts, large, state.gain)
            state = state._replace(gain=gain)
        if far:
            sums, shape, state = self._ask_far(problem, border, shape, variance, counts, iteration, state)
        else:
            sums, state = self._ask(problem, border, shape, counts, iteration, state)
        told = per_row(problem.on_device(sums.squares))
        bounds = self._bounds(problem)
        if bounds is not None:
            signal = sums.signal / per_row(problem.on_device(shape.size))
            state = state._replace(push=bounds.learned(state.push, signal, shape.seen**2 * told))
        weight = shape.scaled**2 * told
        unit = per_row(problem.on_device(shape.unit))
        evidence = Evidence(basis.to_coefficients(sums.signal / shape.seen) / unit, weight, weight)
        belief = even(basis, len(prior), problem.device)
        if self.learn_spectrum:
            total = evidence if state.evidence is None else state.evidence.after(evidence, self.decay)
            belief = infer(basis, total, prior, problem.on_device(strength))
            state = state._replace(evidence=total, variance=belief.variance)
        if far:  # filtering by a spectrum without evidence does more harm than good
            return self._with_earlier(sums.signal / unit, state, _is_large(basis))
        return basis.to_points(filtered(basis, belief, evidence)) * shape.seen, state

    def _with_earlier(self, estimate: Tensor, state: DirectionState, large: bool) -> tuple[Tensor, DirectionState]:
        """An estimate of far images `(A, d)` with those of earlier iterations: their normals differ little."""
        if state.recalled is None or large:
            return estimate, state
        estimate = torch.add(estimate, state.recalled, alpha=(self.far_mode or FarMode()).memory)
        return estimate, state._replace(recalled=estimate)

    def _bounds(self, problem: Problem) -> ActiveBounds | None:
        """The part for active bounds; None in norms whose steps use the sign of every coordinate."""
        return None if problem.norm.follows_signs else self.active_bounds

    def _variance(self, problem: Problem, basis: Basis, state: DirectionState, prior: Tensor) -> Tensor:
        """The spectrum of the normal as believed before this iteration's answers: `(A, N)`."""
        if not self.learn_spectrum:
            return even(basis, len(prior), problem.device).variance
        return expected(basis, prior) if state.variance is None else state.variance

    def _shape(self, problem: Problem, border: Border, basis: Basis, variance: Tensor, state: DirectionState) -> Shape:
        """Length, envelope and spectrum of the next directions."""
        change = border.point - problem.originals(border.rows)
        spread = envelope(basis, change) if self.local else torch.ones_like(change)
        amplitude = amplitudes(basis, variance, self.least * basis.resolved)
        dimensions = _participating(basis, amplitude**2)
        distance = problem.on_cpu(l2_size(change)).clamp(min=_NEAREST * problem.bounds.range)
        radius = self.radius(problem, border.width, state.centre.scale, dimensions, distance)
        length = radius * distance
        size = length / problem.dimension**0.5
        bounds = self._bounds(problem)
        if bounds is not None:
            spread = bounds.narrowed(problem, state.push, border.point, size, spread)
        # The classifier sees clipped points: coordinates at a bound vary least.
        seen = spread * within_bounds(border.point, per_row(problem.on_device(size)) * spread, problem.bounds)
        root = dimensions.sqrt()
        scaled = amplitude * per_row(problem.on_device(root))
        return Shape(basis, scaled, radius / root, length / root, size, spread, seen)

    def _ask(
        self,
        problem: Problem,
        border: Border,
        shape: Shape,
        counts: Tensor,
        iteration: int,
        state: DirectionState,
    ) -> tuple[Sums, DirectionState]:
        """Query `counts` `(A,)` directions around the border in blocks, and correct the centre between them."""
        questions = self._questions(problem, border, shape, iteration, state)
        centre = state.centre
        for count in blocks(counts, self.block):
            imbalance = questions.ask(centre.shift, count)
            centre = centre.corrected(imbalance, count > 0, self.centring)
        return questions.sums, state._replace(centre=centre.next_iteration(), classes=questions.classes)

    def _questions(
        self, problem: Problem, border: Border, shape: Shape, iteration: int, state: DirectionState
    ) -> Questions:
        across = self.tangential and problem.norm.has_tangent
        return Questions(problem, border, shape, iteration, state.classes, self.rivals, across)

    def _ask_far(
        self,
        problem: Problem,
        border: Border,
        shape: Shape,
        variance: Tensor,
        counts: Tensor,
        iteration: int,
        state: DirectionState,
    ) -> tuple[Sums, Shape, DirectionState]:
        """Query images in far mode: trials until answers are balanced, then the rest of `counts` `(A,)` directions."""
        mode, centre = self.far_mode or FarMode(), state.centre
        questions = self._questions(problem, border, shape, iteration, state)

        def shorter(cut: Tensor, scale: Tensor) -> None:
            brief = state._replace(centre=centre._replace(scale=scale))
            questions.begin_anew(cut, self._shape(problem, border, shape.basis, variance, brief))

        trial = Trial.begin(centre.shift, centre.scale, state.far.dull)
        if _is_large(shape.basis):
            far, trial, last = mode.ask_parts(
                questions.ask_within, counts, trial, state.far, centre.imbalance, shape.relative
            )
        else:
            far, trial, last = mode.ask_trials(
                questions.ask_within, shorter, counts, trial, state.far, centre.imbalance
            )
        centre = centre._replace(shift=trial.shift, scale=trial.scale, imbalance=last)
        state = state._replace(centre=centre, classes=questions.classes, far=far)
        return questions.sums, questions.shape, state


def _is_large(basis: Basis) -> bool:
    """Whether an image is so large that classifiers use only a small share of its frequencies."""
    return basis.resolved < _LARGE


def blocks(counts: Tensor, block: int) -> Iterator[Tensor]:
    """Divide numbers of directions into nearly equal blocks of at most `block`: int64 `(A,)` -> int64 `(A,)` each."""
    numbers = (counts + block - 1).div(block, rounding_mode="floor").clamp(min=1)  # of blocks, for each image
    for number in range(int(numbers.max())):
        count = (counts * (number + 1)) // numbers - (counts * number) // numbers
        yield torch.where(number < numbers, count, 0)


def _participating(basis: Basis, variance: Tensor) -> Tensor:
    """Participation ratio of a spectrum that adds up to 1: `(A, N)` by band -> float64 `(A,)` on the CPU."""
    return 1 / (variance**2 * basis.band_size.to(variance.device)).sum(dim=1).to("cpu", torch.float64)


def _strength(border: Border, shape: Shape) -> Tensor:
    """Squared correlation of an answer with the normal, by the noise of the last search: float64 `(A,)`."""
    steep = shape.relative / (4 * border.width.clamp(min=1e-6))  # slope along a direction of standard deviation 1
    return answer_correlation(torch.zeros_like(steep), steep, 1.0, border.lost).clamp(min=_WEAKEST) ** 2
