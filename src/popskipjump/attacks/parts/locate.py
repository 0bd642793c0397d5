"""Finding the border on a search line: without noise by bisection, with noise by Bayesian experimental design."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.parts.direction import Count
from popskipjump.attacks.parts.effort import effort_at, effort_of, effort_table, signal_table
from popskipjump.attacks.parts.knowledge import Knowledge, Look, Memory, foresee, is_sharp
from popskipjump.attacks.parts.lines import Asked, border_at, cannot_ask, counted
from popskipjump.attacks.problem import Problem
from popskipjump.rng import uniform
from popskipjump.sigmoid import (
    Estimate,
    Grid,
    Marginals,
    SigmoidPosterior,
    expected_ratio,
    shared_grid,
)

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_TAIL = 10.0  # no place may ask for more than so many times what the centre asks for (docs/errata.md, D3)


@dataclass(frozen=True)
class BinarySearch:
    """HSJ's bisection down to a part `theta` of the line; d^(-3/2) for L2, d^(-2) for L-infinity as published."""

    theta: float | None = None

    def __call__(
        self, problem: Problem, rows: Tensor, outer: Tensor, iteration: int, previous: Border | None
    ) -> Border:
        """See `Locate`."""
        original = problem.originals(rows)
        power = 1.5 if problem.norm.name == "l2" else 2.0
        theta = problem.dimension**-power if self.theta is None else self.theta
        low = torch.zeros(len(rows), dtype=torch.float64)  # adversarial
        high = torch.ones(len(rows), dtype=torch.float64)  # not adversarial
        searched = torch.zeros(len(rows), dtype=torch.int64)
        while True:
            going = ((high - low > theta) & (problem.affordable(rows) > 0)).nonzero().flatten()
            middle = (low[going] + high[going]) / 2
            # The bisection must end where float32 cannot tell its ends apart.
            going = going[(middle > low[going]) & (middle < high[going]) & (searched[going] < 60)]
            if not len(going):
                break
            middle = (low[going] + high[going]) / 2
            chosen = problem.there(going)
            points = problem.norm.blend(outer[chosen], original[chosen], problem.on_device(middle))
            adversarial = problem.decide(points, rows[going], "search").cpu()
            low[going[adversarial]] = middle[adversarial]
            high[going[~adversarial]] = middle[~adversarial]
            searched[going] += 1
        return border_at(problem, rows, outer, low, low, torch.ones_like(low), searched, high - low <= theta, None)


@dataclass(frozen=True)
class BayesianSearch:
    """PSJ's NoisyBinSearch (Algorithm 2), with every choice of the text.

    Args:
        grid: what the sigmoid's parameters may be.
        spread: beta, in units of the line, of the directions that will be drawn around the result.
        count: how many directions a noiseless classifier would get; the search stops when further queries save
            fewer of them than they cost.
        acquisition: ask where the mutual information is largest, or where the expected sample size is smallest.
        estimate: mean or maximum a posteriori.
        sample_size: effort from the mean signal over the posterior, from the point estimate, or as the expected n over
            the posterior of the centre (Algorithm 1) or over the whole posterior.
        at_least: smallest effort without noise, to be raised by what the floors of the noise cost (see `floor_cost`).
            The paper lets n_t fall to n_t^det, not below it.
        check_every: k; the stopping rule is looked at every k queries.
        per_step: queries for each look at the acquisition (acceleration trick 1).
        spread_over: 1.0 asks them all at the best position; 0.9 spreads them evenly over the positions that are within
            90% of it.
        shrink: narrow the priors around the previous result, to 1/t of their width, 1/10 at the narrowest (trick 2).
        confidence: how sure the safe position is to lie on the adversarial side of the centre.
        limit: queries of one search at most.
    """

    grid: Grid = field(default_factory=Grid)
    spread: float = 0.01
    count: Count = field(default_factory=Count)
    acquisition: Literal["information", "sample-size"] = "information"
    estimate: Literal["mean", "map"] = "mean"
    sample_size: Literal["signal", "point", "centre", "posterior"] = "centre"
    at_least: float = 1.0
    check_every: int = 10
    per_step: int = 1
    spread_over: float = 1.0
    shrink: bool = False
    confidence: float = 0.95
    limit: int = 1000

    def __call__(
        self, problem: Problem, rows: Tensor, outer: Tensor, iteration: int, previous: Border | None
    ) -> Border:
        """See `Locate`."""
        search = _Search(self, problem, rows, outer, iteration, previous)
        while search.lines.number:
            search.ask()
        return search.result()

    def effort(self, posterior: SigmoidPosterior, belief: Marginals, estimate: Estimate) -> Tensor:
        """Sample size in units of the noiseless one: `(B,)` float64."""
        sample_size = self.sample_size
        if sample_size == "signal":
            table = signal_table(posterior.grid, self.spread)
            return effort_of(expected_ratio(posterior, table, estimate.centre))
        if sample_size == "posterior":
            table = effort_table(posterior.grid, self.spread)
            return expected_ratio(posterior, table, estimate.centre)
        slope, lost = estimate.slope.unsqueeze(1), estimate.lost.unsqueeze(1)
        here = torch.zeros_like(slope)
        if sample_size == "point":
            return effort_at(here, slope, self.spread, lost).squeeze(1)
        offset = torch.cat((here, posterior.grid.position - estimate.centre.unsqueeze(1)), dim=1)
        effort = effort_at(offset, slope, self.spread, lost)  # in the first column, at the centre
        return (belief.centre * torch.minimum(effort[:, 1:], _TAIL * effort[:, :1])).sum(dim=1)


class _Lines(NamedTuple):
    """The lines that are still searched."""

    rows: Tensor  # (A,) int64, on the CPU
    outer: Tensor  # (A, d)
    original: Tensor  # (A, d)

    @property
    def number(self) -> int:
        """A."""
        return self.rows.shape[0]

    def select(self, stays: Tensor) -> _Lines:
        """Some of them: bool `(A,)` on the CPU."""
        there = stays.to(self.outer.device)
        return _Lines(self.rows[stays], self.outer[there], self.original[there])

    def repeated(self, times: int) -> _Lines:
        """Each so many times, side by side."""
        return self if times == 1 else _Lines(*(part.repeat_interleave(times, dim=0) for part in self))


class _Asking(NamedTuple):
    """Lines ready to be asked at positions."""

    rows: Tensor  # (A m,) int64, on the CPU: m questions of each image side by side
    points: Callable[[Tensor], Tensor]  # (A m,) -> (A m, d)
    questions: int  # m


class _Search:
    """One search of all images in lock-step; those that are done leave at the next check."""

    def __init__(
        self,
        config: BayesianSearch,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        iteration: int,
        previous: Border | None,
    ) -> None:
        self.config, self.problem, self.rows, self.outer, self.iteration = config, problem, rows, outer, iteration
        self.grid = shared_grid(config.grid)
        self.places = self.grid.askable.to(torch.float32).numpy()
        self.lines = _Lines(rows, outer, problem.originals(rows))
        self.asking: _Asking | None = None  # of these lines
        self.memory = self._memory()
        self.knowledge = Knowledge(config, self._prior(previous), len(rows), self.memory)
        self.going = torch.arange(len(rows))  # images still searching, as rows of this search
        self.asked = 0
        self.noiseless = config.count.noiseless(max(iteration, 1))
        self.before = np.full(len(rows), np.inf)  # the directions' number at the last look
        # what the finished images leave behind
        self.position = torch.full((len(rows),), 0.5, dtype=torch.float64)
        self.safe = torch.zeros(len(rows), dtype=torch.float64)
        self.effort = torch.ones(len(rows), dtype=torch.float64)
        self.searched = torch.zeros(len(rows), dtype=torch.int64)
        self.settled = torch.zeros(len(rows), dtype=torch.bool)
        self.found = Estimate(*(torch.zeros(len(rows), dtype=torch.float64) for _ in range(4)))
        # for each step: who was asked (A,), where, the answers
        self.log: list[Asked] = []

    def _memory(self) -> Memory:
        """Of the searches of this kind in this run."""
        memory = self.problem.pools.setdefault(f"known: {self.config}", Memory())
        if not isinstance(memory, Memory):
            raise TypeError(f"not a memory: {memory!r}")
        return memory

    def _prior(self, previous: Border | None) -> SigmoidPosterior | None:
        """Priors of the images' own, where they are not even, or several answers at a time leave no single path."""
        estimate = previous.estimate if self.config.shrink and previous is not None else None
        if estimate is None and self.config.per_step == 1:
            return None
        prior = SigmoidPosterior.uniform(self.grid, len(self.rows))
        if estimate is None:
            return prior
        part = 1 / min(max(self.iteration, 1), 10)
        low, high = self.grid.slope_range
        for values, width, last in (
            (self.grid.position.unsqueeze(1), 1.0, estimate.centre),
            (self.grid.log_slope.unsqueeze(0), high - low, estimate.log_slope),
        ):
            # An interval of the same length that stays within the grid.
            least, most = float(values.min()), float(values.max())
            start = (last - part * width / 2).clamp(least, most - part * width)[:, None, None]
            inside = (values >= start - 1e-9) & (values <= start + part * width + 1e-9)
            prior.weights *= inside
        return prior

    def ask(self) -> None:
        """One step: choose positions, ask, learn; look at the stopping rule when it is time."""
        if self.problem.ledger.limited or self.problem.failed:
            stop = cannot_ask(self.problem, self.lines.rows, self.config.per_step).numpy()
            if stop.any():
                self._leave(stop, self.knowledge.looks())
        if not self.lines.number:
            return
        steps = self._positions()[: self.config.limit - self.asked]  # m times A
        asking = self._prepared(len(steps))
        # An image's questions side by side.
        position = torch.from_numpy(self.places[steps[0] if len(steps) == 1 else np.ravel(steps, order="F")])
        points = asking.points(self.problem.on_device(position))
        answers = self.problem.decide(points, asking.rows, "search").cpu().tolist()
        for number, index in enumerate(steps):
            said = answers[number :: len(steps)]
            self.knowledge.learn(index, said)
            self.log.append((self.going.numpy(), index, said))
        self.asked += len(steps)
        if self.asked % self.config.check_every < self.config.per_step or self.asked >= self.config.limit:
            self._check()

    def _prepared(self, questions: int) -> _Asking:
        """The lines, each for so many questions, made once for as long as they stay the same."""
        if self.asking is None or self.asking.questions != questions:
            lines = self.lines.repeated(questions)
            self.asking = _Asking(lines.rows, self.problem.norm.between(lines.outer, lines.original), questions)
        return self.asking

    def _positions(self) -> list[list[int]]:
        """Grid indices, m times A: `per_step` for each image."""
        config = self.config
        if config.per_step == 1 or config.spread_over >= 1.0:
            return [self.knowledge.places()] * config.per_step
        return self._near_best(torch.from_numpy(self.knowledge.values()))

    def _near_best(self, value: Tensor) -> list[list[int]]:
        """Positions drawn evenly among those that are nearly as good as the best."""
        top = value.amax(dim=1, keepdim=True)
        # A size to be small is negative here: within 90% then means not more than 1/0.9 of it.
        part = self.config.spread_over if self.config.acquisition == "information" else 1 / self.config.spread_over
        near = value >= torch.minimum(part * top, top)  # rounding may leave no information at all, or less
        image = self.problem.image_id[self.lines.rows]
        key = self.problem.key.child("search", self.iteration)
        draws = uniform(key.roots(image, torch.full_like(image, self.asked)), self.config.per_step)  # (B, m)
        rank = (draws * near.sum(dim=1, keepdim=True)).to(torch.int64) + 1
        order = near.cumsum(dim=1)
        best: list[list[int]] = (order.unsqueeze(0) >= rank.T.unsqueeze(2)).numpy().argmax(axis=2).tolist()
        return best

    def _check(self) -> None:
        """The stopping rule: stop when k queries change the directions' number by no more than k."""
        looks = self.knowledge.looks()
        now = np.array([look.effort for look in looks]) * self.noiseless
        # A number beyond the limit settles nothing, even if it stands still: before so many directions are asked, a
        # tenth of them goes into knowing whether there is anything to find.
        beyond = now >= self.config.count.limit
        settled = (np.abs(now - self.before) <= self.config.check_every) & ~beyond
        self.before = now
        done = settled | beyond if self.asked >= self.config.count.limit / 10 else settled
        if self.asked >= self.config.limit:
            done = np.ones_like(settled)
        if done.any():
            self.settled[self.going[torch.from_numpy(settled)]] = True
            self._leave(done, looks)

    def _leave(self, done: Flags, looks: list[Look]) -> None:
        """Write down the results of some of the searching images and let them go: bool over `going`."""
        leaving, stays = np.flatnonzero(done).tolist(), np.flatnonzero(~done).tolist()
        who = self.going[leaving]
        centre, log_slope, low, high, effort = torch.tensor([looks[i] for i in leaving], dtype=torch.float64).T
        safe, least = torch.tensor(self.knowledge.ends(leaving), dtype=torch.float64).T
        self.position[who] = centre
        self.safe[who] = torch.minimum(safe, centre)
        self.effort[who] = torch.maximum(effort, least)
        self.searched[who] = self.asked
        for kept, value in zip(self.found, (centre, log_slope, low, high), strict=True):
            kept[who] = value
        if stays:
            self.knowledge.select(stays)
        self.going, self.before = self.going[stays], self.before[stays]
        self.lines, self.asking = self.lines.select(torch.from_numpy(~done)), None

    def result(self) -> Border:
        """What was found for all images."""
        probes = counted(self.log, len(self.rows), len(self.grid.askable))
        if not self.memory.decided:
            self.memory.decided = True
            # Many images find out by themselves.
            if self.config.per_step == 1 and len(self.rows) < self.grid.positions // 2 and is_sharp(probes):
                foresee(self.config, self.memory)
        return border_at(
            self.problem,
            self.rows,
            self.outer,
            self.position,
            self.safe,
            self.effort,
            self.searched,
            self.settled,
            self.found,
            probes,
        )
