"""PopSkipJump's line search for the boundary, by Bayesian experimental design (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Window
from popskipjump.attacks.searches.beliefs import AnswerCache, Beliefs, Inference, Summary, is_sharp, precompute_sharp
from popskipjump.attacks.searches.lines import (
    Asked,
    Found,
    border_at,
    cannot_ask,
    counted,
    nearest_adversarial,
    seen_within,
)
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.rng import uniform
from popskipjump.sigmoid import Estimate, Grid, SampleSize, SigmoidPosterior, shared_grid

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True)
class BayesianSearch:
    """PSJ's NoisyBinSearch (Algorithm 2), with every variant of the paper's text.

    Args:
        grid: grid of the sigmoid's parameters.
        spread: beta, in units of the line, of the directions that will be drawn around the result.
        count: number of directions without noise; the search stops when further queries save fewer directions than
            they cost.
        acquisition: query where the mutual information is largest, or where the expected sample size is smallest.
        estimate: posterior mean, or maximum a posteriori.
        sample_size: rule that derives the sample ratio from the posterior; see `sample_ratio`.
        at_least: smallest sample ratio without noise; the noise floors raise it (see `floor_cost`). The paper lets n_t
            fall to n_t^det, not below it.
        check_every: k; the stopping rule is evaluated every k queries.
        per_step: queries for each evaluation of the acquisition (acceleration trick 1).
        spread_over: 1.0 makes all of these queries at the best position; 0.9 spreads them evenly over the positions
            whose acquisition value is within 90% of the best.
        shrink: narrow the priors around the previous result, to 1/t of their width, 1/10 at the narrowest (trick 2).
        confidence: posterior probability that the safe position is on the adversarial side of the centre.
        limit: largest number of queries of one search.
    """

    grid: Grid = field(default_factory=Grid)
    spread: float = 0.01
    count: DirectionCount = field(default_factory=DirectionCount)
    acquisition: Literal["information", "sample-size"] = "information"
    estimate: Literal["mean", "map"] = "mean"
    sample_size: SampleSize = "centre"
    at_least: float = 1.0
    check_every: int = 10
    per_step: int = 1
    spread_over: float = 1.0
    shrink: bool = False
    confidence: float = 0.95
    limit: int = 1000

    def __post_init__(self) -> None:
        check_types(self)
        for kind, name, known in (
            ("acquisition", self.acquisition, ("information", "sample-size")),
            ("estimate", self.estimate, ("mean", "map")),
            ("sample size", self.sample_size, ("signal", "point", "centre", "posterior")),
        ):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        if min(self.check_every, self.per_step, self.limit) < 1:
            raise InputError("check_every, per_step and the limit of a search must be at least 1.")
        if not self.spread > 0:
            raise InputError(f"spread (beta) must be positive, not {self.spread!r}.")
        if not (0 < self.spread_over <= 1 and 0 < self.confidence < 1 and self.at_least >= 0):
            raise InputError("spread_over must be in (0, 1], confidence in (0, 1), and at_least at least 0.")

    @property
    def models_noise(self) -> bool:
        """See `Search`."""
        return True

    def begin(self, images: int) -> tuple[()]:
        """See `Search`: no state; the prior of `shrink` comes from the `previous` border."""
        return ()

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: tuple[()],
    ) -> tuple[Border, tuple[()]]:
        """See `Search`: this search ignores the window and covers the whole line."""
        search = _Search(self, problem, rows, outer, iteration, previous)
        while search.lines.number:
            search.ask()
        return search.result(), state

    @property
    def inference(self) -> Inference:
        """The settings of the inference, which are the key of the cache."""
        return Inference(
            self.grid,
            self.spread,
            self.acquisition,
            self.estimate,
            self.sample_size,
            self.at_least,
            self.check_every,
            self.confidence,
        )


class _Lines(NamedTuple):
    """The lines of the images that are still searching."""

    rows: Tensor  # (A,) int64, on the CPU
    outer: Tensor  # (A, d)
    original: Tensor  # (A, d)

    @property
    def number(self) -> int:
        """A."""
        return self.rows.shape[0]

    def select(self, stays: Tensor) -> _Lines:
        """The lines of a subset of the images: bool `(A,)` on the CPU."""
        there = stays.to(self.outer.device)
        return _Lines(self.rows[stays], self.outer[there], self.original[there])

    def repeated(self, times: int) -> _Lines:
        """Each line repeated `times` times, the copies adjacent."""
        return self if times == 1 else _Lines(*(part.repeat_interleave(times, dim=0) for part in self))


class _Asking(NamedTuple):
    """Lines prepared for queries at given positions."""

    rows: Tensor  # (A m,) int64, on the CPU: the m queries of each image are adjacent
    points: Callable[[Tensor], Tensor]  # (A m,) -> (A m, d)
    questions: int  # m


class _Search:
    """One search for all images in lock-step; finished images leave at the next check."""

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
        self.asking: _Asking | None = None  # prepared form of the current lines
        self.cache = problem.kept(AnswerCache, config, AnswerCache)
        self.beliefs = Beliefs(config.inference, self._prior(previous), len(rows), self.cache)
        self.going = torch.arange(len(rows))  # images still searching, as rows of this search
        self.asked = 0
        self.noiseless = config.count.noiseless(max(iteration, 1))
        self.before = np.full(len(rows), np.inf)  # the number of directions at the last check
        # results of the finished images
        self.position = torch.full((len(rows),), 0.5, dtype=torch.float64)
        self.safe = torch.zeros(len(rows), dtype=torch.float64)
        self.deviation = torch.zeros(len(rows), dtype=torch.float64)
        self.ratio = torch.ones(len(rows), dtype=torch.float64)
        self.searched = torch.zeros(len(rows), dtype=torch.int64)
        self.settled = torch.zeros(len(rows), dtype=torch.bool)
        self.found = Estimate(*(torch.zeros(len(rows), dtype=torch.float64) for _ in range(4)))
        # for each step: the images (A,), their positions, their answers
        self.log: list[Asked] = []

    def _prior(self, previous: Border | None) -> SigmoidPosterior | None:
        """Priors of the images; None for uniform priors with one query at a time, whose results can be cached."""
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
            # Shift the interval so that it stays within the grid at its full length.
            least, most = float(values.min()), float(values.max())
            start = (last - part * width / 2).clamp(least, most - part * width)[:, None, None]
            inside = (values >= start - 1e-9) & (values <= start + part * width + 1e-9)
            prior.weights *= inside
        return prior

    def ask(self) -> None:
        """One step: choose positions, query, update the posteriors, and evaluate the stopping rule when due."""
        if self.problem.ledger.limited or self.problem.failed:
            stop = cannot_ask(self.problem, self.lines.rows, self.config.per_step).numpy()
            if stop.any():
                self._leave(stop, self.beliefs.summaries())
        if not self.lines.number:
            return
        steps = self._positions()[: self.config.limit - self.asked]  # m times A
        asking = self._prepared(len(steps))
        # The queries of an image are adjacent.
        position = torch.from_numpy(self.places[steps[0] if len(steps) == 1 else np.ravel(steps, order="F")])
        points = asking.points(self.problem.on_device(position))
        answers = self.problem.decide(points, asking.rows, "search").cpu().tolist()
        for number, index in enumerate(steps):
            said = answers[number :: len(steps)]
            self.beliefs.learn(index, said)
            self.log.append((self.going.numpy(), index, said))
        self.asked += len(steps)
        if self.asked % self.config.check_every < self.config.per_step or self.asked >= self.config.limit:
            self._check()

    def _prepared(self, questions: int) -> _Asking:
        """The lines prepared for `questions` queries each; recomputed only when images have left."""
        if self.asking is None or self.asking.questions != questions:
            lines = self.lines.repeated(questions)
            self.asking = _Asking(lines.rows, self.problem.norm.between(lines.outer, lines.original), questions)
        return self.asking

    def _positions(self) -> list[list[int]]:
        """Grid indices, m times A: `per_step` for each image."""
        config = self.config
        if config.per_step == 1 or config.spread_over >= 1.0:
            return [self.beliefs.places()] * config.per_step
        return self._near_best(torch.from_numpy(self.beliefs.values()))

    def _near_best(self, value: Tensor) -> list[list[int]]:
        """Positions drawn uniformly among those whose acquisition value is nearly the best."""
        top = value.amax(dim=1, keepdim=True)
        # The expected sample size is negated here, so "within 90%" means at most 1/0.9 times the smallest.
        part = self.config.spread_over if self.config.acquisition == "information" else 1 / self.config.spread_over
        near = value >= torch.minimum(part * top, top)  # by rounding, the information may be 0 or negative
        image = self.problem.image_id[self.lines.rows]
        key = self.problem.key.child("search", self.iteration)
        draws = uniform(key.roots(image, torch.full_like(image, self.asked)), self.config.per_step)  # (B, m)
        rank = (draws * near.sum(dim=1, keepdim=True)).to(torch.int64) + 1
        order = near.cumsum(dim=1)
        best: list[list[int]] = (order.unsqueeze(0) >= rank.T.unsqueeze(2)).numpy().argmax(axis=2).tolist()
        return best

    def _check(self) -> None:
        """The stopping rule: stop when k queries change the number of directions by no more than k."""
        summaries = self.beliefs.summaries()
        now = np.array([summary.sample_ratio for summary in summaries]) * self.noiseless
        # If the required sample size exceeds the limit, a stable estimate is not convergence: the search then spends
        # up to a tenth of the limit before it gives up this line.
        beyond = now >= self.config.count.limit
        settled = (np.abs(now - self.before) <= self.config.check_every) & ~beyond
        self.before = now
        done = settled | beyond if self.asked >= self.config.count.limit / 10 else settled
        if self.asked >= self.config.limit:
            done = np.ones_like(settled)
        if done.any():
            self.settled[self.going[torch.from_numpy(settled)]] = True
            self._leave(done, summaries)

    def _leave(self, done: Flags, summaries: list[Summary]) -> None:
        """Record the results of finished images and remove them from the search: bool over `going`."""
        leaving, stays = np.flatnonzero(done).tolist(), np.flatnonzero(~done).tolist()
        who = self.going[leaving]
        centre, log_slope, low, high, ratio = torch.tensor([summaries[i] for i in leaving], dtype=torch.float64).T
        safe, deviation, least = torch.tensor(self.beliefs.outcomes(leaving), dtype=torch.float64).T
        self.position[who] = centre
        self.safe[who] = torch.minimum(safe, centre)
        self.deviation[who] = deviation
        self.ratio[who] = torch.maximum(ratio, least)
        self.searched[who] = self.asked
        for kept, value in zip(self.found, (centre, log_slope, low, high), strict=True):
            kept[who] = value
        if stays:
            self.beliefs.select(stays)
        self.going, self.before = self.going[stays], self.before[stays]
        self.lines, self.asking = self.lines.select(torch.from_numpy(~done)), None

    def result(self) -> Border:
        """The borders of all images."""
        probes = counted(self.log, len(self.rows), len(self.grid.askable))
        if not self.cache.precomputed:
            self.cache.precomputed = True
            # Only for small batches: a large batch fills the cache by itself.
            if self.config.per_step == 1 and len(self.rows) < self.grid.positions // 2 and is_sharp(probes):
                precompute_sharp(self.config.inference, self.cache)
        # On a sharp boundary the quantile may lie inward of the last adversarial query, where nothing was queried.
        place = self.places.astype(np.float64)
        last = nearest_adversarial(self.log, len(self.rows), lambda _, where: place[where])
        found = Found(
            position=self.position,
            safe=torch.minimum(self.safe, last),
            deviation=self.deviation,
            seen=seen_within(self.position, self.deviation)[0],
            width=1 / (4 * self.found.slope * (1 - self.position).clamp(min=0.01)),
            lost=self.found.lost,
            sample_ratio=self.ratio,
            searched=self.searched,
            settled=self.settled,
        )
        return border_at(self.problem, self.rows, self.outer, found, self.found, probes)
