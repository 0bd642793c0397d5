"""A ladder of angles: the largest turn towards the estimated normal whose point is still adversarial."""

from __future__ import annotations

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip

HIGHEST, LOWEST = 1.3, 0.01  # radians
_NOISY = 0.08  # contrast lost to noise, above which one answer does not decide: few answers cannot exclude 0.06
_LEAD, _VOTES = 2, 5  # then: lead that decides a rung, and largest number of queries of it
_RUNGS = 9  # largest number of rungs queried: from 1.3 down to 0.01 are eight


def climb(problem: Problem, border: Border, gradient: Tensor, rung: Tensor) -> Tensor:
    """The largest adversarial rung (an angle, in radians), 0 if there is none: float64 `(A,)`.

    The first rung queried is twice the last adversarial one. If it is adversarial, rungs are doubled until one is not;
    otherwise they are halved until one is.

    Args:
        problem: the images and their oracle.
        border: A boundary points.
        gradient: `(A, d)` estimated normals, to turn towards.
        rung: `(A,)` float64, the last adversarial rung.
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
        # Upwards until a rung is not adversarial, downwards until one is, between the ends of the ladder.
        left = torch.where(down[trying], ~yes & (angle[trying] >= LOWEST), yes & (reached[trying] < HIGHEST))
        trying = trying[left]
    return reached


def _adversarial(problem: Problem, points: Tensor, rows: Tensor, noisy: Tensor) -> Tensor:
    """Whether points `(A, d)` are adversarial, by one answer, or by a lead of two where `noisy` `(A,)`: bool `(A,)`."""
    lead = torch.zeros(len(rows), dtype=torch.int64)
    needed = torch.where(noisy, _LEAD, 1)
    for _ in range(_VOTES):
        going = ((lead.abs() < needed) & (problem.affordable(rows) > 0)).nonzero().flatten()
        if not len(going):
            break
        answers = problem.decide(points[problem.index(going)].clone(), rows[going], "step").cpu()
        lead[going] += 2 * answers.to(torch.int64) - 1
    return lead > 0
