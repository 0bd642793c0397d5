"""A search that begins where the last one ended: few queries, because most is known already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from popskipjump.attacks.border import Border, replace_rows
from popskipjump.attacks.parts.locate import border_at, cannot_ask
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.sigmoid import Estimate, Grid, Marginals, SigmoidPosterior, mutual_information, shared_grid

_EDGE = 0.015  # of the part that is searched
_UNSURE = 2.0  # standard deviations
TWO_SIDED = ((0.0, 0.0), (0.01, 0.05), (0.01, 0.1), (0.03, 0.25), (0.1, 0.1), (0.25, 0.25))


@dataclass(frozen=True)
class CarriedSearch:
    """Bayesian search on the part of the line where the border should be, with what the last search knew of the noise.

    Args:
        grid: what the sigmoid's parameters may be, along the part that is searched.
        keep: how much of the last belief in (slope, floors) is carried over; the rest is even.
        doubt: how much of the prior of the centre is even, the rest being normal around the predicted place.
        fewest: queries of one search at least.
        look: the same for a search of a whole line that finds no sharp border, so that it can tell a gradual one from
            none at all.
        limit: queries of one search at most.
        gradual: where the border is gradual, its place need not be known better than this part of its width.
        first: precision of the first search, in units of the distance; later ones are told theirs.
        confidence: how sure the safe position is to lie on the adversarial side of the centre.
    """

    grid: Grid = field(default_factory=lambda: Grid(101, 12, (-0.5, 2.5), TWO_SIDED))
    keep: float = 0.9
    doubt: float = 0.1
    fewest: int = 4
    look: int = 40
    limit: int = 300
    gradual: float = 0.4
    first: float = 0.04
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not (
            0 <= self.keep <= 1
            and 0 < self.doubt <= 1
            and 0 < self.confidence < 1
            and self.gradual >= 0
            and self.first > 0
        ):
            raise InputError(
                f"keep, doubt and confidence are shares, gradual is at least 0 and first above it: {self}."
            )
        if not 1 <= self.fewest <= self.limit:
            raise InputError(f"a search asks at least 1 and at least `fewest`, at most `limit` queries: {self}.")

    def __call__(
        self, problem: Problem, rows: Tensor, outer: Tensor, iteration: int, previous: Border | None
    ) -> Border:
        """See `Locate`."""
        span = problem.notes.read("span", rows, 1.0)
        border = self._search(problem, rows, outer, span, problem.notes.read("expected", rows, 0.5))
        # Adversarial all along: there is more to gain.
        beyond = (problem.notes.read("room", rows, 1.0) < 0) & (span < 1)
        further = (beyond & (problem.affordable(rows) > self.fewest)).nonzero().flatten()
        if len(further):
            there = problem.there(further)
            whole = torch.ones(len(further), dtype=torch.float64)
            new = self._search(problem, rows[further], border.point[there], whole, 0.5 * whole)
            border = replace_rows(border, further, new)
        return border

    def _search(self, problem: Problem, rows: Tensor, outer: Tensor, span: Tensor, expected: Tensor) -> Border:
        search = _Carried(self, problem, rows, outer, span, expected)
        while len(search.going):
            search.ask()
        return search.result()


class _Carried:
    """One search of all images in lock-step; those that are done leave."""

    def __init__(
        self,
        config: CarriedSearch,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        span: Tensor,
        expected: Tensor,
    ) -> None:
        self.config, self.problem, self.rows, self.outer = config, problem, rows, outer
        self.grid = shared_grid(config.grid)
        self.original = problem.originals(rows)
        self.span, self.expected = span, expected
        self.tolerance = problem.notes.read("tolerance", rows, config.first)
        self.posterior = self._prior()
        self.going = torch.arange(len(rows))
        self.between: Callable[[Tensor], Tensor] | None = None  # points on the lines of those that are going
        self.asked = 0
        blank = torch.zeros(len(rows), dtype=torch.float64)
        self.position, self.safe, self.slope, self.low, self.high, self.doubt = (blank.clone() for _ in range(6))
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
        channels = self.config.keep * last + (1 - self.config.keep) / self.grid.channels
        prior.weights = (centre.unsqueeze(2) * channels.unsqueeze(1)).to(torch.float32)
        return prior

    def ask(self) -> None:
        """One query for each image that is still searching."""
        stop = cannot_ask(self.problem, self.rows[self.going], 1)
        if bool(stop.any()):
            self._leave(stop, self.posterior.marginals())
        if not len(self.going):
            return
        value, total = mutual_information(self.posterior)
        self.posterior.rescale(total)
        best = value.numpy().argmax(axis=1).tolist()
        if self.between is None:
            chosen = self.problem.there(self.going)
            self.between = self.problem.norm.between(self.outer[chosen], self.original[chosen])
        points = self.between(self.problem.on_device(self.span[self.going] * self.grid.askable[best]))
        answers = self.problem.decide(points, self.rows[self.going], "search").cpu().tolist()
        self.posterior.update(best, answers)
        self.asked += 1
        if self.asked >= self.config.fewest:
            belief = self.posterior.marginals()
            span = self.span[self.going]
            doubt = belief.centre_deviation() * span
            place = (belief.centre * self.grid.position).sum(dim=1) * span
            gradual = self.config.gradual * span / (4 * self._steepest(belief.channel))
            sure = doubt <= self.tolerance[self.going] * (1 - place).clamp(min=0.01)
            seen = self.asked >= torch.where(span < 1, self.config.fewest, self.config.look)
            done = sure | (doubt <= gradual) & seen
            if self.asked >= self.config.limit:
                done = torch.ones_like(sure)
            if bool(done.any()):
                self.settled[self.going[sure]] = True
                self._leave(done, belief)

    def _steepest(self, channels: Tensor) -> Tensor:
        """The steepest transition that the answers allow, `(A, C)` -> `(A,)`: a gradual one must have shown itself."""
        by_slope = channels.reshape(len(channels), -1, self.grid.slopes).sum(dim=1).cumsum(dim=1)
        index = (by_slope < 0.8).sum(dim=1).clamp(max=self.grid.slopes - 1)
        return torch.pow(10.0, self.grid.log_slope[: self.grid.slopes][index])

    def _leave(self, done: Tensor, belief: Marginals) -> None:
        """Write down what was found for some of the searching images, and let them go: bool over `going`."""
        who, mine = self.going[done], belief.select(done)
        estimate, span = mine.mean(), self.span[who]
        self.position[who] = estimate.centre * span
        low = mine.centre_quantile(1 - self.config.confidence)
        self.safe[who] = torch.minimum(low, estimate.centre) * span
        self.slope[who] = estimate.log_slope - span.log10()
        self.low[who], self.high[who] = estimate.low, estimate.high
        self.doubt[who] = mine.centre_deviation() * span
        self.searched[who] = self.asked
        notes, rows = self.problem.notes, self.rows[who]
        notes.write("channels", rows, mine.channel)
        steep = self._steepest(mine.channel) / span
        reach = (1 - self.position[who]).clamp(min=0.01)
        notes.write("width", rows, 1 / (4 * steep * reach))
        notes.write("lost", rows, estimate.lost)
        self.going, self.posterior, self.between = self.going[~done], self.posterior.select(~done), None

    def result(self) -> Border:
        """What was found for all images."""
        estimate = Estimate(self.position, self.slope, self.low, self.high)
        border = border_at(
            self.problem,
            self.rows,
            self.outer,
            self.position,
            self.safe,
            torch.ones_like(self.position),
            self.searched,
            self.settled,
            estimate,
        )
        # A border that may as well lie at an end of the part that was searched, or beyond it, is not a border seen.
        edge = torch.maximum(_EDGE * self.span, _UNSURE * self.doubt)
        self.problem.notes.write("doubt", self.rows, self.doubt * border.gap)
        self.problem.notes.write("missing", self.rows, (self.position < edge).to(torch.float64))
        self.problem.notes.write("room", self.rows, self.span - edge - self.position)
        return border
