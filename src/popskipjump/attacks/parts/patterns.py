"""Nearer starting points: simple patterns that a classifier may fall for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.border import Border, Locate, replace_rows
from popskipjump.attacks.parts.basis import Basis, basis_of
from popskipjump.attacks.parts.start import find_starts, from_noise, majority_adversarial
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import clip, per_row
from popskipjump.oracles import Targeted
from popskipjump.rng import normal

_BEYOND = 1.15  # where the search of the border begins, in units of the nearest adversarial point
_FURTHER = 1.6  # where it begins anew if no border was seen
_OUTWARD = (1.6, 2.5)  # where to look for an image that has come too near, in units of the end of its line
_ANEW = 3  # times that an image may begin anew: where it does not help, it costs a hundred queries
_BEFORE = 0.9  # where it is expected to end, in units of the first point that was not


class Reached(NamedTuple):
    """The nearest points of A images that seemed adversarial."""

    point: Tensor  # (A, d), on the device
    distance: Tensor  # (A,) float64


@dataclass(frozen=True)
class PatternStart:
    """Nears the border by large steps: on the starting line, then along simple patterns, each within what is reached.

    Patterns are the sharpest regular ones and noise of several spectra. Where one seems adversarial, it is tried again
    nearer, until it fails. A lead of two answers makes a success or a failure; against a pattern that had none yet, one
    answer is enough.

    Args:
        within: where a pattern is tried first, in units of the best distance.
        shrink: how much nearer a line is tried again after each success.
        votes: answers about one point at most, and about the best pattern in the end.
        shrinks: how often at most.
        assured: answers about a line that seems to have no border, and about a new start instead.
        tries: new starts that are tried at most.
    """

    within: float = 0.85
    shrink: float = 0.6
    votes: int = 7
    shrinks: int = 20
    assured: int = 15
    tries: int = 25

    def __post_init__(self) -> None:
        if not (0 < self.within < 1 and 0 < self.shrink < 1):
            raise InputError(f"within and shrink are shares: {self}.")
        if min(self.votes, self.shrinks, self.assured, self.tries) < 1:
            raise InputError(f"votes, shrinks, assured and tries are at least 1: {self}.")

    def __call__(self, problem: Problem, rows: Tensor, start: Tensor, locate: Locate) -> Border:
        """See `NearerStart`."""
        best = self.search(problem, rows, start)
        whole = torch.ones_like(best.distance)
        window = (1 - _BEFORE * self.shrink / _BEYOND) * whole
        border = self._located(problem, rows, best.point, _BEYOND, window, locate)
        # No border seen there: look from further out, and then on the line that began it all.
        for point, beyond in ((best.point, _FURTHER), (start, 1.0)):
            lost = (problem.notes.read("missing", rows, 0.0) > 0).nonzero().flatten()
            if len(lost):
                there = point[problem.there(lost)]
                again = self._located(problem, rows[lost], there, beyond, whole[lost], locate)
                border = replace_rows(border, lost, again)
        return self.anew(problem, border, locate)

    def anew(self, problem: Problem, border: Border, locate: Locate) -> Border:
        """See `NearerStart`.

        Under noise a point may win the few votes for a start by chance, and then there is no border on the way to it,
        nor near it. It shows when a ray is looked at as it is, and many votes at its outer end tell for certain. A walk
        may also have come too near by lucky answers: then the border lies further out on the same ray, which is looked
        for first, so that what was gained is not lost.
        """
        notes, rows = problem.notes, border.rows
        unseen = (notes.read("missing", rows, 0.0) > 0) & (notes.read("turned", rows, 0.0) == 0)
        times = notes.read("begun anew", rows, 0.0)
        lost = (unseen & (times < _ANEW)).nonzero().flatten()
        if not len(lost):
            return border
        outer = border.outer[problem.there(lost)]
        lost = lost[~majority_adversarial(problem, outer, rows[lost], self.assured, "start")]
        notes.write("begun anew", rows[lost], times[lost] + 1)
        for further in _OUTWARD:
            original, outer = problem.originals(rows[lost]), border.outer[problem.there(lost)]
            points = clip(original + further * (outer - original), problem.bounds)
            found = majority_adversarial(problem, points, rows[lost], self.assured, "start")
            border, lost = self._moved(problem, border, lost, points, found, locate)
        if isinstance(problem.criterion, Targeted):  # noise is hardly ever of a given class
            return border
        start, found = find_starts(problem, rows[lost], from_noise(problem), self.tries, self.votes, self.assured)
        return self._moved(problem, border, lost, start, found, locate)[0]

    def _moved(
        self, problem: Problem, border: Border, lost: Tensor, points: Tensor, found: Tensor, locate: Locate
    ) -> tuple[Border, Tensor]:
        """The border with some of the lost images on new lines, and those that are lost still.

        Args:
            problem: what is asked.
            border: of A images.
            lost: `(k,)` which of them are lost.
            points: `(k, d)` the outer ends of new lines.
            found: bool `(k,)` whether they are adversarial.
            locate: finds the border on a line.
        """
        new = lost[found]
        if not len(new):
            return border, lost
        whole = torch.ones(len(new), dtype=torch.float64)
        there = points[problem.there(found)]
        moved = self._located(problem, border.rows[new], there, 1.0, whole, locate)
        return replace_rows(border, new, moved), lost[~found]

    def search(self, problem: Problem, rows: Tensor, start: Tensor) -> Reached:
        """The nearest points that seem adversarial, on the starting line or along a pattern: from `(A, d)`."""
        along = start - problem.originals(rows)
        begin = Reached(start, problem.on_cpu(problem.norm.size(along)))
        return self._by_patterns(problem, rows, self.nearer(problem, rows, begin, along, self.shrink, True))

    @staticmethod
    def _located(problem: Problem, rows: Tensor, points: Tensor, beyond: float, span: Tensor, locate: Locate) -> Border:
        """The border on the lines through some points, on a part of them: `(A, d)`, and `(A,)` for that part."""
        original = problem.originals(rows)
        problem.notes.write("span", rows, span)
        problem.notes.write("expected", rows, torch.full_like(span, 0.5))
        return locate(problem, rows, clip(original + beyond * (points - original), problem.bounds), 0, None)

    def _by_patterns(self, problem: Problem, rows: Tensor, line: Reached) -> Reached:
        """The best of the starting line and all patterns; a pattern must be confirmed."""
        if isinstance(problem.criterion, Targeted):  # a simple pattern is hardly ever of a given class
            return line
        problem.notes.write("patterns tried", rows, torch.ones(len(rows), dtype=torch.float64))
        basis, best = basis_of(problem.shape), line
        for number in range(pattern_count(basis)):
            best = self.nearer(problem, rows, best, self._pattern(problem, basis, rows, number), self.within)
        nearer = (best.distance < line.distance).nonzero().flatten()
        right = torch.zeros(len(rows), dtype=torch.bool)
        if len(nearer):
            there = best.point[problem.there(nearer)]
            right[nearer] = majority_adversarial(problem, there, rows[nearer], self.votes, "start")
        return Reached(
            torch.where(problem.there(right).unsqueeze(1), best.point, line.point),
            torch.where(right, best.distance, line.distance),
        )

    def nearer(
        self, problem: Problem, rows: Tensor, best: Reached, along: Tensor, first: float, known: bool = False
    ) -> Reached:
        """Go along a direction for each image, as near as it seems adversarial; the better of that and `best`.

        Args:
            problem: what is asked.
            rows: `(A,)` images.
            best: what is reached so far.
            along: `(A, d)` directions, of any length.
            first: where to try first, in units of the best distance.
            known: the directions are known to be good, so that one answer against them is not enough.
        """
        original = problem.originals(rows)
        unit = along / per_row(problem.norm.size(along)).clamp(min=1e-12)
        point, distance = best.point.clone(), best.distance.clone()
        trying, reach = torch.arange(len(rows)), first * distance
        for attempt in range(self.shrinks):
            chosen = problem.there(trying)
            there = clip(original[chosen] + per_row(problem.on_device(reach[trying])) * unit[chosen], problem.bounds)
            good = self._leads(problem, there, rows[trying], 2 if attempt or known else 1)
            trying, there = trying[good], there[problem.there(good)]
            if not len(trying):
                break
            point[problem.there(trying)] = there
            distance[trying] = problem.on_cpu(problem.norm.size(there - original[problem.there(trying)]))
            reach[trying] = self.shrink * distance[trying]
        return Reached(point, distance)

    def _leads(self, problem: Problem, points: Tensor, rows: Tensor, behind: int) -> Tensor:
        """Whether adversarial answers get two ahead before they fall `behind`: bool `(A,)`."""
        lead = torch.zeros(len(rows), dtype=torch.int64)
        for _ in range(self.votes):
            open_ = (lead > -behind) & (lead < 2) & (problem.affordable(rows) > self.votes)
            going = open_.nonzero().flatten()
            if not len(going):
                break
            yes = problem.decide(points[problem.there(going)].clone(), rows[going], "start").cpu()
            lead[going] += 2 * yes.to(torch.int64) - 1
        return lead >= 2

    @staticmethod
    def _pattern(problem: Problem, basis: Basis, rows: Tensor, number: int) -> Tensor:
        """A pattern for each image: `(A, d)`."""
        if number < len(basis.corners):
            return basis.corners[number].to(problem.device).expand(len(rows), -1)
        spectrum = basis.candidates[basis.typical[number - len(basis.corners)]].to(problem.device).sqrt()
        roots = problem.key.child("pattern", number).roots(problem.image_id[rows]).to(problem.device)
        return basis.to_points(normal(roots, problem.dimension) * basis.spread(spectrum.unsqueeze(0)))


def pattern_count(basis: Basis) -> int:
    """How many patterns there are for a shape."""
    return len(basis.corners) + len(basis.typical)
