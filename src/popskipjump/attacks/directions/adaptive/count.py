"""QuickSkipJump's number of directions, which maximises the gain in distance per query."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.adaptive.radius import gradualness
from popskipjump.attacks.directions.count import affordable_directions
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError

_SIGNS = 4.0  # factor on the number in L-infinity, where a step uses the sign of every coordinate, small ones included
_AT_FIRST = (
    40  # cap on the directions of L-infinity in iteration 1; grows as sqrt(t): early steps need large values only
)
_EARLY = 8  # iterations whose steps gain more than their error costs
_SEARCH = (8, 200)  # limits on the number of search queries m in the rule
_SEARCH_AT_FIRST = 12  # largest in iteration 1, because the first search covered the whole line and later ones do not


@dataclass(frozen=True)
class GainOptimalCount:
    """The number of directions with the largest gain per query.

    The gain of a step is proportional to the squared cosine, n k / (K + n k), for n answers of strength k about a
    normal of K effective dimensions. The cost is n + m queries, where m is the cost of a search. The gain per query is
    largest at n = sqrt(K m / k).

    Args:
        factor: multiplies this number.
        doubling: iterations after which the number has doubled. It grows linearly, because late steps gain little, and
            the error of the estimate must not exceed that gain.
        gradual_growth: extra growth rate on gradual borders, where bad steps cannot be detected and rejected, so that
            each estimate must be more accurate.
        fewest: smallest number of directions of an iteration.
        most: largest number.
    """

    factor: float = 0.45
    doubling: int = 40
    gradual_growth: float = 5.0
    fewest: int = 20
    most: int = 3000

    def __post_init__(self) -> None:
        check_types(self)
        if not (self.factor > 0 and self.gradual_growth >= 0 and self.doubling >= 1):
            raise InputError(f"factor must be positive, gradual_growth at least 0, doubling at least 1: {self}.")
        if not 1 <= self.fewest <= self.most:
            raise InputError(f"an iteration has at least 1 direction and at least `fewest`, at most `most`: {self}.")

    def __call__(
        self, problem: Problem, border: Border, dimensions: Tensor, strength: Tensor, iteration: int
    ) -> Tensor:
        """Number of directions, within the budget: int64 `(A,)`.

        Args:
            problem: the images and their oracle.
            border: A boundary points.
            dimensions: K, float64 `(A,)`.
            strength: k, float64 `(A,)`.
            iteration: t.
        """
        least, most = _SEARCH
        search = border.searched.to(torch.float64).clamp(least, most if iteration > 1 else _SEARCH_AT_FIRST)
        wanted = self._growth(border.width, iteration) * (dimensions * search / strength).sqrt()
        if problem.norm.follows_signs:
            limit = _AT_FIRST * math.sqrt(iteration) * (2 / math.pi) / strength
            wanted = torch.maximum(wanted, torch.minimum(_SIGNS * wanted, limit))
        return torch.minimum(
            wanted.clamp(self.fewest, self.most).to(torch.int64), affordable_directions(problem, border)
        )

    def _growth(self, width: Tensor, iteration: int) -> Tensor:
        """Growth factor of iteration t: float64 `(A,)`."""
        late = self.gradual_growth * max(iteration - _EARLY, 0) * gradualness(width)
        return self.factor * (1 + (iteration + late) / self.doubling)
