"""A search that begins where the last one ended: few queries, because most is known already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks.border import Border, replace_rows
from popskipjump.attacks.parts.lines import Asked, border_at, cannot_ask, counted
from popskipjump.attacks.problem import Problem
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

_EDGE = 0.015  # of the part that is searched
_UNSURE = 2.0  # standard deviations
_NEARLY = 0.8  # of the most information
_HURRY = 4  # of what a search has asked, this part is asked at once in the next step
TWO_SIDED = ((0.0, 0.0), (0.01, 0.05), (0.01, 0.1), (0.03, 0.25), (0.1, 0.1), (0.25, 0.25))


@dataclass(frozen=True)
class CarriedSearch:
    """Bayesian search on the part of the line where the border should be, with what the last search knew of the noise.

    Args:
        grid: what the sigmoid's parameters may be, along a whole line.
        places: how many positions the grid has along a part of a line, which need not be told apart as closely.
        keep: how much of the last belief in (slope, floors) is carried over, to a line of another length; the rest is
            even.
        doubt: how much of the prior of the centre is even, the rest being normal around the predicted place.
        fewest: queries of one search at least.
        look: the same for a search of a whole line that finds no sharp border, so that it can tell a gradual one from
            none at all.
        limit: queries of one search at most.
        per_step: queries of one image at once at most, in a search that has become long: the last few images of a batch
            would otherwise take as many calls of the classifier as all others before them.
        gradual: where the border is gradual, its place need not be known better than this part of its width.
        known: but at least to this part of the distance; what is wider than the distance would drift otherwise.
        first: precision of the first search, in units of the distance; later ones are told theirs.
        confidence: how sure the safe position is to lie on the adversarial side of the centre.
    """

    grid: Grid = field(default_factory=lambda: Grid(101, 8, (-0.5, 2.5), TWO_SIDED))
    places: int = 35
    keep: float = 0.9
    doubt: float = 0.1
    fewest: int = 4
    look: int = 40
    limit: int = 300
    per_step: int = 4
    gradual: float = 0.8
    known: float = 0.25
    first: float = 0.04
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not (
            0 <= self.keep <= 1
            and 0 < self.doubt <= 1
            and 0 < self.confidence < 1
            and self.gradual >= 0
            and min(self.known, self.first) > 0
        ):
            raise InputError(
                f"keep, doubt and confidence are shares, gradual is at least 0, known and first above it: {self}."
            )
        if self.places < 3:
            raise InputError(f"a part of a line has at least 3 places, not {self.places!r}.")
        if not 1 <= self.fewest <= self.limit or self.per_step < 1:
            raise InputError(f"a search asks at least 1 and at least `fewest`, at most `limit` queries: {self}.")

    def __call__(
        self, problem: Problem, rows: Tensor, outer: Tensor, iteration: int, previous: Border | None
    ) -> Border:
        """See `Locate`."""
        span = problem.notes.read("span", rows, 1.0)
        grid = self.grid if previous is None else replace(self.grid, positions=self.places)
        border = self._search(problem, grid, rows, outer, span, problem.notes.read("expected", rows, 0.5))
        # Adversarial all along: there is more to gain.
        beyond = (problem.notes.read("room", rows, 1.0) < 0) & (span < 1)
        further = (beyond & (problem.affordable(rows) > self.fewest)).nonzero().flatten()
        if len(further):
            there = problem.there(further)
            whole = torch.ones(len(further), dtype=torch.float64)
            new = self._search(problem, self.grid, rows[further], border.point[there], whole, 0.5 * whole)
            border = replace_rows(border, further, new)
        return border

    def _search(
        self, problem: Problem, grid: Grid, rows: Tensor, outer: Tensor, span: Tensor, expected: Tensor
    ) -> Border:
        search = _Carried(self, problem, grid, rows, outer, span, expected)
        while len(search.going):
            search.ask()
        return search.result()


class _Carried:
    """One search of all images in lock-step; those that are done leave."""

    def __init__(
        self,
        config: CarriedSearch,
        problem: Problem,
        grid: Grid,
        rows: Tensor,
        outer: Tensor,
        span: Tensor,
        expected: Tensor,
    ) -> None:
        self.config, self.problem, self.rows, self.outer = config, problem, rows, outer
        self.grid = shared_grid(grid)
        self.information = information_by_table if self.grid.positions <= config.places else information
        self.span, self.expected = span, expected
        whole = problem.on_cpu(l2_size(outer - problem.originals(rows)))
        self.length = (span * whole).clamp(min=1e-12)  # of the part that is searched
        self.tolerance = problem.notes.read("tolerance", rows, config.first)
        self.posterior = self._prior()
        self.going = torch.arange(len(rows))
        self.ends = outer, problem.originals(rows)  # of the lines of those that are going
        self.between: Callable[[Tensor], Tensor] | None = None  # points on these lines
        self.log: list[Asked] = []
        self.asked = 0
        self.afforded = int(problem.affordable(rows).min())  # decisions that all can pay
        # what the images that are done leave behind
        self.left = Marginals(
            self.grid,
            torch.zeros(len(rows), self.grid.positions, dtype=torch.float64),
            torch.zeros(len(rows), self.grid.channels, dtype=torch.float64),
        )
        self.searched = torch.zeros(len(rows), dtype=torch.int64)
        self.settled = torch.zeros(len(rows), dtype=torch.bool)

    def _prior(self) -> SigmoidPosterior:
        prior = SigmoidPosterior.uniform(self.grid, len(self.rows))
        if "channels" not in self.problem.notes:
            return prior
        place = self.grid.position
        normal = torch.exp(-0.5 * ((place - self.expected.unsqueeze(1)) / 0.2) ** 2)
        centre = (1 - self.config.doubt) * normal / normal.sum(dim=1, keepdim=True) + self.config.doubt / len(place)
        last = self.problem.notes.read("channels", self.rows, 0.0)
        last = self.grid.stretched(last, self.length / self.problem.notes.read("length", self.rows, 1.0))
        channels = self.config.keep * last + (1 - self.config.keep) / self.grid.channels
        return SigmoidPosterior.product(self.grid, centre, channels)

    def ask(self) -> None:
        """One query for each image that is still searching; later in a long search, a few at once."""
        count = min(max(1, self.asked // _HURRY), self.config.per_step, self.config.limit - self.asked)
        if self.asked + count > self.afforded or self.problem.failed:
            stop = cannot_ask(self.problem, self.rows[self.going], count)
            if bool(stop.any()):
                self._leave(stop, self.posterior.marginals())
            if not len(self.going):
                return
        best = self._best(count)
        if self.between is None:
            self.between = self.problem.norm.between(*self.ends)
        # NumPy, which starts faster than torch: there is little to do here but for the classifier.
        span, place, rows = self.span.numpy()[self.going.numpy()], self.grid.askable.numpy(), self.rows[self.going]
        points = [self.between(self.problem.on_device(torch.from_numpy(span * place[places]))) for places in best]
        if count == 1:
            said = [self.problem.decide(points[0], rows, "search").cpu().tolist()]
        else:  # an image's questions side by side
            asked = torch.stack(points, dim=1).flatten(0, 1)
            answers = self.problem.decide(asked, rows.repeat_interleave(count), "search")
            said = answers.reshape(-1, count).T.cpu().tolist()
        for places, answer in zip(best, said, strict=True):
            self.posterior.update(places, answer)
            self.log.append((self.going.numpy(), places, answer))
        self.asked += count
        if self.asked >= self.config.fewest:
            self._check()

    def _best(self, count: int) -> list[list[int]]:
        """The most informative place, or `count` of those that are nearly as good, evenly spaced: `count` times A."""
        value, total = self.information(self.posterior)
        self.posterior.rescale(total)
        if count == 1:
            return [value.argmax(axis=1).tolist()]
        top = value.max(axis=1, keepdims=True)
        rank = (value >= np.minimum(_NEARLY * top, top)).cumsum(axis=1)  # rounding may leave no information, or less
        shares = (np.arange(count) + 0.5) / count
        return [(rank > share * rank[:, -1:]).argmax(axis=1).tolist() for share in shares]

    def _check(self) -> None:
        """Let those go that know enough."""
        belief = self.posterior.marginals()
        going = self.going.numpy()
        span, tolerance = self.span.numpy()[going], self.tolerance.numpy()[going]
        centre, doubt = (span * values.numpy() for values in belief.centre_moments())
        distance = np.maximum(1 - centre, 0.01)
        gradual = self.config.gradual * span / (4 * self._steepest(belief.channel.numpy()))
        sure = doubt <= tolerance * distance
        done = sure | (doubt <= np.minimum(gradual, self.config.known * distance))
        if self.asked < self.config.look:
            done = sure | done & (span < 1)
        if self.asked >= self.config.limit:
            done = np.ones_like(sure)
        if done.any():
            self.settled.numpy()[going[sure]] = True
            self._leave(torch.from_numpy(done), belief)

    def _steepest(self, channels: Doubles) -> Doubles:
        """The steepest transition that the answers allow, `(A, C)` -> `(A,)`: a gradual one must have shown itself."""
        by_slope = channels.reshape(len(channels), -1, self.grid.slopes).sum(axis=1).cumsum(axis=1)
        index = np.minimum((by_slope < 0.8).sum(axis=1), self.grid.slopes - 1)
        slopes: Doubles = 10.0 ** self.grid.log_slope.numpy()[index]
        return slopes

    def _leave(self, done: Tensor, belief: Marginals) -> None:
        """Keep what some of the searching images believe, and let them go: bool over `going`."""
        gone, stay = done.nonzero().flatten(), (~done).nonzero().flatten()
        who = self.going[gone]
        self.left.centre.index_copy_(0, who, belief.centre.index_select(0, gone))
        self.left.channel.index_copy_(0, who, belief.channel.index_select(0, gone))
        self.searched[who] = self.asked
        self.going, self.posterior = self.going[stay], self.posterior.select(stay)
        there = self.problem.there(stay)
        outer, original = (end.index_select(0, there) for end in self.ends)
        self.ends, self.between = (outer, original), None

    def result(self) -> Border:
        """What was found for all images, and notes of it for the other parts."""
        estimate, span, notes = self.left.mean(), self.span, self.problem.notes
        position = estimate.centre * span
        safe = torch.minimum(self.left.centre_quantile(1 - self.config.confidence), estimate.centre) * span
        doubt = self.left.centre_moments()[1] * span
        found = Estimate(position, estimate.log_slope - span.log10(), estimate.low, estimate.high)
        certain = torch.ones_like(position)
        border = border_at(
            self.problem,
            self.rows,
            self.outer,
            position,
            safe,
            certain,
            self.searched,
            self.settled,
            found,
            self._probes(),
        )
        notes.write("channels", self.rows, self.left.channel)
        notes.write("length", self.rows, self.length)
        steep = torch.from_numpy(self._steepest(self.left.channel.numpy())) / span
        notes.write("width", self.rows, 1 / (4 * steep * (1 - position).clamp(min=0.01)))
        notes.write("lost", self.rows, estimate.lost)
        # A border that may as well lie at an end of the part that was searched, or beyond it, is not a border seen.
        edge = torch.maximum(_EDGE * span, _UNSURE * doubt)
        notes.write("doubt", self.rows, doubt * border.gap)
        notes.write("missing", self.rows, (position < edge).to(torch.float64))
        notes.write("room", self.rows, span - edge - position)
        return border

    def _probes(self) -> Tensor:
        """What was asked and found adversarial, by place of the whole line: see `Border`."""
        places = len(self.config.grid.askable)
        span, part = self.span.numpy(), self.grid.askable.numpy()
        log = [(who, (span[who] * part[where] * places).astype(np.intp), said) for who, where, said in self.log]
        return counted(log, len(self.rows), places)
