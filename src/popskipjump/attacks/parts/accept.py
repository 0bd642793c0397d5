"""Whether to go on from the border just found, or from the one before."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem


@dataclass(frozen=True)
class Nearer:
    """Keeps the nearer of both, and has the older one measured again when it has been kept for long.

    Under noise the nearest of many measurements is the luckiest. An image that refuses `patience` steps in a row is
    therefore measured again on its own ray (see `ArcStep`), and that measurement counts, whatever it is.
    """

    patience: int = 3

    def __call__(self, problem: Problem, found: Border, before: Border) -> Tensor:
        """See `Accept`."""
        notes, rows = problem.notes, found.rows
        notes.write("reached", rows, found.distance)
        again = notes.read("turned", rows, 1.0) == 0
        nearer = (found.distance <= before.distance) if problem.norm.round else torch.ones_like(again)
        take = again | (nearer & (notes.read("missing", rows, 0.0) == 0))
        refused = torch.where(take, 0.0, notes.read("refused", rows, 0.0) + 1)
        notes.write("refused", rows, refused)
        notes.write("again", rows, (refused >= self.patience).to(torch.float64))
        return take
