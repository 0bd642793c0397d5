"""From a border point and a direction to the next search line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip, per_row


def step_size(border: Border, iteration: int) -> Tensor:
    """xi_t = ||x_t - x_*|| / sqrt(t): `(A,)`."""
    return border.distance / math.sqrt(iteration)


@dataclass(frozen=True)
class FullStep:
    """PSJ's step: all of xi_t, untested, and then a longer line, so that the next search sees both sides of the border.

    Args:
        enlarge: how much longer than from the original to the new point; 1.5 in the paper.
    """

    enlarge: float = 1.5

    def __call__(self, problem: Problem, border: Border, gradient: Tensor, iteration: int) -> Tensor:
        """See `Advance`."""
        original = problem.original[border.rows.to(problem.device)]
        step = per_row(problem.on_device(step_size(border, iteration)))
        ahead = border.point + step * problem.norm.ascent(gradient)
        return clip(original + self.enlarge * (ahead - original), problem.bounds)


@dataclass(frozen=True)
class HalvingStep:
    """HSJ's step: halved until its end is adversarial ("geometric progression").

    Args:
        halvings: how often at most; after that the image stays where it is. Without noise the search ends by itself.
    """

    halvings: int = 30

    def __call__(self, problem: Problem, border: Border, gradient: Tensor, iteration: int) -> Tensor:
        """See `Advance`."""
        direction = problem.norm.ascent(gradient)
        outer = border.point.clone()
        step = step_size(border, iteration)
        trying = torch.arange(len(border.rows))
        for _ in range(self.halvings):
            trying = trying[problem.affordable(border.rows[trying]) > 0]
            if not len(trying):
                break
            chosen = trying.to(problem.device)
            ahead = border.point[chosen] + per_row(problem.on_device(step[trying])) * direction[chosen]
            success = problem.decide(ahead, border.rows[trying], "step")
            outer[chosen[success]] = ahead[success]
            trying = trying[~success.cpu()]
            step = step / 2
        return outer
