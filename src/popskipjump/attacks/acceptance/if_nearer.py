"""QuickSkipJump's acceptance: reject a boundary point that is significantly farther."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Decision, Move
from popskipjump.errors import InputError


class Refusals(NamedTuple):
    """State of `AcceptIfNearer` for each image."""

    deviation: Tensor  # (A,) float64, of the border that was last accepted; 0 before the first
    in_a_row: Tensor  # (A,) int64, borders rejected since then


@dataclass(frozen=True)
class AcceptIfNearer:
    """Accepts a new boundary point unless it is significantly farther; remeasures the kept ray after rejections.

    Under noise the nearest of many measurements is biased towards the original. A boundary point is therefore rejected
    only if it is farther by more than the error of both measurements, and a ray that was kept for several iterations
    is remeasured, with the new result replacing the old one. In norms in which the gain of a single step is
    uninformative, only lines without a boundary are rejected.

    Args:
        patience: rejections in a row before a ray is remeasured.
        slack: threshold of the difference, in its standard deviations.
    """

    patience: int = 3
    slack: float = 2.0

    def __post_init__(self) -> None:
        check_types(self)
        if self.patience < 1 or self.slack < 0:
            raise InputError(f"patience is at least 1, and slack at least 0: {self}.")

    def begin(self, images: int) -> Refusals:
        """See `Acceptance`."""
        return Refusals(torch.zeros(images, dtype=torch.float64), torch.zeros(images, dtype=torch.int64))

    def __call__(
        self, problem: Problem, found: Border, before: Border, move: Move, state: Refusals
    ) -> tuple[Decision, Refusals]:
        """See `Acceptance`."""
        repeated = move.angle == 0
        allowed = before.distance + self.slack * torch.sqrt(found.deviation**2 + state.deviation**2)
        nearer = (found.distance <= allowed) if problem.norm.judges_steps else torch.ones_like(repeated)
        take = repeated | (nearer & found.seen)
        refused = torch.where(take, 0, state.in_a_row + 1)
        kept = torch.where(take, found.deviation, state.deviation)
        return Decision(take, refused >= self.patience, torch.zeros_like(take)), Refusals(kept, refused)
