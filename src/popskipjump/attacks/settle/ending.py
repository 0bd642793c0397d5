"""End of a walk: the settle phase of each image, its final point, and its status."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.attacks.settle.lines import Line, Lines
from popskipjump.attacks.settle.phase import Settle, Settled
from popskipjump.errors import OracleError
from popskipjump.types import Status

_COIN = 3.0  # standard deviations from 1/2 within which answers are those of a coin
_TOSSES = 20  # at the start at least
_MANY_TOSSES = 400  # on the way outward, if the queries ended before the start was asked


class Ending(NamedTuple):
    """The points of A images after the settle phase."""

    rows: Tensor  # (A,) int64, on the CPU
    points: Tensor  # (A, d)
    confirmed: Tensor  # (A,) bool
    yes: Tensor  # (A,) int64, adversarial answers at the points
    asked: Tensor  # (A,) int64, answers at the points
    warnings: list[str]


def conclude(
    problem: Problem, settle: Settle, lines: Lines, rows: Tensor, start: Tensor, status: list[Status]
) -> Ending | None:
    """Run the settle phase for every image whose walk ended with a point, and update `status` in place.

    Args:
        problem: the images and their oracle.
        settle: the settle phase.
        lines: search lines on which the walks ended.
        rows: `(A,)` the attacked images.
        start: `(A, d)` starting points; no final point may be further out.
        status: of all images.
    """
    chosen = torch.tensor([status[row].ended_well for row in rows.tolist()], dtype=torch.bool).nonzero().flatten()
    if not len(chosen):
        return None
    rows, start = rows[chosen], start.index_select(0, problem.index(chosen))
    furthest = problem.on_cpu(problem.norm.size(start - problem.originals(rows)))
    line, back = _lines(lines, rows, start)
    notes = [_note(rows[back], "the walk ended further out than before; its nearest line is used")]
    try:
        first = settle(problem, line, furthest, torch.zeros_like(rows))
        again, second = _from_start(problem, settle, rows, start, furthest, first)
    except OracleError:  # keep the points found; every image has its message
        _failed(problem, rows, status)
        return None
    ending = _merged(rows, first, again, second)
    _set_status(problem, ending, first, again, second, status)
    notes.append(_note(rows[again[second.confirmed]], "no nearer point could be confirmed than the starting point"))
    refuted = first.refuted & (ending.yes == ending.asked) & ending.confirmed
    text = "the point of the walk was not adversarial, though the answers look noiseless; it was moved outward"
    notes.append(_note(rows[refuted], text))
    return ending._replace(warnings=[note for note in notes if note])


def _lines(lines: Lines, rows: Tensor, start: Tensor) -> tuple[Line, Tensor]:
    """The line of each image, and which ones go back to an earlier one: bool `(A,)`."""
    line = lines.chosen(rows)
    nothing = (~torch.isfinite(lines.nearest[rows])).nonzero().flatten()
    if len(nothing):  # no search saw an adversarial answer: use the start
        there = nothing.to(start.device)
        other = Line.at(rows[nothing], start.index_select(0, there))
        line = Line(*(a.index_copy(0, nothing.to(a.device), b) for a, b in zip(line, other, strict=True)))
    return line, lines.astray()[rows]


def _from_start(
    problem: Problem, settle: Settle, rows: Tensor, start: Tensor, furthest: Tensor, first: Settled
) -> tuple[Tensor, Settled]:
    """Test the starting points of the unconfirmed images: their index `(k,)`, and the result of the test."""
    again = (~first.confirmed & first.stuck).nonzero().flatten()
    line = Line.at(rows[again], start.index_select(0, problem.index(again)))
    return again, settle(problem, line, furthest[again], first.places[again])


def _merged(rows: Tensor, first: Settled, again: Tensor, second: Settled) -> Ending:
    """The starting point if only that is confirmed, else the point of the first pass."""
    points, confirmed = first.points.clone(), first.confirmed.clone()
    yes, asked = first.yes.clone(), first.asked.clone()
    good = second.confirmed.nonzero().flatten()
    where = again[good]
    points.index_copy_(0, where.to(points.device), second.points.index_select(0, good.to(points.device)))
    confirmed[where], yes[where], asked[where] = True, second.yes[good], second.asked[good]
    return Ending(rows, points, confirmed, yes, asked, [])


def _set_status(
    problem: Problem, ending: Ending, first: Settled, again: Tensor, second: Settled, status: list[Status]
) -> None:
    """Set the status of every image from the result of its test."""
    coin = _like_a_coin(first.total_yes, first.total) & (first.total >= _MANY_TOSSES)
    coin[again] |= _like_a_coin(second.yes, second.asked) & _like_a_coin(first.total_yes[again], first.total[again])
    for row, sure, random in zip(ending.rows.tolist(), ending.confirmed.tolist(), coin.tolist(), strict=True):
        if row in problem.failed:
            status[row] = Status.ORACLE_FAILED
        elif not sure:
            status[row] = Status.NO_SIGNAL if random else Status.UNCONFIRMED


def _like_a_coin(yes: Tensor, asked: Tensor) -> Tensor:
    """Whether enough answers are consistent with a fair coin: bool `(k,)`."""
    count = asked.to(torch.float64)
    near = (2 * yes - asked).abs().to(torch.float64) <= _COIN * count.sqrt()
    return near & (asked >= _TOSSES)


def _failed(problem: Problem, rows: Tensor, status: list[Status]) -> None:
    """Set the status of all images after the classifier failed on all of them in the settle phase."""
    for row in rows.tolist():
        status[row] = Status.ORACLE_FAILED if row in problem.failed else Status.UNCONFIRMED


def _note(rows: Tensor, text: str) -> str:
    """A warning about some images; empty without any."""
    if not len(rows):
        return ""
    shown = ", ".join(map(str, rows[:8].tolist())) + (", ..." if len(rows) > 8 else "")
    return f"{text} ({len(rows)} images: {shown})."
