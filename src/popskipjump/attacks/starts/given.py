"""HopSkipJump's and PopSkipJump's start: the boundary point on the line to the given starting point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Begun, Locate


@dataclass(frozen=True)
class GivenStart:
    """Searches only the line to the given starting point."""

    def __call__(self, problem: Problem, rows: Tensor, start: Tensor, locate: Locate) -> Begun:
        """See `Start`."""
        return Begun(locate(rows, start, None), torch.zeros(len(rows), dtype=torch.bool))
