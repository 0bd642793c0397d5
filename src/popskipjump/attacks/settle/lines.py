"""The search lines on which the settle phase may run: the last line of each image, and its nearest one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem

# Largest transition width of a sharp boundary, in units of the distance. On MNIST, QSJ and PSJ fitted 0.0001 to 0.006
# on sharp boundaries, also with 25% flips, and 0.013 to 0.44 under logit sampling and smoothing (5% and 95% quantiles).
_SHARP = 0.008
_FURTHER = 0.05  # a last line farther than the nearest one by this fraction has gone astray


class Line(NamedTuple):
    """A line from an adversarial end to the original for each of A images, with the result of its search."""

    rows: Tensor  # (A,) int64, on the CPU
    outer: Tensor  # (A, d) the adversarial end
    safe: Tensor  # (A,) float64, the position to begin at; 0 = outer, 1 = original
    centre: Tensor  # (A,) float64, the position of the border
    width: Tensor  # (A,) float64, of the transition, in units of the line; nan if it is not known
    low: Tensor  # (A,) float64, noise at the adversarial end
    high: Tensor  # (A,) float64, noise at the original
    sharp: Tensor  # (A,) bool, see `is_sharp`

    def select(self, index: Tensor) -> Line:
        """The lines of a subset of the images: index `(k,)` on the CPU."""
        return Line(*(part.index_select(0, index.to(part.device)) for part in self))

    @classmethod
    def of(cls, border: Border) -> Line:
        """The search line of a border."""
        nothing = torch.zeros_like(border.safe)
        width, low, high = nothing + torch.nan, nothing, nothing
        if border.estimate is not None:
            width, low, high = 1 / (4 * border.estimate.slope), border.estimate.low, border.estimate.high
        sharp = is_sharp(border)
        return cls(border.rows, border.outer, border.safe, border.position, width, low, high, sharp)

    @classmethod
    def at(cls, rows: Tensor, points: Tensor) -> Line:
        """Lines without a search, from points that passed only a vote: `(A,)`, `(A, d)`."""
        nothing = torch.zeros(len(rows), dtype=torch.float64)
        sure = torch.ones(len(rows), dtype=torch.bool)
        return cls(rows, points, nothing, nothing, nothing + torch.nan, nothing, nothing, sure)


def is_sharp(border: Border) -> Tensor:
    """Whether the boundary is sharp according to its search: bool `(A,)`; true for a search without a fit."""
    if border.estimate is None:
        return torch.ones(len(border.rows), dtype=torch.bool)
    return 1 / (4 * border.estimate.slope) < _SHARP * (1 - border.position).clamp(min=1e-9)


def has_evidence(border: Border) -> Tensor:
    """Whether the search saw an adversarial answer: bool `(A,)`; true for a search without a record."""
    if border.probes is None:
        return torch.ones(len(border.rows), dtype=torch.bool)
    return border.probes[:, 1].sum(dim=1) > 0


class Lines:
    """The last line of every image, and the nearest one with an adversarial answer."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        images = len(problem.original)
        self._parts: list[Line | None] = [None, None]  # the last, the nearest
        self.final = torch.full((images,), torch.inf, dtype=torch.float64)  # distance of the last safe point
        self.nearest = torch.full((images,), torch.inf, dtype=torch.float64)
        self.allowed = torch.full((images,), torch.inf, dtype=torch.float64)
        self.good = torch.zeros(images, dtype=torch.bool)  # whether the last one had an adversarial answer

    def write(self, border: Border, final: Tensor) -> None:
        """Record the border of an iteration, and the distances `(A,)` of its safe points."""
        line, rows = Line.of(border), border.rows
        good = has_evidence(border) & (final > 0)
        self.final[rows], self.good[rows] = final, good
        self._put(0, line)
        size = final / (1 - border.safe).clamp(min=1e-9)  # of the whole line
        doubt = (border.position - border.safe).clamp(min=0) * size
        nearer = (good & (final < self.nearest[rows])).nonzero().flatten()
        if len(nearer):
            self._put(1, line.select(nearer))
            self.nearest[rows[nearer]] = final[nearer]
            self.allowed[rows[nearer]] = ((1 + _FURTHER) * final + 2 * doubt)[nearer]

    def _put(self, which: int, line: Line) -> None:
        kept = self._parts[which]
        if kept is None:
            images = len(self.problem.original)
            kept = Line(*(part.new_zeros(images, *part.shape[1:]) for part in line))
            self._parts[which] = kept
        for whole, part in zip(kept, line, strict=True):
            whole.index_copy_(0, line.rows.to(whole.device), part)

    def astray(self) -> Tensor:
        """Images whose last line is worse than an earlier one, or had no adversarial answer: bool `(B,)`."""
        known = torch.isfinite(self.nearest)
        return known & (~self.good | (self.final > self.allowed))

    def chosen(self, rows: Tensor) -> Line:
        """The line for the settle phase: rows `(A,)` of images with a line."""
        last, nearest = self._parts
        if last is None:
            raise ValueError("no line was written.")
        line = last.select(rows)
        back = self.astray()[rows].nonzero().flatten()
        if nearest is None or not len(back):
            return line
        other = nearest.select(rows[back])
        return Line(*(a.index_copy(0, back.to(a.device), b) for a, b in zip(line, other, strict=True)))
