"""Active bounds: coordinates at a bound that a step along the normal would push beyond it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.problem import Problem
from popskipjump.elementwise import logistic_
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size, per_row, row_sums

_FREE = 50.0  # log-odds whose logistic function is 1 in float32; from 88 on, exp takes ten times as long
_LOGISTIC = 1.702  # the logistic function of 1.702 z approximates the normal distribution function of z


class Push(NamedTuple):
    """State of `ActiveBounds` for each image: exponentially decaying sums over all answers so far."""

    signal: Tensor  # (A, d) sum of answer times displacement
    variance: Tensor  # (A, d) variance of `signal`


@dataclass(frozen=True)
class ActiveBounds:
    """Shrinks directions in coordinates that are at a bound while the estimated normal points out of the bounds.

    A step cannot follow the normal in these coordinates, so sampling them wastes queries and adds noise to the rest.
    A step consumes the component of the normal that it follows, so that component is not worth remembering. The
    component blocked by a bound is never consumed, stays the same between iterations, and can be remembered.

    Args:
        decay: weight of the sums of earlier iterations.
        near: distance that counts as at a bound, in units of the root mean square of a direction's coordinates.
        least: factor where the normal certainly points outward; above 0, so that later answers can correct it.
    """

    decay: float = 0.97
    near: float = 0.4
    least: float = 0.2

    def __post_init__(self) -> None:
        check_types(self)
        if not (0 <= self.decay <= 1 and 0 < self.least <= 1 and self.near >= 0):
            raise InputError(f"decay and least are shares, least above 0, and near is at least 0: {self}.")

    def narrowed(self, problem: Problem, state: Push | None, point: Tensor, size: Tensor, spread: Tensor) -> Tensor:
        """An envelope of mean square 1, smaller where a bound blocks the normal.

        Args:
            problem: the images and their oracle.
            state: None before the first answers.
            point: `(A, d)` on the boundary.
            size: `(A,)` root mean square of a direction's coordinates.
            spread: `(A, d)` the envelope without bounds.
        """
        bounds, near = problem.bounds, per_row(self.near * problem.on_device(size))
        # Truth values as numbers, and arithmetic: masks and `torch.where` take ten times as long.
        low = torch.le(point, bounds.low + near, out=torch.empty_like(point))
        high = torch.ge(point, bounds.high - near, out=torch.empty_like(point))
        # Positive: inward, or not at a bound.
        slant = self._slant(problem, state, point).mul_(low - high).sub_(low.add_(high).sub_(1), alpha=_FREE)
        narrow = logistic_(slant).clamp_(min=self.least).mul_(spread)
        return narrow.mul_(math.sqrt(problem.dimension) / per_row(l2_size(narrow)))

    def _slant(self, problem: Problem, state: Push | None, point: Tensor) -> Tensor:
        """Log-odds that the normal is positive: `(A, d)`."""
        if state is None:
            return torch.zeros_like(point)
        score = state.signal / state.variance.sqrt().clamp_(min=1e-12)
        # Without a signal the scores have mean square 1; the excess determines how far they are trusted.
        excess = (row_sums(score**2) / problem.dimension - 1).clamp_(min=0)
        return score.mul_(per_row(_LOGISTIC * (excess / (1 + excess)).sqrt()))

    def learned(self, state: Push | None, signal: Tensor, variance: Tensor) -> Push:
        """The state after an iteration's sums of answers and displacements, `(A, d)`, and their variances, `(A, d)`."""
        if state is None:
            return Push(signal, variance)
        return Push(
            torch.add(signal, state.signal, alpha=self.decay),
            torch.add(variance, state.variance, alpha=self.decay**2),
        )
