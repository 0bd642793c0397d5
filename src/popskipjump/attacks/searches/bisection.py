"""HopSkipJump's bisection: it locates the boundary of a noiseless classifier on a line."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Window
from popskipjump.attacks.searches.lines import Found, border_at
from popskipjump.errors import InputError

_MOST_HALVINGS = 60  # after fewer halvings the ends of the interval are already equal in float64


@dataclass(frozen=True)
class BinarySearch:
    """HSJ's bisection of the whole line, down to the fraction `theta` of its length.

    Args:
        theta: tolerance; None for the published d^(-3/2) in L2 and d^(-2) in L-infinity.
        finest: smallest change of a coordinate that the classifier can resolve, in units of the range of the bounds.
            The bisection ends when its ends differ by no more, and the safe position is one such interval further out.
    """

    theta: float | None = None
    finest: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        if self.theta is not None and not 0 < self.theta <= 1:
            raise InputError(f"theta is a part of the line, in (0, 1], not {self.theta!r}.")
        if not 0 <= self.finest < 1:
            raise InputError(f"finest is a part of the bounds' range, in [0, 1), not {self.finest!r}.")

    @property
    def per_step(self) -> int:
        """See `Search`."""
        return 1

    @property
    def models_noise(self) -> bool:
        """See `Search`."""
        return False

    def begin(self, images: int) -> tuple[()]:
        """See `Search`: a bisection has no state."""
        return ()

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: tuple[()],
    ) -> tuple[Border, tuple[()]]:
        """See `Search`."""
        original = problem.originals(rows)
        wanted = problem.norm.bisection_tolerance(problem.dimension) if self.theta is None else self.theta
        possible = self._possible(problem, outer - original)
        theta = possible.clamp(min=wanted)
        low = torch.zeros(len(rows), dtype=torch.float64)  # adversarial
        high = torch.ones(len(rows), dtype=torch.float64)  # not adversarial
        searched = torch.zeros(len(rows), dtype=torch.int64)
        while True:
            going = ((high - low > theta) & (problem.affordable(rows) > 0)).nonzero().flatten()
            middle = (low[going] + high[going]) / 2
            # The bisection must end when its ends are adjacent floating-point numbers.
            apart = (middle > low[going]) & (middle < high[going])
            going = going[apart & (searched[going] < _MOST_HALVINGS)]
            if not len(going):
                break
            middle = (low[going] + high[going]) / 2
            chosen = problem.index(going)
            points = problem.norm.blend(outer[chosen], original[chosen], problem.on_device(middle))
            adversarial = problem.decide(points, rows[going], "search").cpu()
            low[going[adversarial]] = middle[adversarial]
            high[going[~adversarial]] = middle[~adversarial]
            searched[going] += 1
        zero, gap = torch.zeros_like(low), high - low
        # Without an adversarial answer inside the line, the boundary may be beyond its outer end.
        # Nearer to the boundary than `possible`, a label may depend on the batch size of the call.
        safe = torch.where(possible > wanted, (low - possible).clamp(min=0), low)
        found = Found(low, safe, gap / 2, low > 0, zero, zero, zero + 1, searched, gap <= theta)
        return border_at(problem, rows, outer, found), state

    def _possible(self, problem: Problem, line: Tensor) -> Tensor:
        """Smallest fraction of each line `(A, d)` over which the classifier can resolve two points: `(A,)`."""
        one = problem.norm.size(torch.ones_like(line[:1])) * self.finest * problem.bounds.range
        return problem.on_cpu(one / problem.norm.size(line).clamp(min=1e-12)).clamp(max=1.0)
