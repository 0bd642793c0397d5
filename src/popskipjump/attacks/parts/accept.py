"""Whether to go on from the border just found, or from the one before."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem


@dataclass(frozen=True)
class Nearer:
    """Goes on unless the new border is certainly further; has one that was kept for long measured again.

    Under noise the nearest of many measurements is the luckiest. A new border is therefore refused only if it is
    further than both measurements allow for, and an image that refuses many steps in a row is measured again on its
    own ray (see `ArcStep`): that measurement counts, whatever it is.

    Args:
        patience: refusals in a row before a ray is measured again.
        slack: how much further is certain, in standard deviations of the difference.
    """

    patience: int = 3
    slack: float = 2.0

    def __call__(self, problem: Problem, found: Border, before: Border) -> Tensor:
        """See `Accept`."""
        notes, rows = problem.notes, found.rows
        notes.write("reached", rows, found.distance)
        again = notes.read("turned", rows, 1.0) == 0
        doubt, kept = notes.read("doubt", rows, 0.0), notes.read("kept", rows, 0.0)
        allowed = before.distance + self.slack * torch.sqrt(doubt**2 + kept**2)
        nearer = (found.distance <= allowed) if problem.norm.round else torch.ones_like(again)
        take = again | (nearer & (notes.read("missing", rows, 0.0) == 0))
        notes.write("kept", rows, torch.where(take, doubt, kept))
        refused = torch.where(take, 0.0, notes.read("refused", rows, 0.0) + 1)
        notes.write("refused", rows, refused)
        notes.write("again", rows, (refused >= self.patience).to(torch.float64))
        return take
