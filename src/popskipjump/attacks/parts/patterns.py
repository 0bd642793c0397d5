"""Nearer starting points: simple patterns that a classifier may fall for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.parts.basis import Basis, basis_of
from popskipjump.attacks.parts.start import majority_adversarial
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip, per_row
from popskipjump.oracles import Targeted
from popskipjump.rng import normal


@dataclass(frozen=True)
class PatternStart:
    """Tries noise of several spectra and the sharpest regular patterns, each well within the best distance so far.

    Args:
        within: where a pattern is tried, in units of the best distance.
        shrink: how much nearer it is tried again after each success.
        votes: majority that makes a success; a first answer against it ends the matter.
        shrinks: how often at most.
    """

    within: float = 0.85
    shrink: float = 0.7
    votes: int = 7
    shrinks: int = 20

    def __call__(self, problem: Problem, border: Border) -> tuple[Tensor, Tensor]:
        """Points nearer than the border that are adversarial, where there are any: `(A, d)`, and bool `(A,)`."""
        original = problem.original[border.rows.to(problem.device)]
        points = border.point.clone()
        best = border.distance.clone()
        found = torch.zeros(len(best), dtype=torch.bool)
        if isinstance(problem.criterion, Targeted):
            return points, found
        basis = basis_of(problem.shape)
        for number in range(pattern_count(basis)):
            pattern = self._pattern(problem, basis, border.rows, number)
            reach, trying = self.within * best, torch.arange(len(best))
            for _ in range(self.shrinks):
                chosen = trying.to(problem.device)
                there = clip(original[chosen] + per_row(problem.on_device(reach[trying])) * pattern[chosen], problem.bounds)
                good = self._adversarial(problem, there, border.rows[trying])
                trying, there = trying[good], there[good.to(problem.device)]
                if not len(trying):
                    break
                chosen = trying.to(problem.device)
                points[chosen] = there
                best[trying] = problem.norm.size(there - original[chosen]).to("cpu", torch.float64)
                found[trying] = True
                reach[trying] = self.shrink * best[trying]
        return points, found

    def _adversarial(self, problem: Problem, points: Tensor, rows: Tensor) -> Tensor:
        """Whether points are adversarial, bool `(A,)`: one answer settles a failure, a majority a success."""
        good = problem.affordable(rows) > self.votes
        first = good.nonzero().flatten()
        if not len(first):
            return good
        good[first] = problem.decide(points[first.to(problem.device)].clone(), rows[first], "start").cpu()
        likely = good.nonzero().flatten()
        if len(likely):
            there = points[likely.to(problem.device)]
            good[likely] = majority_adversarial(problem, there, rows[likely], self.votes - 1, "start")
        return good

    @staticmethod
    def _pattern(problem: Problem, basis: Basis, rows: Tensor, number: int) -> Tensor:
        """A pattern of norm 1 for each image: `(A, d)`."""
        if number < len(basis.corners):
            flat = basis.corners[number].to(problem.device).expand(len(rows), -1)
        else:
            spectrum = basis.candidates[number - len(basis.corners)].to(problem.device).sqrt()
            roots = problem.key.child("pattern", number).roots(problem.image_id[rows]).to(problem.device)
            flat = basis.to_points(normal(roots, problem.dimension) * basis.spread(spectrum.unsqueeze(0)))
        return flat / per_row(problem.norm.size(flat)).clamp(min=1e-12)


def pattern_count(basis: Basis) -> int:
    """How many patterns there are for a shape."""
    return len(basis.corners) + len(basis.candidates)
