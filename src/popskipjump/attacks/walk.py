"""The walk along the border that HopSkipJump and its kin share: locate, direction, advance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.base import Step
from popskipjump.attacks.border import Advance, Border, Direction, Locate, NearerStart, merge, replace_rows
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip
from popskipjump.types import Status

_FEWEST_DIRECTIONS = 10  # fewer are not worth a step
_FAINT = 0.25  # contrast between the ends of a line below which an unsettled search has found nothing


@dataclass(frozen=True)
class BoundaryWalk:
    """An attack composed of three parts; a variant is another part or another argument of one."""

    locate: Locate
    direction: Direction
    advance: Advance
    iterations: int
    keep_nearer: bool = False
    start: NearerStart | None = None

    def init(self, problem: Problem, rows: Tensor, start: Tensor) -> Step:
        """See `Attack`."""
        border = self.locate(problem, rows, start, 0, None)
        if self.start is not None:
            points, found = self.start(problem, border)
            better = found.nonzero().flatten()
            if len(better):
                there = better.to(problem.device)
                original = problem.original[rows[better].to(problem.device)]
                outer = clip(original + 1.2 * (points[there] - original), problem.bounds)
                new = self.locate(problem, rows[better], outer, 0, None)
                nearer = new.distance < border.distance[better]
                nearer &= problem.notes.read("missing", rows[better], 0.0) == 0
                border = replace_rows(border, better[nearer], new.select(nearer))
        return Step(border, dict.fromkeys(rows[_faint(border)].tolist(), Status.NO_SIGNAL))

    def step(self, problem: Problem, before: Step, iteration: int) -> Step:
        """See `Attack`."""
        enough = problem.affordable(before.border.rows) >= before.border.searched + _FEWEST_DIRECTIONS
        ended = dict.fromkeys(before.border.rows[~enough].tolist(), Status.BUDGET_SPENT)
        border = before.border.select(enough)
        if not len(border.rows):
            return Step(border, ended)
        gradient = self.direction(problem, border, iteration)
        outer = self.advance(problem, border, gradient, iteration)
        found = self.locate(problem, border.rows, outer, iteration, border)
        # A search that the budget cut short, or that saw no border, may be anywhere: the place before it is better.
        broke = ~found.settled & (problem.affordable(border.rows) < getattr(self.locate, "per_step", 1))
        faint = _faint(found)
        take = ~broke & ~faint
        if self.keep_nearer:
            problem.notes.write("reached", border.rows, found.distance)
            faint &= False
            again = problem.notes.read("turned", border.rows, 1.0) == 0
            nearer = (found.distance <= border.distance) & (problem.notes.read("missing", border.rows, 0.0) == 0)
            refused = problem.notes.read("refused", border.rows, 0.0)
            problem.notes.write("refused", border.rows, torch.where(nearer | again, 0.0, refused + 1))
            take = ~broke & (nearer | again)
        ended |= dict.fromkeys(border.rows[faint].tolist(), Status.FLAT)
        return Step(merge(take, found, border), ended)


def _faint(border: Border) -> Tensor:
    """Images whose search ended at its limit without a difference between the ends of the line: bool `(A,)`."""
    if border.estimate is None:
        return torch.zeros_like(border.settled)
    e = border.estimate
    ends = [torch.sigmoid(4 * e.slope * (end - e.centre)) for end in (0.0, 1.0)]
    return ((1 - e.lost) * (ends[1] - ends[0]) < _FAINT) & ~border.settled
