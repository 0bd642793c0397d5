"""The settle phase of every attack: query the point, move it outward if it is not adversarial, and confirm it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.settle.belief import Belief
from popskipjump.attacks.settle.evidence import agreeing_needed, log_evidence, threshold
from popskipjump.attacks.settle.lines import Line
from popskipjump.errors import InputError
from popskipjump.geometry import per_row

PHASE = "settle"
_STEPS = torch.logspace(-5, 0, 26, dtype=torch.float64)  # outward, in units of the distance at the beginning
_AGAINST = 3.0  # log-evidence at which a position is abandoned, whatever its posterior
_MISSED = 0.5  # cost of an unconfirmed point, in units of log-distance
_LAST = 28.0  # queries reserved for a last, nearly certain position
_RANDOM = 0.95  # posterior probability of position-independent answers at which moving outward stops
_GROWTH, _LEAST = 3.0, 1e-3  # growth factor and smallest size of the second and later outward steps
_BEGIN = 0.9  # of a gradual border: least distance of the first position from the fitted centre, in fitted widths
_STRIDE = 0.4  # least outward step on a gradual border, in fitted widths
_AHEAD = 2.0  # a move needs this many times the expected queries of the next position
_PATIENCE, _HOPE = 200, 3.0  # after so many answers, abandon a position that lacks more log-evidence than this
_UNLIKELY = 0.15  # posterior probability below which a position is abandoned
_FAR = 0.1  # least outward move, as a fraction of the distance, before answers count as random
_AT_ONCE = (4, 8)  # largest number of queries of an image per call: first call at a position, later calls
_PLACES = 40  # largest number of positions per image
_FLOAT32 = torch.finfo(torch.float32).eps


class Settled(NamedTuple):
    """Result of the settle phase for A images."""

    points: Tensor  # (A, d) the last queried position
    confirmed: Tensor  # (A,) bool
    yes: Tensor  # (A,) int64, adversarial answers at that position
    asked: Tensor  # (A,) int64, answers at that position
    places: Tensor  # (A,) int64, positions tried
    refuted: Tensor  # (A,) bool, whether no answer at the first position was adversarial
    stuck: Tensor  # (A,) bool, whether no further position was left, or none would be better
    total_yes: Tensor  # (A,) int64, adversarial answers at all positions
    total: Tensor  # (A,) int64, answers at all positions


@dataclass(frozen=True)
class Settle:
    """Confirms by an anytime-valid sequential test that points are adversarial more often than not.

    Args:
        level: error level per image: largest probability of confirming a point that is NOT adversarial more often than
            not. It does not depend on the number of images in the call, because an image's queries must not. The
            expected share of wrongly confirmed points among all images is then at most `level`, too. For a family-wise
            level F over B images pass F / B, which costs about log2(B) more answers per image.
        worth: price of a query, as a fraction of the distance: a point moves outward if this saves enough queries.
        margin: fraction of the distance by which a point stays outward of the last adversarial answer, so that its
            label does not depend on the batch, whose last digits differ.
        limit: largest number of queries of one image.
    """

    level: float = 0.01
    worth: float = 3e-5
    margin: float = 2e-5
    limit: int = 1000

    def __post_init__(self) -> None:
        check_types(self)
        if not (0 < self.level < 1 and self.worth >= 0 and 0 <= self.margin < 1 and self.limit >= 1):
            raise InputError(f"level is in (0, 1), margin in [0, 1), worth at least 0 and limit at least 1: {self}.")

    def __call__(self, problem: Problem, line: Line, furthest: Tensor, place: Tensor) -> Settled:
        """Run the settle phase of A images in lock-step.

        Args:
            problem: the images and their oracle.
            line: search lines of the points.
            furthest: `(A,)` distances that no point may exceed.
            place: `(A,)` int64, number of positions tried before, which have used their share of the level.
        """
        going = _Settling(self, problem, line, furthest, place)
        while len(going.going):
            going.ask()
        return going.result()


class _Settling:
    """One settle phase for all images in lock-step; finished images leave."""

    def __init__(self, config: Settle, problem: Problem, line: Line, furthest: Tensor, place: Tensor) -> None:
        self.config, self.problem, self.line = config, problem, line
        count = len(line.rows)
        self.original = problem.originals(line.rows)
        self.size = problem.on_cpu(problem.norm.size(line.outer - self.original))  # of the whole lines
        whole = furthest / self.size.clamp(min=1e-30)  # in units of the lines
        self.base = torch.minimum(self._base(), whole)
        self.most = (whole / self.base.clamp(min=1e-30) - 1).clamp(min=0.0)
        self.belief = Belief(line)
        self.place, self.first = place.clone(), place.clone()
        self.yes, self.asked = torch.zeros(count, dtype=torch.int64), torch.zeros(count, dtype=torch.int64)
        self.total_yes, self.total = torch.zeros_like(self.yes), torch.zeros_like(self.yes)
        self.refuted = torch.zeros(count, dtype=torch.bool)
        self.confirmed, self.stuck = torch.zeros_like(self.refuted), torch.zeros_like(self.refuted)
        self.allowed = problem.ledger.remaining(line.rows).clamp(max=config.limit)
        self.sharp = line.sharp
        scale = (1 - line.safe).clamp(min=1e-9)
        self.width = torch.where(line.sharp, 0.0, torch.nan_to_num(line.width / scale))  # of a gradual border
        # At the border itself a test would not end: on a gradual border it begins where P is near 0.7.
        begin = _BEGIN * self.width - torch.where(line.sharp, 0.0, (line.centre - line.safe) / scale)
        self.t = torch.minimum(begin.clamp(min=0.0), self.most)
        self.points = self._points(torch.arange(count))
        self.going = self._able(torch.arange(count))

    def _base(self) -> Tensor:
        """First position, in units of the whole line: the safe position plus a margin that float32 can resolve."""
        bounds = self.problem.bounds
        digit = 4 * _FLOAT32 * max(abs(bounds.low), abs(bounds.high))
        inside = 1 - self.line.safe
        margin = torch.maximum(self.config.margin * inside, digit / self.size.clamp(min=1e-30))
        return inside + torch.minimum(margin, 0.1 * inside)

    def _points(self, index: Tensor) -> Tensor:
        """Points at the current positions of some images, within the bounds: `(k,)` -> `(k, d)`."""
        there = self.problem.index(index)
        outer, original = self.line.outer[there], self.original[there]
        reach = self.base[index] * (1 + self.t[index])
        change = self.problem.norm.blend(outer, original, self.problem.on_device((1 - reach).clamp(min=0.0))) - original
        # A position near 1 has too few digits for the margin, and none lies beyond the outer end: the length is exact.
        length = self.problem.norm.size(change)
        wanted = self.problem.on_device(reach * self.size[index])
        points = original + per_row(torch.where(length > 0, wanted / length, 1.0)) * change
        return points.clamp(self.problem.bounds.low, self.problem.bounds.high)

    def _able(self, index: Tensor) -> Tensor:
        """The images with budget left for another query: `(k,)` -> `(l,)`."""
        failed = torch.tensor([row in self.problem.failed for row in self.line.rows[index].tolist()], dtype=torch.bool)
        return index[(self.allowed[index] > self.total[index]) & ~failed]

    def ask(self) -> None:
        """One call with as many queries per image as are surely needed; then evaluate the test and move images."""
        index = self.going
        needed = threshold(self.config.level, self.place[index], self.sharp[index])
        most = torch.where(self.asked[index] < _AT_ONCE[1], *_AT_ONCE)
        count = agreeing_needed(self.yes[index], self.asked[index], needed, _AT_ONCE[1], self.sharp[index])
        count = torch.minimum(torch.minimum(count, most), self.allowed[index] - self.total[index])
        yes = self._answers(index, count)
        index = self._able_or_answered(index)
        kept = torch.isin(self.going, index)
        yes, count, needed = yes[kept], count[kept], needed[kept]
        self.yes[index] += yes
        self.asked[index] += count
        self.total_yes[index] += yes
        self.total[index] += count
        self.belief.learn(index, self.t[index], yes, count)
        evidence = log_evidence(self.yes[index], self.asked[index], self.sharp[index])
        done = evidence >= needed
        self.confirmed[index[done]] = True
        self.going = index[~done]
        self._move(needed[~done] - evidence[~done])
        self.going = self._able(self.going)

    def _answers(self, index: Tensor, count: Tensor) -> Tensor:
        """Adversarial answers among `count` queries at the current position of each image: int64 `(k,)`."""
        points = self.points.index_select(0, self.problem.index(index)).repeat_interleave(
            self.problem.index(count), dim=0
        )
        said = self.problem.decide_single(points, self.line.rows[index].repeat_interleave(count), PHASE).cpu()
        owner = torch.arange(len(index)).repeat_interleave(count)
        return torch.zeros(len(index), dtype=torch.int64).index_add_(0, owner, said.to(torch.int64))

    def _able_or_answered(self, index: Tensor) -> Tensor:
        """The images on which the classifier did not fail."""
        failed = torch.tensor([row in self.problem.failed for row in self.line.rows[index].tolist()], dtype=torch.bool)
        return index[~failed]

    def _move(self, missing: Tensor) -> None:
        """Move images outward if their position will not be confirmed, or another one is cheaper to confirm."""
        against = log_evidence(
            self.asked[self.going] - self.yes[self.going], self.asked[self.going], self.sharp[self.going]
        )
        doubtful = self.yes[self.going] < self.asked[self.going]
        index, missing, against = self.going[doubtful], missing[doubtful], against[doubtful]
        if not len(index):
            return
        config, t = self.config, self.t[index]
        left = (self.allowed[index] - self.total[index]).to(torch.float64)
        room = t < self.most[index]
        # Steps grow geometrically, or a boundary far from its estimate would consume all queries.
        least = torch.where(self.place[index] > self.first[index], torch.clamp(_GROWTH * t, min=_LEAST), 0.0)
        least = torch.where(self.sharp[index], least, t + _STRIDE * self.width[index])
        places = torch.maximum(t.unsqueeze(1) + _STEPS, least.unsqueeze(1))
        places = torch.minimum(places, self.most[index].unsqueeze(1))
        next_needed = threshold(config.level, self.place[index] + 1, self.sharp[index])
        further = ((1 + places) / (1 + t.unsqueeze(1))).log()
        # The last queries are reserved for one nearly certain position further out, in case this test stays undecided.
        queries, missed = self.belief.cost(index, places, next_needed, left.clamp(max=_LAST))
        last, sure = (further + config.worth * queries + _MISSED * missed).min(dim=1)
        hurry = left <= _LAST
        until, price = torch.where(hurry, left, (left - _LAST).clamp(min=1.0)), torch.where(hurry, _MISSED, last)
        queries, missed = self.belief.cost(index, t.unsqueeze(1), missing, until)
        stay = config.worth * queries.squeeze(1) + price * missed.squeeze(1)
        queries, missed = self.belief.cost(index, places, next_needed, until)
        best, where = (further + config.worth * queries + price.unsqueeze(1) * missed).min(dim=1)
        # Answers at this position also locate the boundary, so an image moves only when queries or hope run out.
        needed = queries.gather(1, where.unsqueeze(1)).squeeze(1)
        due = (left <= _LAST + _AHEAD * needed) | (self.asked[index] >= _PATIENCE)
        best, where = torch.where(hurry, last, best), torch.where(hurry, sure, where)
        tired = (self.asked[index] >= _PATIENCE) & (missing > _HOPE)
        against = (against >= _AGAINST) | (self.belief.right(index, t) < _UNLIKELY) | tired
        random = (self.belief.coin(index) > _RANDOM) & (t > _FAR)
        go = (against | (due & (best < stay))) & room & ~random & (self.place[index] - self.first[index] < _PLACES)
        self._leave(index[go], places[go, where[go]])
        # Stuck: the last position is refuted and there is no further one, or no position would be better.
        stuck = index[(against & ~go) | (random & room)]
        self.stuck[stuck] = True
        self.going = self.going[~torch.isin(self.going, stuck)]

    def _leave(self, index: Tensor, t: Tensor) -> None:
        """Continue at new positions: images `(k,)`, positions `(k,)`."""
        if not len(index):
            return
        self.refuted[index] |= (self.place[index] == self.first[index]) & (self.yes[index] == 0)
        self.t[index] = t
        self.place[index] += 1
        self.yes[index] = 0
        self.asked[index] = 0
        self.points.index_copy_(0, self.problem.index(index), self._points(index))

    def result(self) -> Settled:
        """See `Settled`."""
        none = (self.place == self.first) & (self.asked > 0) & (self.yes == 0)
        return Settled(
            self.points,
            self.confirmed,
            self.yes,
            self.asked,
            self.place + 1,
            self.refuted | none,
            self.stuck,
            self.total_yes,
            self.total,
        )
