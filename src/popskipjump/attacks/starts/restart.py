"""Restarts of images whose search line has no boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Locate, Move, Window
from popskipjump.attacks.rows import replace_rows
from popskipjump.attacks.starts.propose import enlarged, find_starts, from_noise, majority_adversarial
from popskipjump.errors import InputError

_OUTWARD = (1.6, 2.5)  # outward extensions of the line of an image that came too near, in units of the line


@dataclass(frozen=True)
class NoRestart:
    """Never restarts an image."""

    def begin(self, images: int) -> tuple[()]:
        """See `Restart`."""
        return ()

    def __call__(
        self, problem: Problem, border: Border, move: Move | None, locate: Locate, state: tuple[()]
    ) -> tuple[Border, tuple[()]]:
        """See `Restart`."""
        return border, state


class Restarts(NamedTuple):
    """State of `RestartIfLost` for each image."""

    made: Tensor  # (A,) int64, restarts so far


@dataclass(frozen=True)
class RestartIfLost:
    """Restarts an image from a new point if a remeasured ray showed no boundary.

    Under noise a point may win the few votes for a start by chance, although there is no boundary on its line. Many
    votes at the outer end of the line decide this. A walk may also have come too near to the original by lucky
    answers. The boundary is then further out on the same ray, so that part is searched first, which keeps the
    progress made so far.

    Args:
        limit: largest number of restarts of an image; a restart that does not help costs about a hundred queries.
        confirm_votes: number of votes at the end of the line, and on a new start.
        votes: number of votes on each proposed start.
        tries: largest number of proposed starts.
    """

    limit: int = 3
    confirm_votes: int = 15
    votes: int = 7
    tries: int = 25

    def __post_init__(self) -> None:
        check_types(self)
        if self.limit < 0 or min(self.confirm_votes, self.votes, self.tries) < 1:
            raise InputError(f"limit is at least 0, confirm_votes, votes and tries are at least 1: {self}.")

    def begin(self, images: int) -> Restarts:
        """See `Restart`."""
        return Restarts(torch.zeros(images, dtype=torch.int64))

    def __call__(
        self, problem: Problem, border: Border, move: Move | None, locate: Locate, state: Restarts
    ) -> tuple[Border, Restarts]:
        """See `Restart`."""
        as_it_is = torch.ones_like(border.seen) if move is None else move.angle == 0
        lost = (~border.seen & as_it_is & (state.made < self.limit)).nonzero().flatten()
        if not len(lost):
            return border, state
        rows, tolerance = border.rows, None if move is None or move.window is None else move.window.tolerance
        outer = border.outer[problem.index(lost)]
        lost = lost[~majority_adversarial(problem, outer, rows[lost], self.confirm_votes, "start")]
        state = Restarts(state.made.index_add(0, lost, torch.ones_like(lost)))
        for further in _OUTWARD:
            points = enlarged(problem, rows[lost], border.outer[problem.index(lost)], further)
            found = majority_adversarial(problem, points, rows[lost], self.confirm_votes, "start")
            border, lost = _moved(problem, border, lost, points, found, locate, tolerance)
        if problem.criterion.targeted:  # noise hardly ever has the target class
            return border, state
        start, found = find_starts(problem, rows[lost], from_noise(problem), self.tries, self.votes, self.confirm_votes)
        return _moved(problem, border, lost, start, found, locate, tolerance)[0], state


def _moved(
    problem: Problem,
    border: Border,
    lost: Tensor,
    points: Tensor,
    found: Tensor,
    locate: Locate,
    tolerance: Tensor | None,
) -> tuple[Border, Tensor]:
    """Move lost images to new lines; return the updated border and the images that are still lost.

    Args:
        problem: the images and their oracle.
        border: of A images.
        lost: `(k,)` index of the lost ones.
        points: `(k, d)` the outer ends of new lines.
        found: bool `(k,)` whether they are adversarial.
        locate: finds the border on a line.
        tolerance: `(A,)` of the last step's search, see `Window`; None for the search's own.
    """
    new = lost[found]
    if not len(new):
        return border, lost
    whole = torch.ones(len(new), dtype=torch.float64)
    window = Window(whole, 0.5 * whole, None if tolerance is None else tolerance[new])
    outer = enlarged(problem, border.rows[new], points[problem.index(found)], 1.0)
    return replace_rows(border, new, locate(border.rows[new], outer, window)), lost[~found]
