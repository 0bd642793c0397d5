"""QuickSkipJump's step: a turn of the ray on the circle through the original and the border point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Move, Window
from popskipjump.attacks.steps.ladder import LOWEST, climb
from popskipjump.attacks.steps.straight import step_size
from popskipjump.errors import InputError
from popskipjump.geometry import clip, per_row

_MEASURED = (-0.5, 1.2)  # one measurement of an angle; below 0 under noise, which must average out
_BOTH = 1.4  # error of the difference of two distances, in units of the error of one
_SMALLEST_TURN = 1e-3  # radians: lower limit of a divisor
_HALF_WINDOW = 0.5  # largest distance from the predicted border to search, in units of it, on a sharp border
_INWARD, _OUTWARD = 0.9, 3.0  # the same on a wide transition, inwards and outwards
_CURVED, _LEAST, _WIDE = 1.5, 0.01, 2.0  # half the window: 1.5 angle^2 + 0.01 + 2 widths
_REMEASURED = 5  # times the usual margin beyond the border, where a ray is measured again
_OF_RUNG = 0.8  # turn of a far image, in units of the largest adversarial rung
_OF_BEST = 0.7  # angle after a far step, in units of the best one; used once far mode has ended
_INNERMOST, _ROUGH = 0.7, 0.012  # of a far step: end of the window, in units of the prediction, and tolerance
_PRECISE, _FINEST = 0.3, 0.002  # tolerance of the next search: 0.3 angle^2, what the turn can gain, but not below 0.002


class ArcState(NamedTuple):
    """State of `ArcStep` for each image."""

    angle: Tensor  # (A,) float64, of the next step
    rung: Tensor  # (A,) float64, the last one of a ladder that was adversarial


@dataclass(frozen=True)
class ArcStep:
    """A turn of the ray towards the estimated normal, by an angle learned from earlier turns.

    On a plane border the nearest point lies on the circle whose diameter joins the original and the border point, at
    the angle of the normal. The ratio of the distances before and after a step determines which angle would have been
    best. Images in far mode climb a ladder of angles instead (see `climb`), because on a curved border the last angle
    says little about the next.

    Args:
        first: angle of the first step, in radians.
        smallest: lower limit of the angle.
        largest: upper limit of the angle.
        rate: weight of the newest measurement.
        error_scale: standard deviation of a measured angle, in radians, that halves its weight.
        margin: where the next search line begins, in units of the old distance; above 1.
        roughest: upper limit of the tolerance of the next search, in units of the distance.
        first_rung: half of the first angle that an image in far mode tries, in radians.
    """

    first: float = 0.5
    smallest: float = 0.02
    largest: float = 1.0
    rate: float = 0.3
    error_scale: float = 0.5
    margin: float = 1.03
    roughest: float = 0.02
    first_rung: float = 0.1

    def __post_init__(self) -> None:
        check_types(self)
        if not (0 < self.smallest <= self.first <= self.largest < math.pi / 2 and 0 <= self.rate <= 1):
            raise InputError(f"angles must lie between 0 and a right angle, in order, and rate is a share: {self}.")
        if not (self.margin > 1 and min(self.error_scale, self.roughest, self.first_rung) > 0):
            raise InputError(f"margin must be above 1, error_scale, roughest and first_rung above 0: {self}.")

    def begin(self, images: int) -> ArcState:
        """See `StepRule`."""
        one = torch.ones(images, dtype=torch.float64)
        return ArcState(self.first * one, self.first_rung * one)

    def __call__(
        self,
        problem: Problem,
        border: Border,
        gradient: Tensor,
        remeasure: Tensor,
        iteration: int,
        state: ArcState,
        far: Tensor | None = None,
    ) -> Move:
        """See `StepRule`."""
        angle = state.angle if problem.norm.judges_steps else _scheduled(border, iteration)
        # Without an estimate of the normal, the old ray is measured again.
        keep = remeasure | (problem.on_cpu(gradient.abs().amax(dim=1)) == 0)
        turned = torch.where(keep, 0.0, angle)
        climbs = None if far is None else far & ~keep
        if climbs is not None and bool(climbs.any()):
            turned = self._climbed(problem, border, gradient, turned, climbs, state)
        enlarge, window = self._aim(border.width, turned, keep)
        if climbs is not None:
            enlarge, window = self._far_aim(enlarge, window, turned, climbs)
        original = problem.originals(border.rows)
        change = problem.norm.turn(border.point - original, gradient, problem.on_device(turned))
        ahead = clip(original + change, problem.bounds)
        outer = clip(original + per_row(problem.on_device(enlarge)) * (ahead - original), problem.bounds)
        return Move(outer, turned, window, climbs)

    @staticmethod
    def _climbed(
        problem: Problem, border: Border, gradient: Tensor, turned: Tensor, climbs: Tensor, state: ArcState
    ) -> Tensor:
        """The angles with those of far images by their ladders: `(A,)`."""
        who = climbs.nonzero().flatten()
        rungs = climb(problem, border.select(who), gradient[problem.index(who)], state.rung[who])
        return turned.index_copy(0, who, _OF_RUNG * rungs.clamp(min=LOWEST))

    def _far_aim(self, enlarge: Tensor, window: Window, turned: Tensor, climbs: Tensor) -> tuple[Tensor, Window]:
        """`_aim` for images in far mode: a curved border may lie well inside of the predicted one."""
        far = self.margin / torch.cos(turned)
        enlarge = torch.where(climbs, torch.maximum(enlarge, far), enlarge)
        span = torch.where(climbs, 1 - _INNERMOST / enlarge, window.span)
        predicted = torch.where(climbs, (1 - 1 / enlarge) / span, window.predicted)
        tolerance = window.tolerance if window.tolerance is None else torch.where(climbs, _ROUGH, window.tolerance)
        return enlarge, Window(span, predicted, tolerance)

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: ArcState) -> ArcState:
        """See `StepRule`: the angle that would have been best, averaged with earlier ones."""
        angle, turned = state.angle, move.angle
        sine = torch.sin(turned.clamp(min=_SMALLEST_TURN))
        gain = before.distance / found.distance.clamp(min=1e-12)
        best = torch.atan((gain - torch.cos(turned)) / sine).clamp(*_MEASURED)
        best = torch.where(found.seen, best, 0.0)
        best = torch.where(turned > 0, best, angle)  # a ray that was measured again tells nothing about the angle
        # Both distances have the error of the last search, and a small turn magnifies it.
        error = _BOTH * found.deviation / (before.distance * sine).clamp(min=1e-12)
        rate = self.rate / (1 + (error / self.error_scale) ** 2)
        new, rung = (1 - rate) * angle + rate * best, state.rung
        if move.far is not None:
            new = torch.where(move.far, torch.maximum(_OF_BEST * best, turned), new)
            rung = torch.where(move.far, turned / _OF_RUNG, rung)
        return ArcState(new.clamp(self.smallest, self.largest), rung)

    def _aim(self, width: Tensor, turned: Tensor, keep: Tensor) -> tuple[Tensor, Window]:
        """How far to enlarge the step, `(A,)`, and the window of the next search."""
        half = _CURVED * turned**2 + _LEAST + _WIDE * width  # on either side of the predicted distance
        # A transition as wide as the distance must be seen as a whole, or its position drifts inwards unnoticed.
        inner, half = (torch.minimum(half, (2 * width).clamp(_HALF_WINDOW, most)) for most in (_INWARD, _OUTWARD))
        beyond = torch.where(keep, _REMEASURED * (self.margin - 1) + 1, self.margin) / torch.cos(turned)
        enlarge = torch.maximum(1 + half, beyond)
        span = 1 - (1 - inner) / enlarge
        tolerance = (_PRECISE * turned**2).clamp(_FINEST, self.roughest)
        return enlarge, Window(span, (1 - 1 / enlarge) / span, tolerance)


def _scheduled(border: Border, iteration: int) -> Tensor:
    """PSJ's step size as an angle, for norms in which a single step cannot be judged: `(A,)`."""
    return torch.atan(step_size(border, iteration) / border.distance.clamp(min=1e-12))
