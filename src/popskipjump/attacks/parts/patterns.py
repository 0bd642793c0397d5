"""Nearer starting points: simple patterns that a classifier may fall for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.border import Border, Locate, replace_rows
from popskipjump.attacks.parts.basis import Basis, basis_of
from popskipjump.attacks.parts.start import majority_adversarial
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import clip, per_row
from popskipjump.oracles import Targeted
from popskipjump.rng import normal

_BEYOND = 1.2  # where the search of the border begins, in units of the pattern's distance


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

    def __call__(self, problem: Problem, border: Border, locate: Locate) -> Border:
        """See `NearerStart`."""
        if isinstance(problem.criterion, Targeted):  # a simple pattern is hardly ever of a given class
            return border
        points, found = self.search(problem, border)
        better = found.nonzero().flatten()
        if not len(better):
            return border
        original = problem.originals(border.rows[better])
        outer = clip(original + _BEYOND * (points[problem.there(better)] - original), problem.bounds)
        new = locate(problem, border.rows[better], outer, 0, None)
        nearer = (new.distance < border.distance[better]) & (problem.notes.read("missing", new.rows, 0.0) == 0)
        return replace_rows(border, better[nearer], new.select(nearer))

    def search(self, problem: Problem, border: Border) -> tuple[Tensor, Tensor]:
        """Points nearer than the border that seem adversarial, where there are any: `(A, d)`, and bool `(A,)`."""
        original, basis = problem.originals(border.rows), basis_of(problem.shape)
        points, best = border.point.clone(), border.distance.clone()
        for number in range(pattern_count(basis)):
            pattern = self._pattern(problem, basis, border.rows, number)
            trying, reach = torch.arange(len(best)), self.within * best
            for _ in range(self.shrinks):
                chosen = problem.there(trying)
                step = per_row(problem.on_device(reach[trying])) * pattern[chosen]
                there = clip(original[chosen] + step, problem.bounds)
                good = self._adversarial(problem, there, border.rows[trying])
                trying, there = trying[good], there[problem.there(good)]
                if not len(trying):
                    break
                points[problem.there(trying)] = there
                best[trying] = problem.on_cpu(problem.norm.size(there - original[problem.there(trying)]))
                reach[trying] = self.shrink * best[trying]
        return points, best < border.distance

    def _adversarial(self, problem: Problem, points: Tensor, rows: Tensor) -> Tensor:
        """Whether points are adversarial, bool `(A,)`: one answer settles a failure, a majority a success."""
        good = problem.affordable(rows) > self.votes
        first = good.nonzero().flatten()
        if not len(first):
            return good
        good[first] = problem.decide(points[problem.there(first)].clone(), rows[first], "start").cpu()
        likely = good.nonzero().flatten()
        if len(likely):
            there = points[problem.there(likely)]
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
