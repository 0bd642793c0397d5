"""Number of random directions per iteration, n_t."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError


@dataclass(frozen=True)
class DirectionCount:
    """The number of directions: `n_t = base sqrt(t)` times the sample ratio of the noise, within limits.

    Args:
        base: n_0 of the noiseless attack.
        factor: multiplies every n_t.
        limit: largest n_t.
    """

    base: float = 100.0
    factor: float = 1.0
    limit: int = 50_000

    def __post_init__(self) -> None:
        check_types(self)
        if self.base <= 0 or self.factor <= 0 or self.limit < 1:
            raise InputError(f"the number of directions must be positive: {self}.")

    def noiseless(self, iteration: int) -> float:
        """n_t^det."""
        return min(self.base * self.factor * math.sqrt(iteration), self.limit)

    def __call__(self, sample_ratio: Tensor, iteration: int) -> Tensor:
        """`(A,)` -> int64 `(A,)`."""
        return (self.noiseless(iteration) * sample_ratio).clamp(1, self.limit).to(torch.int64)


def affordable_directions(problem: Problem, border: Border) -> Tensor:
    """Directions that each budget allows, int64 `(A,)`, after the queries of the next search are set aside."""
    return (problem.affordable(border.rows) - border.searched).clamp(min=0)
