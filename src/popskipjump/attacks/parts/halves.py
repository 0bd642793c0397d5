"""How much an answer tells of the border's normal, measured by the agreement of two halves of the answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import row_sums

_MOST = 2 / math.pi  # of answers without noise about a flat border
_LEAST = 1e-4


@dataclass(frozen=True)
class HalfSampleSignal:
    """Squared correlation of answer and normal, from the inner product of two independent estimates of the normal.

    Noise has no part in the mean of that product: with directions w of independent coordinates of variance 1, answers y
    of mean 0 and variance 1, and W = sum y w over each half, <W_1, W_2> is n_1 n_2 kappa on average. Where the normal's
    spectrum p is known, coordinates count with it, and K = 1 / sum p^2 of them make its deviation instead of all d. The
    measurements of earlier iterations fade, and together they correct an expectation.

    Args:
        decay: how much of what was measured lasts to the next iteration.
        doubt: standard deviation of the expectation.
    """

    decay: float = 0.9
    doubt: float = 0.2

    def __post_init__(self) -> None:
        if not (0 <= self.decay < 1 and self.doubt > 0):
            raise InputError(f"decay is a share below 1, and doubt is positive: {self}.")

    def learn(
        self, problem: Problem, rows: Tensor, halves: tuple[Tensor, Tensor], pairs: Tensor, spectrum: Tensor
    ) -> None:
        """Add a measurement.

        Args:
            problem: whose notes are written.
            rows: `(A,)`.
            halves: `(A, d)` W_1 and W_2.
            pairs: `(A,)` n_1 n_2, on the CPU.
            spectrum: `(A, d)` p, which adds up to 1.
        """
        agreement = problem.on_cpu(row_sums(halves[0] * halves[1] * spectrum))
        weight = pairs * problem.on_cpu(row_sums(spectrum**2))
        for name, value in (("agreement", agreement), ("agreement weight", weight)):
            problem.notes.write(name, rows, self.decay * problem.notes.read(name, rows, 0.0) + value)

    def strength(self, problem: Problem, rows: Tensor, expected: Tensor) -> Tensor:
        """kappa, the mean a posteriori: `(A,)` -> `(A,)` float64."""
        # agreement ~ N(kappa weight, weight), kappa ~ N(expected, doubt^2)
        agreement, weight = (problem.notes.read(name, rows, 0.0) for name in ("agreement", "agreement weight"))
        precision = 1 / self.doubt**2
        return torch.clamp((agreement + precision * expected) / (weight + precision), _LEAST, _MOST)
