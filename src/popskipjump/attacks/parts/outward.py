"""Where an input lies at its bounds: what the answers have shown of a normal that cannot be followed there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size, per_row, row_sums

_FREE = 1000.0  # log-odds whose logistic function is 1 in float32
_LOGISTIC = 1.702  # the logistic function of so many times z is nearly the normal distribution function of z


@dataclass(frozen=True)
class OutwardMemory:
    """Asks less where a value is at a bound and the normal points out of it, as the answers so far say.

    A step cannot follow the normal there, so that answers about these values are wasted, and their part in the answers
    hides the rest. Near the end of a walk that is most of the normal across the ray, and the same from one iteration to
    the next: what a step has used up of an estimate is gone, but this part is never used. Not for L-infinity, where the
    sign of every value counts.

    Args:
        memory: how much of the sums lasts to the next iteration.
        near: what counts as at a bound, in units of the root mean square of a direction's values.
        least: factor where the normal points outward for certain; not 0, so that it can be unlearned.
    """

    memory: float = 0.97
    near: float = 0.4
    least: float = 0.2

    def __post_init__(self) -> None:
        if not (0 <= self.memory <= 1 and 0 < self.least <= 1 and self.near >= 0):
            raise InputError(f"memory and least are shares, least above 0, and near is at least 0: {self}.")

    def narrowed(self, problem: Problem, rows: Tensor, point: Tensor, size: Tensor, spread: Tensor) -> Tensor:
        """An envelope of mean square 1, less where asking is wasted.

        Args:
            problem: what is asked.
            rows: `(A,)`.
            point: `(A, d)` on the border.
            size: `(A,)` root mean square of a direction's values.
            spread: `(A, d)` the envelope without bounds.
        """
        bounds, near = problem.bounds, per_row(self.near * problem.on_device(size))
        low, high = (mask.to(spread.dtype) for mask in (point <= bounds.low + near, point >= bounds.high - near))
        # In arithmetic, because `torch.where` takes ten times as long. Above 0: inward, or not at a bound.
        slant = self._slant(problem, rows, point).mul_(low - high).sub_(low.add_(high).sub_(1), alpha=_FREE)
        narrow = slant.sigmoid_().clamp_(min=self.least).mul_(spread)
        return narrow.mul_(math.sqrt(problem.dimension) / per_row(l2_size(narrow)))

    def _slant(self, problem: Problem, rows: Tensor, point: Tensor) -> Tensor:
        """Log-odds that the normal is positive: `(A, d)`."""
        if "pull" not in problem.notes:
            return torch.zeros_like(point)
        pull, noise = (problem.notes.read(name, rows, 0.0) for name in ("pull", "pull noise"))
        score = pull.div_(noise.sqrt_().clamp_(min=1e-12))
        # Its mean square is 1 without a signal: what is above it tells how much of a score to believe.
        excess = (row_sums(score**2) / problem.dimension - 1).clamp_(min=0)
        return score.mul_(per_row(_LOGISTIC * (excess / (1 + excess)).sqrt()))

    def learn(self, problem: Problem, rows: Tensor, signal: Tensor, noise: Tensor) -> None:
        """Remember an iteration's sums of answers and displacements, `(A, d)`, and their variances, `(A, d)`."""
        notes = problem.notes
        if "pull" in notes:
            signal = torch.add(signal, notes.read("pull", rows, 0.0), alpha=self.memory)
            noise = torch.add(noise, notes.read("pull noise", rows, 0.0), alpha=self.memory**2)
        notes.write("pull", rows, signal)
        notes.write("pull noise", rows, noise)
