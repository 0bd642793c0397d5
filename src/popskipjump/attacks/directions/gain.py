"""Number of directions from the measured gain of earlier steps, for normals of very many effective dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.count import affordable_directions
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Move
from popskipjump.errors import InputError

_MEASURED = (-0.5, 1.2)  # one measurement of the best angle, in radians
_FIRST_ANGLE = 0.5  # best angle assumed before the first measurement
_RATE, _ERROR = 0.3, 0.5  # weight of the newest measurement, and the error of an angle that halves it
_BOTH = 1.4  # error of the difference of two distances, in units of the error of one
_LEAST = 1e-4  # squared tangent of the best angle
_SEARCH = (8, 200)  # limits on the number of search queries m in the rule
_MOST_GAIN = 2.5  # of one step, as a ratio of distances
_GRID = 80  # candidate numbers, compared by their gain per query
_MOST = 3000  # largest of them


class GainState(NamedTuple):
    """State of `MeasuredGain` for each image: all float64 `(A,)`."""

    square: Tensor  # running mean of the squared tangent of the best angle
    number: Tensor  # running mean of the number of directions that gave it
    last: Tensor  # number of directions in the last iteration; 0 before the first


@dataclass(frozen=True)
class MeasuredGain:
    """The number of directions n with the largest gain per query, ln(1 + a n) / (n + m), where a is measured.

    With n answers, a turn by the best angle phi gains ln(1 + tan^2 phi) / 2, and tan^2 phi is proportional to n. Every
    step measures phi, and thereby a = tan^2 phi / n, which depends on the angle between ray and normal and on the
    effective dimensions of the normal. For few dimensions, `GainOptimalCount` is accurate enough.

    Args:
        dimensions: effective dimensions K of the normal above which this rule replaces `GainOptimalCount`.
        first: number of directions in the first iteration.
        fewest: smallest number.
    """

    dimensions: float = 4096.0
    first: int = 25
    fewest: int = 10

    def __post_init__(self) -> None:
        check_types(self)
        if not (self.dimensions >= 0 and 1 <= self.fewest <= self.first):
            raise InputError(f"dimensions is at least 0, fewest at least 1 and no more than first: {self}.")

    def begin(self, images: int) -> GainState:
        """Before the first iteration."""
        one = torch.ones(images, dtype=torch.float64)
        return GainState(math.tan(_FIRST_ANGLE) ** 2 * one, self.first * one, 0 * one)

    def __call__(
        self, problem: Problem, border: Border, counts: Tensor, many: Tensor, state: GainState
    ) -> tuple[Tensor, GainState]:
        """Numbers of directions, int64 `(A,)`: this rule's where `many` `(A,)` is true, else `counts`."""
        if not bool(many.any()):
            return counts, state._replace(last=counts.to(torch.float64))
        a = state.square.clamp(min=_LEAST) / state.number.clamp(min=1)
        numbers = torch.logspace(math.log10(self.fewest), math.log10(_MOST), _GRID, dtype=torch.float64)
        search = border.searched.to(torch.float64).clamp(*_SEARCH).unsqueeze(1)
        gain = torch.log1p(a.unsqueeze(1) * numbers) / (numbers + search)
        best = numbers[gain.argmax(dim=1)]
        best = torch.where(state.last > 0, torch.minimum(best, 2 * state.last), self.first)
        wanted = torch.minimum(best.clamp(min=self.fewest).to(torch.int64), affordable_directions(problem, border))
        chosen = torch.where(many, wanted, counts)
        return chosen, state._replace(last=chosen.to(torch.float64))

    def learn(self, state: GainState, before: Border, found: Border, move: Move) -> GainState:
        """The state after a step, which measures the best angle."""
        turned = move.angle.clamp(min=1e-3)
        sine, gain = torch.sin(turned), before.distance / found.distance.clamp(min=1e-12)
        best = torch.atan((gain - torch.cos(turned)) / sine).clamp(*_MEASURED)
        tangent = torch.tan(torch.where(found.seen, best, 0.0))
        if move.far is not None:  # a ladder turns by less than the best angle of a plane: what it gained is what counts
            gained = (gain.clamp(max=_MOST_GAIN) ** 2 - 1).clamp(min=0).sqrt()
            tangent = torch.where(move.far & found.seen, gained, tangent)
        error = _BOTH * found.deviation / (before.distance * sine).clamp(min=1e-12)
        rate = torch.where(move.angle > 0, _RATE / (1 + (error / _ERROR) ** 2), 0.0)
        square = (1 - rate) * state.square + rate * tangent * tangent.abs()
        return state._replace(square=square.clamp(min=_LEAST), number=(1 - rate) * state.number + rate * state.last)
