"""QuickSkipJump's start: the nearest adversarial point among the starting line and some simple patterns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.directions.adaptive.dct import Basis, basis_of
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Begun, Locate, Window
from popskipjump.attacks.rows import replace_rows
from popskipjump.attacks.starts.propose import KNOWN, enlarged, majority_adversarial
from popskipjump.errors import InputError
from popskipjump.geometry import clip, per_row
from popskipjump.rng import normal

_BEYOND = 1.15  # outer end of the search line, in units of the distance of the nearest adversarial point
_FURTHER = 1.6  # outer end for a second search, if the first saw no boundary
_BEFORE = 0.9  # inner end of the window, in units of the distance of the first point that was not adversarial
_LEAD = 2  # votes by which adversarial answers must lead
_LOW_PASS = 1  # which of the typical spectra is low-pass
# A walk improves little on a start along a high-frequency pattern: the larger the budget, the nearer it must be.
_NO_HANDICAP, _MOST_HANDICAP = 250, 3.0  # budget up to which the nearest pattern wins; largest factor for large budgets
_WORTH = 30  # queries left for each further image of a pool: with few of them, fewer images are tried
_REMEMBERED = 3  # earlier points of each image to fall back to, if the best was adversarial by luck


class Reached(NamedTuple):
    """The nearest points of A images that seemed adversarial."""

    point: Tensor  # (A, d), on the device
    distance: Tensor  # (A,) float64


class Trail:
    """Earlier best points of A images, the nearest first, as fallbacks for the current best."""

    def __init__(self, like: Tensor) -> None:
        images, dimension = like.shape
        self.point = like.new_zeros(images, _REMEMBERED, dimension)
        self.distance = torch.full((images, _REMEMBERED), torch.inf, dtype=torch.float64)

    def push(self, who: Tensor, there: Tensor, best: Reached) -> None:
        """Save the best points of some images before they change; `who` is on the CPU, `there` on the device."""
        self.point[there] = torch.cat((best.point[there].unsqueeze(1), self.point[there, :-1]), dim=1)
        self.distance[who] = torch.cat((best.distance[who].unsqueeze(1), self.distance[who, :-1]), dim=1)

    def __iter__(self) -> Iterator[Reached]:
        return (Reached(self.point[:, rank], self.distance[:, rank]) for rank in range(_REMEMBERED))


@dataclass(frozen=True)
class PatternStart:
    """Approaches the boundary in large steps: on the starting line first, then along patterns nearer than the best.

    Patterns are regular ones of the highest frequencies, and noise of several spectra. With targets, lines to further
    images of the pool take their place. While a pattern is adversarial, it is tried again nearer to the original. A
    point counts as adversarial once adversarial votes lead by two, and as not adversarial once they trail by two, or by
    one if this pattern has not succeeded yet.

    Args:
        within: distance at which a pattern is tried first, in units of the best distance.
        shrink: factor on the distance after each success.
        votes: largest number of votes on one point, and number of votes that confirm the best pattern at the end.
        shrinks: largest number of successes along one line.
        others: further images of a pool that are tried like patterns, with targets; at most 31.
    """

    within: float = 0.85
    shrink: float = 0.6
    votes: int = 7
    shrinks: int = 20
    others: int = 16

    def __post_init__(self) -> None:
        check_types(self)
        if not (0 < self.within < 1 and 0 < self.shrink < 1):
            raise InputError(f"within and shrink are shares: {self}.")
        if min(self.votes, self.shrinks) < 1 or not 0 <= self.others < KNOWN:
            raise InputError(f"votes and shrinks are at least 1, others at least 0 and below {KNOWN}: {self}.")

    def __call__(self, problem: Problem, rows: Tensor, start: Tensor, locate: Locate) -> Begun:
        """See `Start`."""
        best = self.search(problem, rows, start)
        whole = torch.ones_like(best.distance)
        window = Window((1 - _BEFORE * self.shrink / _BEYOND) * whole, 0.5 * whole)
        border = locate(rows, enlarged(problem, rows, best.point, _BEYOND), window)
        # If no boundary was seen, search from further out, and then the whole starting line.
        for point, beyond in ((best.point, _FURTHER), (start, 1.0)):
            lost = (~border.seen).nonzero().flatten()
            if len(lost):
                outer = enlarged(problem, rows[lost], point[problem.index(lost)], beyond)
                border = replace_rows(border, lost, locate(rows[lost], outer, None))
        return Begun(border, torch.full((len(rows),), not problem.criterion.targeted))

    def search(self, problem: Problem, rows: Tensor, start: Tensor) -> Reached:
        """The nearest points that seem adversarial, on the starting line or along a pattern: from `(A, d)`."""
        along = start - problem.originals(rows)
        begin = Reached(start, problem.on_cpu(problem.norm.size(along)))
        return self._by_others(problem, rows, self.nearer(problem, rows, begin, along, self.shrink, True))

    def _by_others(self, problem: Problem, rows: Tensor, line: Reached) -> Reached:
        """The nearest of the starting line and all others; the nearest must be confirmed by votes."""
        best, trail = line, Trail(line.point)
        for along, first in self._lines(problem, rows):
            best = self.nearer(problem, rows, best, along, first, trail=trail)
        point, distance = line.point.clone(), line.distance.clone()
        # Under noise the best of many points may have won its votes by chance: if refuted, fall back to the next best.
        for reached in (best, *trail):
            left = ((distance == line.distance) & (reached.distance < line.distance)).nonzero().flatten()
            if not len(left):
                break
            points = reached.point[problem.index(left)]
            right = majority_adversarial(problem, points, rows[left], self.votes, "start")
            point[problem.index(left[right])] = points[problem.index(right)]
            distance[left[right]] = reached.distance[left[right]]
        return Reached(point, distance)

    def _lines(self, problem: Problem, rows: Tensor) -> Iterator[tuple[Tensor, float | Tensor]]:
        """Directions `(A, d)` to try beside the starting line, and how far out: see `nearer`."""
        if problem.criterion.targeted:  # a simple pattern hardly ever has the target class, but further images have
            further = problem.further_starts
            if further is None:
                return
            for number in range(1, self.others + 1):
                worth = problem.affordable(rows) >= _WORTH * number
                along = further(rows, number) - problem.originals(rows)
                yield along * per_row(problem.on_device(worth)), self.within
            return
        basis = basis_of(problem.shape)
        for number in pattern_order(basis):
            first = self.within if is_resolved(basis, number) else self.within * self._handicap(problem, rows)
            yield self._pattern(problem, basis, rows, number), first

    def nearer(
        self,
        problem: Problem,
        rows: Tensor,
        best: Reached,
        along: Tensor,
        first: float | Tensor,
        known: bool = False,
        trail: Trail | None = None,
    ) -> Reached:
        """The nearest point along a direction that seems adversarial, or `best` where that is nearer.

        Args:
            problem: the images and their oracle.
            rows: `(A,)` images.
            best: nearest points so far.
            along: `(A, d)` directions, of any length; one of length 0 is not tried.
            first: first distance to try, in units of the best distance; a number, or `(A,)`.
            known: whether the directions are known to be good; a point then fails only once it trails by two votes.
            trail: stores the earlier best points.
        """
        original = problem.originals(rows)
        unit = along / per_row(problem.norm.size(along)).clamp(min=1e-12)
        point, distance = best.point.clone(), best.distance.clone()
        trying, reach = (unit != 0).any(dim=1).cpu().nonzero().flatten(), first * distance
        for attempt in range(self.shrinks):
            chosen = problem.index(trying)
            tried = clip(original[chosen] + per_row(problem.on_device(reach[trying])) * unit[chosen], problem.bounds)
            good = self._leads(problem, tried, rows[trying], _LEAD if attempt or known else 1)
            trying, tried = trying[good], tried[problem.index(good)]
            if not len(trying):
                break
            there = problem.index(trying)
            if trail is not None:
                trail.push(trying, there, Reached(point, distance))
            point[there] = tried
            distance[trying] = problem.on_cpu(problem.norm.size(tried - original[there]))
            reach[trying] = self.shrink * distance[trying]
        return Reached(point, distance)

    def _leads(self, problem: Problem, points: Tensor, rows: Tensor, behind: int) -> Tensor:
        """Whether adversarial votes lead by two before they trail by `behind`: bool `(A,)`."""
        lead = torch.zeros(len(rows), dtype=torch.int64)
        for _ in range(self.votes):
            open_ = (lead > -behind) & (lead < _LEAD) & (problem.affordable(rows) > self.votes)
            going = open_.nonzero().flatten()
            if not len(going):
                break
            yes = problem.decide(points[problem.index(going)].clone(), rows[going], "start").cpu()
            lead[going] += 2 * yes.to(torch.int64) - 1
        return lead >= _LEAD

    def _handicap(self, problem: Problem, rows: Tensor) -> Tensor:
        """Factor by which a pattern of very high frequency must be nearer than the best point: `(A,)`."""
        budget = problem.ledger.budget
        if budget is None:
            return torch.full((len(rows),), 1 / _MOST_HANDICAP, dtype=torch.float64)
        whole = budget[rows].to(torch.float64) / problem.votes
        return 1 / (whole / _NO_HANDICAP).sqrt().clamp(1, _MOST_HANDICAP)

    @staticmethod
    def _pattern(problem: Problem, basis: Basis, rows: Tensor, number: int) -> Tensor:
        """A pattern for each image: `(A, d)`."""
        regular, noises = len(basis.corners), len(basis.typical)
        if number < regular:
            return basis.corners[number].to(problem.device).expand(len(rows), -1)
        if number >= regular + noises:
            return basis.coarse[number - regular - noises].to(problem.device).expand(len(rows), -1)
        spectrum = basis.candidates[basis.typical[number - regular]].to(problem.device).sqrt()
        roots = problem.key.child("pattern", number).roots(problem.image_id[rows]).to(problem.device)
        return basis.to_points(normal(roots, problem.dimension) * basis.by_coefficient(spectrum.unsqueeze(0)))


def pattern_count(basis: Basis) -> int:
    """Number of patterns for an input shape."""
    return len(basis.corners) + len(basis.typical) + len(basis.coarse)


def is_resolved(basis: Basis, number: int) -> bool:
    """Whether classifiers use the frequencies of a pattern: for large images, only of coarse and low-pass ones."""
    regular = len(basis.corners)
    return basis.resolved == 1 or number == regular + _LOW_PASS or number >= regular + len(basis.typical)


def pattern_order(basis: Basis) -> list[int]:
    """The numbers of all patterns, first those whose frequencies classifiers use."""
    return sorted(range(pattern_count(basis)), key=lambda number: not is_resolved(basis, number))
