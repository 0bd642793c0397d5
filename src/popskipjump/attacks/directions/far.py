"""Far mode: few short directions for images whose ray is nearly tangential to a curved border.

Far from the border's nearest point the ray has a cosine of about 0.02 with the normal. Directions of the usual length
then end on one side of the border, whatever the shift of their centre along the ray. The spectrum of the change between
two images carries no information about the normal. And the border bends away within a tenth of a radian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.protocols import Move
from popskipjump.errors import InputError

_BALANCED = 0.85  # largest imbalance of a balanced trial: six answers that are not all equal
_UNBALANCED = 0.8  # imbalance of the last answers above which the next iteration begins with a trial
_GOOD = 0.6  # imbalance of the last answers below which directions may grow again
_SIDEWAYS = 2.5  # first shift, in standard deviations of the directions: a test of whether shifts help
_HELPS = 0.3  # change of the imbalance per unit of shift, below which shifts do not help
_CUT, _HALVE, _GROW, _SHORTEST = 0.2, 0.5, 1.15, 1e-3  # factors on the length of directions, and its minimum
_MOST_SHIFT = 2.0  # if shifts do not help, a larger shift means that the directions are too long
_THREEFOLD, _OF_SHIFT = 3.0, 0.25  # large images: growth of shifts; first change of a shift, relative to the shift
_ROOM = 0.15  # large images: largest shift, in units of the distance
_PARTS, _PART = 8, 10  # large images: largest number of blocks per iteration, fewest directions per block
_FURTHEST = 30.0  # largest shift
_FLAT, _NEWEST = 3.0, 0.35  # `bend` begins at ln 3; smallest weight of the newest step in it
_BENDS = (0.5, 20.0)  # limits of a single step's ratio of best angle to angle turned
_TURNED = 0.01  # radians: a smaller turn is that of a ladder without an adversarial rung, whose direction was wrong


Ask = Callable[[Tensor, Tensor], Tensor]  # shifts (A,), and numbers (A,) that the budget may lower -> imbalances (A,)
Shorter = Callable[[Tensor, Tensor], None]  # bool (A,), scales (A,)


class FarState(NamedTuple):
    """State of `FarMode` for each image."""

    far: Tensor  # (A,) bool
    bend: Tensor  # (A,) float64, running logarithm of best angle over angle turned: about ln 2 on a flat border
    dull: Tensor  # (A,) bool, whether shifts along the ray failed to balance the answers
    balanced: Tensor  # (A,) bool, whether the last answers were balanced


class Trial(NamedTuple):
    """A trial: the length and the shift of the next few directions of A images, all `(A,)`.

    Trials look for a length and a shift at which about half of the answers are adversarial.
    """

    shift: Tensor  # float64, of the centre along the ray, in standard deviations of the directions
    scale: Tensor  # float64, factor on the length of directions
    before: Tensor  # float64, shift of the previous trial at this length
    imbalance: Tensor  # float64, of the previous trial; nan if there was none
    dull: Tensor  # bool, see `FarState`

    @classmethod
    def begin(cls, shift: Tensor, scale: Tensor, dull: Tensor) -> Trial:
        """Before the first trial."""
        return cls(shift, scale, shift, torch.full_like(shift, torch.nan), dull)

    def after(self, imbalance: Tensor, asked: Tensor) -> tuple[Trial, Tensor, Tensor]:
        """The next trial; whether these answers were balanced; whether the directions were shortened: bool `(A,)` each.

        Args:
            imbalance: `(A,)` of the newest answers: probit of the share of adversarial ones, 0 for one half.
            asked: bool `(A,)`, the images that were asked.
        """
        balanced = asked & (imbalance.abs() <= _BALANCED)
        lopsided = asked & ~balanced
        first = self.imbalance.isnan()
        slope = (imbalance - self.imbalance) / torch.where(self.shift == self.before, 1.0, self.shift - self.before)
        outside = self.dull & (self.shift.abs() > _MOST_SHIFT)
        cut = lopsided & (outside | self.dull | (~first & (slope < _HELPS)))
        step = torch.where(first, _SIDEWAYS * imbalance.sign(), imbalance / slope.clamp(min=_HELPS))
        moved = (self.shift - step).clamp(-_FURTHEST, _FURTHEST)
        shift = torch.where(cut, 0.0, torch.where(lopsided, moved, self.shift))
        scale = torch.where(cut, _CUT * self.scale, self.scale).clamp(min=_SHORTEST)
        last = torch.where(cut, torch.nan, torch.where(lopsided, imbalance, self.imbalance))
        before = torch.where(lopsided, self.shift, self.before)
        return Trial(shift, scale, before, last, self.dull | cut), balanced, cut

    def shifted(self, imbalance: Tensor, asked: Tensor, room: Tensor) -> Trial:
        """The next trial with a new shift but the same length.

        Each change of the shift is three times the last one, until the imbalance changes sign; then the middle of the
        last two shifts is tried. No shift exceeds `room` `(A,)`.
        """
        lopsided = asked & (imbalance.abs() > _BALANCED)
        first, last = self.imbalance.isnan(), self.shift - self.before
        least = (_OF_SHIFT * self.shift.abs()).clamp(min=_SIDEWAYS)
        onwards = torch.maximum(_THREEFOLD * last.abs(), least)
        step = torch.where(first, least, onwards) * -imbalance.sign()
        passed = ~first & (imbalance * self.imbalance < 0)
        moved = torch.where(passed, 0.5 * (self.shift + self.before), self.shift + step)
        shift = torch.where(lopsided, torch.maximum(torch.minimum(moved, room), -room), self.shift)
        before = torch.where(lopsided, self.shift, self.before)
        return self._replace(shift=shift, before=before, imbalance=torch.where(lopsided, imbalance, self.imbalance))


@dataclass(frozen=True)
class FarMode:
    """Far mode: few, short and unfiltered directions while a walk is far from the border's nearest point.

    A walk begins in this mode if its image is large, or if no patterns were tried as starts, because a given start is
    usually far. Every step measures the curvature: on a flat border the best angle is about twice the largest
    adversarial rung of the ladder (see `ArcStep`), and on a curved border it is more. The mode ends when the border
    looks flat.

    Args:
        directions: largest number of directions of the first iteration.
        scale: initial length of the directions, in units of the usual one.
        trial: number of directions of one trial.
        trials: largest number of trials of an iteration.
        leave: the mode ends when the mean ratio of best angle to angle turned falls below this: the border is flat.
        sure: turn, in radians, whose measurement replaces all earlier ones: a long flat stretch is conclusive.
        growth: growth of that number in each further iteration, as a share of `directions`.
        memory: weight of the earlier estimates of the normal in the new one, per iteration.
    """

    directions: int = 20
    scale: float = 0.3
    trial: int = 6
    trials: int = 7
    leave: float = 2.0
    sure: float = 0.7
    growth: float = 0.1
    memory: float = 0.6

    def __post_init__(self) -> None:
        check_types(self)
        if min(self.directions, self.trial, self.trials) < 1 or not (
            0 < self.scale <= 1 and min(self.leave, self.sure) > 0
        ):
            raise InputError(f"numbers are at least 1, scale is a share, leave and sure are positive: {self}.")
        if not (self.growth >= 0 and 0 <= self.memory < 1):
            raise InputError(f"growth is at least 0, and memory is at least 0 and below 1: {self}.")

    def begin(self, far: Tensor) -> FarState:
        """The initial state: bool `(A,)`, the images that begin in far mode."""
        bend = torch.full((len(far),), math.log(_FLAT), dtype=torch.float64)
        return FarState(far, bend, torch.zeros_like(far), torch.zeros_like(far))

    def count(self, iteration: int) -> int:
        """Directions of an iteration: more of them later, when a small error of the direction costs more."""
        return int(self.directions * (1 + self.growth * (iteration - 1)))

    def ask_trials(
        self, ask: Ask, shorter: Shorter, counts: Tensor, trial: Trial, state: FarState, last: Tensor
    ) -> tuple[FarState, Trial, Tensor]:
        """Query `counts` `(A,)` directions; images whose last answers were not balanced make trials first.

        Args:
            ask: queries directions.
            shorter: discards the answers of some images, bool `(A,)`, and sets the next scales `(A,)` of directions.
            counts: int64 `(A,)`.
            trial: the first trial.
            state: the state of the images.
            last: `(A,)` imbalance of the last answers.

        Returns:
            The new state; the trial to continue from; the imbalance `(A,)` of the last answers.
        """
        told, trying = torch.zeros_like(counts), ~state.balanced
        for number in range(self.trials + 1):
            rest = number == self.trials or not bool(trying.any())
            count = (counts - told).clamp(min=0) if rest else self.trial * trying
            imbalance = ask(trial.shift, count)
            told = told + count
            last = torch.where(count > 0, imbalance, last)
            if rest:
                break
            trial, balanced, cut = trial.after(imbalance, count > 0)
            trying = trying & ~balanced & (count > 0)
            if bool(cut.any()):
                told = torch.where(cut, 0, told)
                shorter(cut, trial.scale)
        return *self._rescaled(state, trial, last), last

    def ask_parts(
        self, ask: Ask, counts: Tensor, trial: Trial, state: FarState, last: Tensor, relative: Tensor
    ) -> tuple[FarState, Trial, Tensor]:
        """`ask_trials` for large images: directions keep their length, and the centre is corrected after each block.

        Shorter directions would estimate the normal at a point instead of its mean over the length of a step.

        Args:
            ask: see `ask_trials`.
            counts: see `ask_trials`.
            trial: see `ask_trials`.
            state: see `ask_trials`.
            last: see `ask_trials`.
            relative: `(A,)` standard deviation of a direction along the normal, in units of the distance.
        """
        told, part = torch.zeros_like(counts), (counts // _PARTS).clamp(min=_PART)
        while bool((told < counts).any()):
            count = torch.minimum(counts - told, part)
            imbalance = ask(trial.shift, count)
            if not bool((count > 0).any()):
                break  # the budget is spent
            told, last = told + count, torch.where(count > 0, imbalance, last)
            trial = trial.shifted(imbalance, count > 0, _ROOM / relative)
        return state._replace(balanced=last.abs() <= _UNBALANCED), trial, last

    def _rescaled(self, state: FarState, trial: Trial, imbalance: Tensor) -> tuple[FarState, Trial]:
        """The state and the trial at the end of an iteration, from the imbalance `(A,)` of its last answers."""
        off = imbalance.abs()
        long = trial.dull & (trial.shift > _MOST_SHIFT)
        good = (off < _GOOD) & ((trial.shift < 1) | ~trial.dull)
        factor = torch.where(long, _HALVE, torch.where(good, _GROW, 1.0))
        scale = (factor * trial.scale).clamp(_SHORTEST, 1.0)
        trial = trial._replace(scale=scale, shift=torch.where(long, 0.0, trial.shift))
        return state._replace(dull=trial.dull, balanced=off <= _UNBALANCED), trial

    def learn(self, state: FarState, before: Border, found: Border, move: Move) -> FarState:
        """The state after a step, which measures the curvature of the border."""
        turned = move.angle.clamp(min=1e-3)
        gain = before.distance / found.distance.clamp(min=1e-12)
        best = torch.atan((gain - torch.cos(turned)) / torch.sin(turned))
        ratio = (best / turned).clamp(*_BENDS).log()
        told = state.far & found.seen & (move.angle > _TURNED)
        newest = (move.angle / self.sure).clamp(_NEWEST, 1.0)  # a border that is flat over a long way is flat
        bend = torch.where(told, (1 - newest) * state.bend + newest * ratio, state.bend)
        return state._replace(bend=bend, far=state.far & (bend >= math.log(self.leave)))
