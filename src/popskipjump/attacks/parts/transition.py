"""How the answers change across the border, as the last search saw it."""

from __future__ import annotations

from torch import Tensor

from popskipjump.attacks.problem import Problem

_HALF_WAY = 0.03  # width of a transition, in units of the distance, that is half-way between sharp and gradual


def gradual(problem: Problem, rows: Tensor) -> Tensor:
    """How gradual the border is, from 0 to 1: float64 `(A,)`."""
    width = problem.notes.read("width", rows, 0.0)
    return width / (width + _HALF_WAY)
