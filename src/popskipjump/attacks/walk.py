"""The walk along the border that HopSkipJump and its kin share: locate, direction, advance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.base import Step
from popskipjump.attacks.border import Accept, Advance, Border, Direction, Locate, NearerStart, merge
from popskipjump.attacks.problem import Problem
from popskipjump.types import Status

_FEWEST_DIRECTIONS = 10  # fewer are not worth a step
_FLAT_LINES = 3  # so many in a row end an image
_FAINT = 0.25  # contrast between the ends of a line below which an unsettled search has found nothing


@dataclass(frozen=True)
class BoundaryWalk:
    """An attack composed of a few parts; a variant is another part or another argument of one.

    Args:
        locate: finds the border on a line.
        direction: estimates the border's normal.
        advance: steps along it.
        iterations: how often.
        start: looks for a nearer place to begin at; None begins where it is told.
        accept: chooses between a new border and the one before; None takes the new one, unless it is faint.
    """

    locate: Locate
    direction: Direction
    advance: Advance
    iterations: int
    start: NearerStart | None = None
    accept: Accept | None = None

    def init(self, problem: Problem, rows: Tensor, start: Tensor) -> Step:
        """See `Attack`."""
        if self.start is None:
            border = self.locate(problem, rows, start, 0, None)
        else:
            border = self.start(problem, rows, start, self.locate)
        return Step(border, dict.fromkeys(rows[_faint(border)].tolist(), Status.NO_SIGNAL))

    def step(self, problem: Problem, before: Step, iteration: int) -> Step:
        """See `Attack`."""
        enough = problem.affordable(before.border.rows) >= before.border.searched + _FEWEST_DIRECTIONS
        ended = dict.fromkeys(before.border.rows[~enough].tolist(), Status.BUDGET_SPENT)
        border = before.border if bool(enough.all()) else before.border.select(enough)
        if not len(border.rows):
            return Step(border, ended)
        gradient = self.direction(problem, border, iteration)
        outer = self.advance(problem, border, gradient, iteration)
        found = self.locate(problem, border.rows, outer, iteration, border)
        # A search that the budget cut short, or that saw no border, may be anywhere: the place before it is better.
        broke = ~found.settled & (problem.affordable(border.rows) < getattr(self.locate, "per_step", 1))
        if self.accept is not None:
            taken = merge(self.accept(problem, found, border) & ~broke, found, border)
            return Step(taken if self.start is None else self.start.anew(problem, taken, self.locate), ended)
        faint = _faint(found)
        # One bad direction makes a flat line, and the next may be better; but where the first one is flat, all will be.
        flat = torch.where(faint, problem.notes.read("flat", border.rows, _FLAT_LINES - 1.0) + 1, 0.0)
        problem.notes.write("flat", border.rows, flat)
        ended |= dict.fromkeys(border.rows[flat >= _FLAT_LINES].tolist(), Status.FLAT)
        return Step(merge(~broke & ~faint, found, border), ended)


def _faint(border: Border) -> Tensor:
    """Images whose search ended at its limit without a difference between the ends of the line: bool `(A,)`."""
    if border.estimate is None:
        return torch.zeros_like(border.settled)
    e = border.estimate
    ends = [torch.sigmoid(4 * e.slope * (end - e.centre)) for end in (0.0, 1.0)]
    return ((1 - e.lost) * (ends[1] - ends[0]) < _FAINT) & ~border.settled
