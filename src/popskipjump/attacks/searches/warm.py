"""QuickSkipJump's line search: Bayesian, warm-started with the last search's posterior of the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Window
from popskipjump.attacks.rows import replace_rows, select_rows
from popskipjump.attacks.searches.lines import (
    Asked,
    Found,
    Indices,
    border_at,
    cannot_ask,
    counted,
    nearest_adversarial,
    only_adversarial,
    seen_within,
)
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size
from popskipjump.sigmoid import (
    Estimate,
    Grid,
    Marginals,
    SigmoidPosterior,
    information,
    information_by_table,
    shared_grid,
)

Doubles = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_NEARLY = 0.8  # positions with at least this fraction of the largest information share the queries of one step
_HURRY = 4  # a step makes one query for every _HURRY queries that the search has made so far, up to `per_step`
_AGAIN = 4  # most further searches while all answers are adversarial: each is a hundred times as near
_DIGITS = 1e-5  # distance, in units of the bounds, nearer than which float32 has no room for another one
_OUTWARD = 1.5  # where these lines begin, in units of the innermost adversarial answer's distance
_PREDICTED = 0.2  # standard deviation of the prior around the predicted position, as a fraction of the window
TWO_SIDED = ((0.0, 0.0), (0.01, 0.05), (0.01, 0.1), (0.03, 0.25), (0.1, 0.1), (0.25, 0.25))


@dataclass(frozen=True)
class WarmStartedSearch:
    """Bayesian search of a window of the line, with a prior from the image's last search.

    Args:
        grid: grid of the sigmoid's parameters along a whole line.
        places: number of grid positions along a window, where a coarser grid suffices.
        keep: weight of the last posterior of (slope, floors) in the prior; the rest is uniform.
        uniform: weight of a uniform prior of the centre; the rest is normal around the predicted position.
        fewest: smallest number of queries of a search.
        fewest_gradual: smallest number for a search of a whole line without a sharp boundary, which must distinguish a
            gradual boundary from none.
        limit: largest number of queries of a search.
        per_step: largest number of queries of an image in one call, reached in long searches. Without it, the last few
            images of a batch would take as many classifier calls as all others before them.
        gradual: on a gradual boundary, sufficient standard deviation of the position, in transition widths.
        max_relative_error: upper limit on the position's standard deviation, as a fraction of the distance. Without
            it, positions on very wide transitions drift inwards.
        tolerance: standard deviation to reach, as a fraction of the distance, if the window has no tolerance.
        confidence: posterior probability that the safe position is on the adversarial side of the centre.
    """

    grid: Grid = field(default_factory=lambda: Grid(101, 8, (-0.5, 2.5), TWO_SIDED))
    places: int = 35
    keep: float = 0.9
    uniform: float = 0.1
    fewest: int = 4
    fewest_gradual: int = 40
    limit: int = 300
    per_step: int = 4
    gradual: float = 0.8
    max_relative_error: float = 0.25
    tolerance: float = 0.04
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_types(self)
        if not (
            0 <= self.keep <= 1
            and 0 < self.uniform <= 1
            and 0 < self.confidence < 1
            and self.gradual >= 0
            and min(self.max_relative_error, self.tolerance) > 0
        ):
            raise InputError(
                "keep, uniform and confidence are shares, gradual is at least 0, max_relative_error and tolerance are "
                f"positive: {self}."
            )
        if self.places < 3:
            raise InputError(f"a window has at least 3 places, not {self.places!r}.")
        if not 1 <= self.fewest <= self.limit or self.per_step < 1 or self.fewest_gradual < 0:
            raise InputError(f"a search asks at least 1 and at least `fewest`, at most `limit` queries: {self}.")

    @property
    def models_noise(self) -> bool:
        """See `Search`."""
        return True

    def begin(self, images: int) -> NoisePrior:
        """See `Search`."""
        even = torch.full((images, self.grid.channels), 1 / self.grid.channels, dtype=torch.float64)
        return NoisePrior(torch.zeros(images, dtype=torch.bool), even, torch.ones(images, dtype=torch.float64))

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: NoisePrior,
    ) -> tuple[Border, NoisePrior]:
        """See `Search`."""
        whole = torch.ones(len(rows), dtype=torch.float64)
        window = Window(whole, 0.5 * whole) if window is None else window
        grid = self.grid if previous is None else replace(self.grid, positions=self.places)
        border, state, ends_early = self._search(problem, grid, rows, outer, window, state)
        to_end, digits = window.span == 1, _DIGITS * max(abs(problem.bounds.low), abs(problem.bounds.high))
        for _ in range(_AGAIN):
            # If a window, or a whole line up to its innermost place, is adversarial, the boundary is further inward.
            room = ~to_end | (border.distance > digits)
            further = (ends_early & room & (problem.affordable(rows) > self.fewest)).nonzero().flatten()
            if not len(further):
                break
            near = border.select(further)
            # From outward of the last answer: the new line then has an adversarial place, too.
            begin = torch.where(to_end[further], 1 - _OUTWARD * (1 - near.position), near.position).clamp(min=0.0)
            inner = problem.norm.blend(near.outer, problem.originals(near.rows), problem.on_device(begin))
            rest = select_rows(window, further)._replace(span=whole[further], predicted=0.5 * whole[further])
            mine = select_rows(state, further)
            new, learned, ended = self._search(problem, self.grid, near.rows, inner, rest, mine)
            border, state = replace_rows(border, further, new), replace_rows(state, further, learned)
            to_end = to_end.index_fill(0, further, True)
            ends_early = torch.zeros_like(ends_early).index_copy(0, further, ended)
        return border, state

    def _search(
        self, problem: Problem, grid: Grid, rows: Tensor, outer: Tensor, window: Window, state: NoisePrior
    ) -> tuple[Border, NoisePrior, Tensor]:
        """The border, the next prior, and whether the boundary is inward of the places asked: bool `(A,)`."""
        search = _WindowSearch(self, problem, grid, rows, outer, window, state)
        while len(search.going.who):
            search.ask()
        return search.result()


class NoisePrior(NamedTuple):
    """State of `WarmStartedSearch`: the posterior of the noise, from which the next search of an image starts."""

    known: Tensor  # (A,) bool, whether the image was searched before
    channel: Tensor  # (A, C) float64, probability of each (slope, floors)
    length: Tensor  # (A,) float64, L2 length of the window of that search


class _Lines(NamedTuple):
    """The lines that are still searched, in the forms that every query needs; NumPy's calls cost less than torch's."""

    who: Indices  # (A,) number of the line in the search
    rows: Tensor  # (A,) int64, on the CPU: row of the problem
    span: Doubles  # (A,) of the window
    tolerance: Doubles  # (A,) see `Window`
    outer: Tensor  # (A, d)
    inner: Tensor  # (A, d)
    between: Callable[[Tensor], Tensor]  # points on the lines: (A,) -> (A, d)


class _WindowSearch:
    """One search for all images in lock-step; finished images leave."""

    def __init__(
        self,
        config: WarmStartedSearch,
        problem: Problem,
        grid: Grid,
        rows: Tensor,
        outer: Tensor,
        window: Window,
        state: NoisePrior,
    ) -> None:
        self.config, self.problem, self.rows, self.outer = config, problem, rows, outer
        self.grid = shared_grid(grid)
        self.information = information_by_table if self.grid.positions <= config.places else information
        self.span, self.predicted = window.span, window.predicted
        original = problem.originals(rows)
        whole = problem.on_cpu(l2_size(outer - original))
        self.length = (self.span * whole).clamp(min=1e-12)  # of the window
        self.tolerance = torch.full_like(whole, config.tolerance) if window.tolerance is None else window.tolerance
        self.posterior = self._prior(state)
        self.places = self.grid.askable.numpy()
        self.going = self._lines(np.arange(len(rows)), outer, original)
        self.log: list[Asked] = []
        self.asked = 0
        self.afforded = int(problem.affordable(rows).min())  # decisions that all images can afford
        # posteriors of the finished images
        self.left = Marginals(
            self.grid,
            torch.zeros(len(rows), self.grid.positions, dtype=torch.float64),
            torch.zeros(len(rows), self.grid.channels, dtype=torch.float64),
        )
        self.searched = torch.zeros(len(rows), dtype=torch.int64)
        self.settled = torch.zeros(len(rows), dtype=torch.bool)

    def _prior(self, state: NoisePrior) -> SigmoidPosterior:
        prior = SigmoidPosterior.uniform(self.grid, len(self.rows))
        if not bool(state.known.all()):
            return prior
        place, uniform = self.grid.position, self.config.uniform
        normal = torch.exp(-0.5 * ((place - self.predicted.unsqueeze(1)) / _PREDICTED) ** 2)
        centre = (1 - uniform) * normal / normal.sum(dim=1, keepdim=True) + uniform / len(place)
        last = self.grid.stretched(state.channel, self.length / state.length)
        channels = self.config.keep * last + (1 - self.config.keep) / self.grid.channels
        return SigmoidPosterior.product(self.grid, centre, channels)

    def _lines(self, who: Indices, outer: Tensor, inner: Tensor) -> _Lines:
        """The lines `who` `(A,)`, with their ends `(A, d)`."""
        span, tolerance = self.span.numpy()[who], self.tolerance.numpy()[who]
        rows = self.rows.index_select(0, torch.from_numpy(who))
        return _Lines(who, rows, span, tolerance, outer, inner, self.problem.norm.between(outer, inner))

    def ask(self) -> None:
        """One query for each image that is still searching; several per image late in a long search."""
        count = min(max(1, self.asked // _HURRY), self.config.per_step, self.config.limit - self.asked)
        if self.asked + count > self.afforded or self.problem.failed:
            stop = cannot_ask(self.problem, self.going.rows, count).numpy()
            if stop.any():
                self._leave(stop, self.posterior.marginals())
            if not len(self.going.who):
                return
        best, lines = self._best(count), self.going
        where = [torch.from_numpy(lines.span * self.places[places]) for places in best]
        points = [lines.between(self.problem.on_device(positions)) for positions in where]
        if count == 1:
            said = [self.problem.decide(points[0], lines.rows, "search").cpu().tolist()]
        else:  # the queries of an image are adjacent
            asked = torch.stack(points, dim=1).flatten(0, 1)
            answers = self.problem.decide(asked, lines.rows.repeat_interleave(count), "search")
            said = answers.reshape(-1, count).T.cpu().tolist()
        for places, answer in zip(best, said, strict=True):
            self.posterior.update(places.tolist(), answer)
            self.log.append((lines.who, places, answer))
        self.asked += count
        if self.asked >= self.config.fewest:
            self._check()

    def _best(self, count: int) -> list[Indices]:
        """The most informative position, or `count` evenly spaced ones that are nearly as good: `count` times A."""
        value, total = self.information(self.posterior)
        self.posterior.rescale(total)
        if count == 1:
            return [value.argmax(axis=1)]
        top = value.max(axis=1, keepdims=True)
        rank = (value >= np.minimum(_NEARLY * top, top)).cumsum(axis=1)  # by rounding, it may be 0 or negative
        shares = (np.arange(count) + 0.5) / count
        return [(rank > share * rank[:, -1:]).argmax(axis=1) for share in shares]

    def _check(self) -> None:
        """The stopping rule: end the searches whose position is precise enough."""
        belief = self.posterior.marginals()
        going, span, tolerance = self.going.who, self.going.span, self.going.tolerance
        centre, deviation = (span * values.numpy() for values in belief.centre_moments())
        distance = np.maximum(1 - centre, 0.01)
        gradual = self.config.gradual * span / (4 * self._steepest(belief.channel.numpy()))
        sure = deviation <= tolerance * distance
        done = sure | (deviation <= np.minimum(gradual, self.config.max_relative_error * distance))
        if self.asked < self.config.fewest_gradual:
            done = sure | done & (span < 1)
        if self.asked >= self.config.limit:
            done = np.ones_like(sure)
        if done.any():
            self.settled.numpy()[going[sure]] = True
            self._leave(done, belief)

    def _steepest(self, channels: Doubles) -> Doubles:
        """The steepest slope consistent with the answers, `(A, C)` -> `(A,)`: sharp until answers contradict it."""
        by_slope = channels.reshape(len(channels), -1, self.grid.slopes).sum(axis=1).cumsum(axis=1)
        index = np.minimum((by_slope < 0.8).sum(axis=1), self.grid.slopes - 1)
        slopes: Doubles = 10.0 ** self.grid.log_slope.numpy()[index]
        return slopes

    def _leave(self, done: Flags, belief: Marginals) -> None:
        """Record the posteriors of finished images and remove them from the search: bool over `going`."""
        lines, gone, stay = self.going, np.flatnonzero(done), np.flatnonzero(~done)
        who = lines.who[gone]
        self.left.centre.numpy()[who] = belief.centre.numpy()[gone]
        self.left.channel.numpy()[who] = belief.channel.numpy()[gone]
        self.searched.numpy()[who] = self.asked
        staying = torch.from_numpy(stay)
        self.posterior = self.posterior.select(staying)
        there = self.problem.index(staying)
        outer, inner = (end.index_select(0, there) for end in (lines.outer, lines.inner))
        self.going = self._lines(lines.who[stay], outer, inner)

    def result(self) -> tuple[Border, NoisePrior, Tensor]:
        """See `WarmStartedSearch._search`."""
        estimate, span = self.left.mean(), self.span
        position = estimate.centre * span
        safe = torch.minimum(self.left.centre_quantile(1 - self.config.confidence), estimate.centre) * span
        # The posterior is uniform within a grid cell, so on a sharp boundary its quantile may lie inward of the last
        # adversarial query, where nothing was queried.
        windows = span.numpy()
        last = nearest_adversarial(self.log, len(self.rows), lambda who, where: windows[who] * self.places[where])
        probes = self._probes()
        # If a whole line is adversarial, the mean lies at the original, and no answer supports a boundary there.
        to_end = span == 1
        alone = to_end & only_adversarial(probes)
        position = torch.where(alone, last, position)
        deviation = self.left.centre_moments()[1] * span
        seen, short_of_end = seen_within(position, deviation, span)
        steep = torch.from_numpy(self._steepest(self.left.channel.numpy())) / span
        found = Found(
            position=position,
            safe=torch.minimum(safe, last),
            deviation=deviation,
            seen=seen,
            width=1 / (4 * steep * (1 - position).clamp(min=0.01)),
            lost=estimate.lost,
            sample_ratio=torch.ones_like(position),
            searched=self.searched,
            settled=self.settled,
        )
        on_line = Estimate(position, estimate.log_slope - span.log10(), estimate.low, estimate.high)
        border = border_at(self.problem, self.rows, self.outer, found, on_line, probes)
        inward = ~short_of_end & (alone | ~to_end)
        return border, NoisePrior(torch.ones_like(seen), self.left.channel, self.length), inward

    def _probes(self) -> Tensor:
        """Queries and adversarial answers by position of the whole line: see `Border.probes`."""
        places = len(self.config.grid.askable)
        span = self.span.numpy()

        def place(who: Indices, where: Indices) -> Indices:
            index: Indices = (span[who] * self.places[where] * places).astype(np.intp)
            return index

        return counted(self.log, len(self.rows), places, place)
