"""A contest of two estimates of the normal: the one counts whose turned ray meets the border clearly further in."""

from __future__ import annotations

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip, per_row

_ANGLE = 0.1  # radians: borders that bend do so beyond
_LEVELS = (0.97, 0.92, 0.86, 0.79)  # of the distance, asked one after the other while both points are adversarial
_NOISY = 0.08  # contrast lost to noise, above which nothing is asked: one answer would not decide
_CHALLENGER, _CHAMPION = 1, -1


def contest(problem: Problem, border: Border, champion: Tensor, challenger: Tensor, open_: Tensor) -> Tensor:
    """Which of two estimates `(A, d)` leads further in: int64 `(A,)`, 1 for the challenger, -1 for the champion.

    Points on both turned rays are asked nearer and nearer to the original, until one of them is not adversarial any
    more. Where both cease at once, the champion wins. 0 where nothing was asked.

    Args:
        problem: what is asked.
        border: A points.
        champion: the estimate that is followed unless the other is clearly better.
        challenger: the other one.
        open_: bool `(A,)`, about which images to ask.
    """
    won = torch.zeros(len(open_), dtype=torch.int64)
    cost = 2 * len(_LEVELS)
    affordable = problem.affordable(border.rows) > border.searched + cost
    told = ((champion != 0).any(dim=1) & (challenger != 0).any(dim=1)).cpu()
    going = (open_ & affordable & told & (border.lost <= _NOISY)).nonzero().flatten()
    change = border.point - problem.originals(border.rows)
    for level in _LEVELS:
        if not len(going):
            break
        there, rows = problem.index(going), border.rows[going]
        angle = torch.full((len(going),), _ANGLE, device=problem.device)
        yes = []
        for estimate in (champion[there], challenger[there]):
            turned = problem.norm.turn(change[there], estimate, angle)
            size = problem.norm.size(change[there]) / problem.norm.size(turned).clamp(min=1e-12)
            points = clip(problem.originals(rows) + level * per_row(size) * turned, problem.bounds)
            yes.append(problem.decide(points, rows, "step").cpu())
        won[going] = torch.where(yes[1] & ~yes[0], _CHALLENGER, _CHAMPION)
        going = going[yes[0] & yes[1]]
    return won
