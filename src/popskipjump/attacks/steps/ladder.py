"""A ladder of angles on the circle of a turn: how far towards the estimated normal the border still lies further in."""

from __future__ import annotations

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip

HIGHEST, LOWEST = 1.3, 0.01  # radians
_NOISY = 0.08  # contrast lost to noise, above which one answer does not decide: few answers cannot exclude 0.06
_LEAD, _VOTES = 2, 5  # by which answers must lead then, and how many are asked at most
_RUNGS = 9  # asked at most: from 1.3 down to 0.01 are eight


def climb(problem: Problem, border: Border, gradient: Tensor, rung: Tensor) -> Tensor:
    """The largest rung that is adversarial, 0 where none is: float64 `(A,)`.

    The first rung asked is twice the last one that was adversarial. Rungs are doubled while they are adversarial, or
    halved until one is.

    Args:
        problem: what is asked.
        border: A points.
        gradient: `(A, d)` to turn to.
        rung: `(A,)` float64, the last adversarial one, in radians.
    """
    change = border.point - problem.originals(border.rows)
    reached = torch.zeros_like(rung)
    angle = (2 * rung).clamp(LOWEST, HIGHEST)
    trying = torch.arange(len(rung))
    down = torch.zeros(len(rung), dtype=torch.bool)
    for asked in range(_RUNGS):
        trying = trying[problem.affordable(border.rows[trying]) > border.searched[trying]]
        if not len(trying):
            break
        there = problem.index(trying)
        turned = problem.norm.turn(change[there], gradient[there], problem.on_device(angle[trying]))
        points = clip(problem.originals(border.rows[trying]) + turned, problem.bounds)
        yes = _adversarial(problem, points, border.rows[trying], border.lost[trying] > _NOISY)
        reached[trying[yes]] = angle[trying[yes]]
        if not asked:
            down[trying] = ~yes
        angle[trying] = torch.where(yes, (2 * angle[trying]).clamp(max=HIGHEST), angle[trying] / 2)
        # Upwards until one fails, downwards until one does not, between the ends of the ladder.
        left = torch.where(down[trying], ~yes & (angle[trying] >= LOWEST), yes & (reached[trying] < HIGHEST))
        trying = trying[left]
    return reached


def _adversarial(problem: Problem, points: Tensor, rows: Tensor, noisy: Tensor) -> Tensor:
    """One answer for each point `(A, d)`, or a lead of two where answers are noisy, bool `(A,)`: bool `(A,)`."""
    lead = torch.zeros(len(rows), dtype=torch.int64)
    needed = torch.where(noisy, _LEAD, 1)
    for _ in range(_VOTES):
        going = ((lead.abs() < needed) & (problem.affordable(rows) > 0)).nonzero().flatten()
        if not len(going):
            break
        answers = problem.decide(points[problem.index(going)].clone(), rows[going], "step").cpu()
        lead[going] += 2 * answers.to(torch.int64) - 1
    return lead > 0
