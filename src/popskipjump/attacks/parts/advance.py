"""From a border point and a direction to the next search line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import clip, per_row

_MEASURED = (-0.5, 1.2)  # one measurement of an angle; below 0 under noise, which must average out
_BOTH = 1.4  # of two doubtful distances, in units of one
_WINDOW = 0.5  # how far from the predicted distance to look, in units of it, at most; for wide transitions as follows
_INWARD, _OUTWARD = 0.9, 3.0


def step_size(border: Border, iteration: int) -> Tensor:
    """xi_t = ||x_t - x_*|| / sqrt(t): `(A,)`."""
    return border.distance / math.sqrt(iteration)


@dataclass(frozen=True)
class FullStep:
    """PSJ's step: all of xi_t, untested, and then a longer line, so that the next search sees both sides of the border.

    Args:
        enlarge: how much longer than from the original to the new point; 1.5 in the paper.
    """

    enlarge: float = 1.5

    def __call__(self, problem: Problem, border: Border, gradient: Tensor, iteration: int) -> Tensor:
        """See `Advance`."""
        original = problem.originals(border.rows)
        step = per_row(problem.on_device(step_size(border, iteration)))
        ahead = border.point + step * problem.norm.ascent(gradient)
        return clip(original + self.enlarge * (ahead - original), problem.bounds)


@dataclass(frozen=True)
class HalvingStep:
    """HSJ's step: halved until its end is adversarial ("geometric progression").

    Args:
        halvings: how often at most; after that the image stays where it is. Without noise the search ends by itself.
    """

    halvings: int = 30

    def __call__(self, problem: Problem, border: Border, gradient: Tensor, iteration: int) -> Tensor:
        """See `Advance`."""
        direction = problem.norm.ascent(gradient)
        outer = border.point.clone()
        step = step_size(border, iteration)
        trying = torch.arange(len(border.rows))
        for _ in range(self.halvings):
            trying = trying[problem.affordable(border.rows[trying]) > 0]
            if not len(trying):
                break
            chosen = problem.there(trying)
            ahead = border.point[chosen] + per_row(problem.on_device(step[trying])) * direction[chosen]
            success = problem.decide(ahead, border.rows[trying], "step")
            outer[chosen[success]] = ahead[success]
            trying = trying[~success.cpu()]
            step = step / 2
        return outer


@dataclass(frozen=True)
class ArcStep:
    """A step on the circle through the original and the border point, as far as earlier steps paid.

    On a plane border the nearest point lies on that circle, at the angle of the normal; how far along it a direction
    leads is measured by every step: the ratio of distances before and after gives the angle that would have been best.

    Args:
        first: angle of the first step, in radians.
        smallest: limit of the angle.
        largest: limit of the angle.
        learn: weight of the newest measurement.
        vague: standard deviation of a measurement, in radians, that halves its weight.
        margin: how far beyond the distance before the next search begins.
        roughest: limit of the precision that the next search is asked for, in units of the distance.
    """

    first: float = 0.5
    smallest: float = 0.02
    largest: float = 1.0
    learn: float = 0.3
    vague: float = 0.5
    margin: float = 1.03
    roughest: float = 0.02

    def __post_init__(self) -> None:
        if not (0 < self.smallest <= self.first <= self.largest < math.pi / 2 and 0 <= self.learn <= 1):
            raise InputError(f"angles must lie between 0 and a right angle, in order, and learn is a share: {self}.")
        if self.margin <= 1 or self.vague <= 0:
            raise InputError(f"margin must be above 1 and vague above 0: {self}.")

    def __call__(self, problem: Problem, border: Border, gradient: Tensor, iteration: int) -> Tensor:
        """See `Advance`."""
        rows, notes = border.rows, problem.notes
        angle = self._angle(problem, rows) if problem.norm.round else self._scheduled(border, iteration)
        # Where all answers were equal there is no direction to turn to; the ray as it is can be measured again.
        again = (notes.read("again", rows, 0.0) > 0) | (notes.read("told", rows, 1.0) == 0)
        notes.write("again", rows, torch.zeros_like(angle))
        notes.write("angle", rows, angle)
        notes.write("before", rows, border.distance)
        turned = torch.where(again, 0.0, angle)
        notes.write("turned", rows, turned)
        enlarge = self._aim(problem, rows, turned, again)
        original = problem.originals(rows)
        change = problem.norm.turn(border.point - original, gradient, problem.on_device(turned))
        ahead = clip(original + change, problem.bounds)
        return clip(original + per_row(problem.on_device(enlarge)) * (ahead - original), problem.bounds)

    @staticmethod
    def _scheduled(border: Border, iteration: int) -> Tensor:
        """PSJ's step, for norms in which many wrong signs must average out and no single step can be judged: `(A,)`."""
        return torch.atan(step_size(border, iteration) / border.distance.clamp(min=1e-12))

    def _angle(self, problem: Problem, rows: Tensor) -> Tensor:
        """How far to turn, from how far it paid to turn before: `(A,)`."""
        notes = problem.notes
        angle = notes.read("angle", rows, self.first)
        if "reached" not in notes:
            return angle
        turned = notes.read("turned", rows, 0.0)
        before = notes.read("before", rows, 0.0)
        gain = before / notes.read("reached", rows, 0.0).clamp(min=1e-12)
        best = torch.atan((gain - torch.cos(turned)) / torch.sin(turned.clamp(min=1e-3))).clamp(*_MEASURED)
        best = torch.where(notes.read("missing", rows, 0.0) > 0, 0.0, best)
        best = torch.where(turned > 0, best, angle)  # a ray that was measured again says nothing of the angle
        # How well it was measured: both distances are as doubtful as the last search, and a small turn magnifies that.
        error = _BOTH * notes.read("doubt", rows, 0.0) / (before * torch.sin(turned.clamp(min=1e-3))).clamp(min=1e-12)
        learn = self.learn / (1 + (error / self.vague) ** 2)
        return ((1 - learn) * angle + learn * best).clamp(self.smallest, self.largest)

    def _aim(self, problem: Problem, rows: Tensor, turned: Tensor, again: Tensor) -> Tensor:
        """Tell the next search where to look, and how closely; how far to enlarge the step for it: `(A,)`."""
        notes = problem.notes
        width = notes.read("width", rows, 0.0)
        window = 1.5 * turned**2 + 0.01 + 2 * width  # about the predicted distance, on either side
        # A transition as wide as the distance must be seen as a whole, or its place drifts inward unnoticed.
        inner, window = (torch.minimum(window, (2 * width).clamp(_WINDOW, most)) for most in (_INWARD, _OUTWARD))
        beyond = torch.where(again, 5 * (self.margin - 1) + 1, self.margin) / torch.cos(turned)
        enlarge = torch.maximum(1 + window, beyond)
        span = 1 - (1 - inner) / enlarge
        notes.write("span", rows, span)
        notes.write("expected", rows, (1 - 1 / enlarge) / span)
        notes.write("tolerance", rows, (0.3 * turned**2).clamp(0.002, self.roughest))
        return enlarge
