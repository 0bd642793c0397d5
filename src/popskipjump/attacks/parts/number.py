"""How many directions of an iteration pay."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.parts.direction import spare
from popskipjump.attacks.parts.transition import gradual
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError

_SIGNS = 4.0  # times as many directions, where a step follows the sign of every value and small values count as well
_AT_FIRST = 40  # of these at most in the first iteration, and growing as PSJ's: the first steps need large values alone
_EARLY = 8  # iterations, whose steps gain more than their error costs
_SEARCH = (8, 200)  # queries of a search, at least and at most
_SEARCH_AT_FIRST = 12  # at most: the first search covered the whole line; those to come will not


@dataclass(frozen=True)
class NumberByGain:
    """As many directions as pay.

    A step gains in proportion to the squared cosine, n k / (K + n k) for n answers of strength k on a normal of K
    dimensions, and costs n + m with a search of m: the gain per query is largest at n = sqrt(K m / k).

    Args:
        factor: on this number.
        doubling: iterations after which it has doubled; it grows evenly, because late steps gain little each, and must
            not lose that to their own error.
        unjudged: how many times faster it grows, after the first few iterations, where the border is gradual: there no
            single step can be judged and refused, and its error is taken with it.
        fewest: directions of one iteration at least.
        most: and at most.
    """

    factor: float = 0.45
    doubling: int = 40
    unjudged: float = 5.0
    fewest: int = 20
    most: int = 3000

    def __post_init__(self) -> None:
        if not (self.factor > 0 and self.unjudged >= 0 and self.doubling >= 1):
            raise InputError(f"factor must be positive, unjudged at least 0, doubling at least 1: {self}.")
        if not 1 <= self.fewest <= self.most:
            raise InputError(f"an iteration has at least 1 direction and at least `fewest`, at most `most`: {self}.")

    def __call__(
        self, problem: Problem, border: Border, dimensions: Tensor, strength: Tensor, iteration: int
    ) -> Tensor:
        """No more than the budget leaves: int64 `(A,)`.

        Args:
            problem: what is asked.
            border: A points.
            dimensions: K, float64 `(A,)`.
            strength: k, float64 `(A,)`.
            iteration: t.
        """
        least, most = _SEARCH
        search = border.searched.to(torch.float64).clamp(least, most if iteration > 1 else _SEARCH_AT_FIRST)
        wanted = self._growth(problem, border.rows, iteration) * (dimensions * search / strength).sqrt()
        if not problem.norm.round:
            limit = _AT_FIRST * math.sqrt(iteration) * (2 / math.pi) / strength
            wanted = torch.maximum(wanted, torch.minimum(_SIGNS * wanted, limit))
        return torch.minimum(wanted.clamp(self.fewest, self.most).to(torch.int64), spare(problem, border))

    def _growth(self, problem: Problem, rows: Tensor, iteration: int) -> Tensor:
        """The factor in an iteration: float64 `(A,)`."""
        late = self.unjudged * max(iteration - _EARLY, 0) * gradual(problem, rows)
        return self.factor * (1 + (iteration + late) / self.doubling)
