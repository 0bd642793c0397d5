"""PopSkipJump's acceptance: accept every border, except on a line whose answers do not depend on the position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Decision, Move
from popskipjump.elementwise import logistic
from popskipjump.errors import InputError

_FAINT = 0.25  # contrast between the ends of a line; below it, an unsettled search found no boundary


def is_faint(border: Border) -> Tensor:
    """Images whose search ended at its limit without a difference between the ends of the line: bool `(A,)`."""
    if border.estimate is None:
        return torch.zeros_like(border.settled)
    e = border.estimate
    ends = [logistic(4 * e.slope * (end - e.centre)) for end in (0.0, 1.0)]
    return ((1 - e.lost) * (ends[1] - ends[0]) < _FAINT) & ~border.settled


class FlatLines(NamedTuple):
    """State of `UnlessFaint` for each image."""

    in_a_row: Tensor  # (A,) int64, flat lines since the last border


@dataclass(frozen=True)
class UnlessFaint:
    """PSJ's rule: accept every new border, except on a flat line, whose answers do not depend on the position.

    One bad direction can lead to a flat line, and the next direction may be better. If the first line after the
    start is flat, or several in a row are, the image ends.

    Args:
        patience: number of flat lines in a row after which the image ends.
    """

    patience: int = 3

    def __post_init__(self) -> None:
        check_types(self)
        if self.patience < 1:
            raise InputError(f"patience is a number of lines of at least 1, not {self.patience!r}.")

    def begin(self, images: int) -> FlatLines:
        """See `Acceptance`."""
        return FlatLines(torch.full((images,), self.patience - 1))

    def __call__(
        self, problem: Problem, found: Border, before: Border, move: Move, state: FlatLines
    ) -> tuple[Decision, FlatLines]:
        """See `Acceptance`."""
        faint = is_faint(found)
        flat = torch.where(faint, state.in_a_row + 1, 0)
        return Decision(~faint, torch.zeros_like(faint), flat >= self.patience), FlatLines(flat)
