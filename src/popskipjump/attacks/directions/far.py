"""Far borders: where the ray is nearly tangential to a border that bends, few short directions are worth most.

Far from the border's nearest point the ray has a cosine of about 0.02 with the normal. Directions of the usual length
then end on one side, whatever the shift of their centre along the ray; the spectrum of the change between two images
says nothing about the normal; and the border bends away within a tenth of a radian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.protocols import Move
from popskipjump.errors import InputError

_BALANCED = 0.85  # standard deviations: with six answers, they are not all equal
_UNBALANCED = 0.8  # the same after an iteration: the next one begins with a trial
_GOOD = 0.6  # the same: directions may grow again
_SIDEWAYS = 2.5  # first shift, to see whether a shift helps
_HELPS = 0.3  # standard deviations of balance for each of shift, below which shifts do not help
_CUT, _HALVE, _GROW, _SHORTEST = 0.2, 0.5, 1.15, 1e-3  # of the length of directions
_MOST_SHIFT = 2.0  # where shifts do not help, a shift beyond this says that directions are too long
_THREEFOLD, _OF_SHIFT = 3.0, 0.25  # of large images: how shifts grow, and the first one, in units of the last shift
_ROOM = 0.15  # of large images: the largest shift, in units of the distance
_PARTS, _PART = 8, 10  # of large images: parts of an iteration at most, and directions of one at least
_FURTHEST = 30.0  # largest shift
_FLAT, _NEWEST = 3.0, 0.35  # first `bend` is ln 3, and the least weight of the newest step in it
_BENDS = (0.5, 20.0)  # what a single step may say
_TURNED = 0.01  # radians: a smaller turn is that of a ladder without an adversarial rung, whose direction was wrong


Ask = Callable[[Tensor, Tensor], Tensor]  # shifts (A,), and numbers (A,) that the budget may lower -> imbalances (A,)
Shorter = Callable[[Tensor, Tensor], None]  # bool (A,), scales (A,)


class FarState(NamedTuple):
    """What `FarMode` remembers of each image."""

    far: Tensor  # (A,) bool
    bend: Tensor  # (A,) float64, running logarithm of best angle over angle turned: about ln 2 on a flat border
    dull: Tensor  # (A,) bool, whether shifts along the ray were seen not to balance the answers
    balanced: Tensor  # (A,) bool, whether the last answers were balanced


class Trial(NamedTuple):
    """How A images look for a length and a shift at which their answers differ: all `(A,)`."""

    shift: Tensor  # float64, of the centre along the ray, in standard deviations of the directions
    scale: Tensor  # float64, factor on the length of directions
    before: Tensor  # float64, the shift of the trial before at this length
    imbalance: Tensor  # float64, of that trial; nan if there was none
    dull: Tensor  # bool, see `FarState`

    @classmethod
    def begin(cls, shift: Tensor, scale: Tensor, dull: Tensor) -> Trial:
        """Before the first trial."""
        return cls(shift, scale, shift, torch.full_like(shift, torch.nan), dull)

    def after(self, imbalance: Tensor, asked: Tensor) -> tuple[Trial, Tensor, Tensor]:
        """The next trial, bool `(A,)` whether these answers were balanced, and whether directions were cut short.

        Args:
            imbalance: `(A,)` of the newest answers, in standard deviations of a normal from one half.
            asked: bool `(A,)`, whose answers these are.
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
        """The next trial by a shift alone, up to `room` `(A,)`: threefold steps until the imbalance changes sign."""
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
    """Begins walks from starts that were not compared with others with few, short, unfiltered directions.

    Every step tells whether the border bends: on a flat one, the best angle is about twice the largest rung of the
    ladder that was adversarial (see `ArcStep`), and more on one that bends. Where borders look flat, the mode ends.

    Args:
        directions: of an iteration at most.
        scale: first length of directions, in units of the usual one.
        trial: directions of one trial, to see whether answers differ.
        trials: of one iteration at most.
        leave: ratio of best angle and angle turned, below which the border is flat.
        sure: a turn, in radians, after which this is sure.
    """

    directions: int = 20
    scale: float = 0.3
    trial: int = 6
    trials: int = 7
    leave: float = 2.4
    sure: float = 0.7

    def __post_init__(self) -> None:
        if min(self.directions, self.trial, self.trials) < 1 or not (
            0 < self.scale <= 1 and min(self.leave, self.sure) > 0
        ):
            raise InputError(f"numbers are at least 1, scale is a share, leave and sure are positive: {self}.")

    def begin(self, far: Tensor) -> FarState:
        """Bool `(A,)`: which images begin far."""
        bend = torch.full((len(far),), math.log(_FLAT), dtype=torch.float64)
        return FarState(far, bend, torch.zeros_like(far), torch.zeros_like(far))

    def ask_trials(
        self, ask: Ask, shorter: Shorter, counts: Tensor, trial: Trial, state: FarState, last: Tensor
    ) -> tuple[FarState, Trial, Tensor]:
        """Ask `counts` `(A,)` directions, with trials before where the last answers (`last`) were not balanced.

        Args:
            ask: asks directions.
            shorter: throws away what was asked about some images, bool `(A,)`, and goes on with `(A,)` other scales.
            counts: int64 `(A,)`.
            trial: where to begin.
            state: of the images.
            last: `(A,)` imbalance of the last answers.

        Returns:
            the new state, the shift and scale to go on with, and the imbalance `(A,)` of the last answers.
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
        """The same for large images: their directions keep their length, and the centre is corrected after each part.

        Shorter directions would tell the border's normal at a point, and not the mean one over the length of a step.

        Args:
            ask: see `ask_trials`.
            counts: likewise.
            trial: likewise.
            state: likewise.
            last: likewise.
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
        """After an iteration, whose last answers had this imbalance `(A,)`."""
        off = imbalance.abs()
        long = trial.dull & (trial.shift > _MOST_SHIFT)
        good = (off < _GOOD) & ((trial.shift < 1) | ~trial.dull)
        factor = torch.where(long, _HALVE, torch.where(good, _GROW, 1.0))
        scale = (factor * trial.scale).clamp(_SHORTEST, 1.0)
        trial = trial._replace(scale=scale, shift=torch.where(long, 0.0, trial.shift))
        return state._replace(dull=trial.dull, balanced=off <= _UNBALANCED), trial

    def learn(self, state: FarState, before: Border, found: Border, move: Move) -> FarState:
        """After a step: does the border bend?"""
        turned = move.angle.clamp(min=1e-3)
        gain = before.distance / found.distance.clamp(min=1e-12)
        best = torch.atan((gain - torch.cos(turned)) / torch.sin(turned))
        ratio = (best / turned).clamp(*_BENDS).log()
        told = state.far & found.seen & (move.angle > _TURNED)
        newest = (move.angle / self.sure).clamp(_NEWEST, 1.0)  # a border that is flat over a long way is flat
        bend = torch.where(told, (1 - newest) * state.bend + newest * ratio, state.bend)
        return state._replace(bend=bend, far=state.far & (bend >= math.log(self.leave)))
