"""PopSkipJump (Algorithm 1): HopSkipJump for classifiers whose answers are random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from popskipjump.arguments import check_types
from popskipjump.attacks.acceptance.if_nearer import AcceptIfNearer
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint
from popskipjump.attacks.base import check_iterations
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.monte_carlo import LineSpread, MonteCarlo, TrueDirection
from popskipjump.attacks.protocols import Direction
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.restart import NoRestart
from popskipjump.attacks.steps.straight import FullStep
from popskipjump.attacks.walk import AnyWalk, BoundaryWalk
from popskipjump.sigmoid import Grid

_SMALL_INPUT = 1024  # up to here the paper's MNIST setting, above it that of CIFAR-10
_LONGEST = 0.5  # length of a direction in units of the search line; the paper has 0.28 (MNIST) and 0.185 (CIFAR-10)


@dataclass(frozen=True)
class PopSkipJump:
    """PopSkipJump, with every choice of the paper's text as an argument.

    Args:
        iterations: steps along the border.
        resolution: number of parts of the search line, 100 (MNIST) or 300 (CIFAR-10); None takes 100 up to 1,024
            dimensions and 300 above.
        beta: standard deviation of one coordinate of a direction, in units of the search line; None for one part of the
            line, or less from 22,500 dimensions on, so that a direction is at most half as long as the line
            (docs/errata.md, D8).
        slopes: number of slopes in the prior.
        slope_range: log10 of the smallest and the largest slope, per length of the search line.
        floors: noise levels eps in the prior, or (low, high) pairs of them.
        count: number of random directions.
        acquisition: "information" or "sample-size" (E[n]).
        estimate: "mean" or "map".
        sample_size: rule that derives n_t from the posterior: E[n] over the centre with its tail bounded (Algorithm 1,
            "centre"; docs/errata.md, D3), over all parameters ("posterior"), n at the point estimate ("point"), or n
            at the mean signal over the posterior ("signal").
        at_least: smallest n_t without noise, in units of n_t^det; floors of the noise raise it.
        check_every: k of the stopping rule.
        per_step: queries for each evaluation of the acquisition (acceleration trick 1).
        spread_over: 1.0 makes these queries at the best position; 0.9 spreads them over the positions whose acquisition
            value is within 90% of the best.
        shrink_priors: narrow the priors of later searches (acceleration trick 2).
        search_limit: largest number of queries of one search.
        enlarge: factor on the length of the next search line; 1.5 in the paper. The directions grow with the line, and
            at 1.3 the points came 2 to 5% closer (docs/errata.md, D2).
        baseline: subtract the mean answer from the answers, as HSJ does. The paper does not; with displacements
            clipped to the bounds, that costs a quarter of the distance (docs/errata.md, D1).
        confidence: posterior probability that the returned point is on the adversarial side of the border.
        true_gradient: PSJ-TrueGrad: take the direction from the white box.
    """

    iterations: int = 32
    resolution: int | None = None
    beta: float | None = None
    slopes: int = 16
    slope_range: tuple[float, float] = (-0.5, 2.5)
    floors: tuple[float | tuple[float, float], ...] = (0.0, 0.05, 0.15, 0.3)
    count: DirectionCount = field(default_factory=DirectionCount)
    acquisition: Literal["information", "sample-size"] = "information"
    estimate: Literal["mean", "map"] = "mean"
    sample_size: Literal["signal", "point", "centre", "posterior"] = "centre"
    at_least: float = 1.0
    check_every: int = 10
    per_step: int = 1
    spread_over: float = 1.0
    shrink_priors: bool = False
    search_limit: int = 1000
    enlarge: float = 1.3
    baseline: bool = True
    confidence: float = 0.95
    true_gradient: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        check_iterations(self.iterations)
        self.search(_SMALL_INPUT)  # each part checks its own arguments
        FullStep(self.enlarge)

    @classmethod
    def as_published(cls, **changes: Any) -> PopSkipJump:
        """PopSkipJump in the authors' setting, except for three deviations.

        No baseline (docs/errata.md, D1), a search line 1.5 times longer (D2), and the grid of the authors' released
        code: 31 slopes with log10 s in [-1, 2] and 7 floors up to 0.3. The printed range of slopes, [1, 3], excludes
        the slopes of logit sampling (E8). Without the three deviations, the printed numbers of queries are not met: the
        tail of E[n] is bounded (D3), n_t is at least n_t^det (D4), and queries are half-way between the centres (D5).

        Args:
            changes: arguments that differ from this setting, such as `iterations=8`.
        """
        floors = tuple(round(0.05 * step, 2) for step in range(7))
        grid: dict[str, Any] = {"slopes": 31, "slope_range": (-1.0, 2.0), "floors": floors}
        return cls(**({"baseline": False, "enlarge": 1.5} | grid | changes))

    def search(self, dimension: int) -> BayesianSearch:
        """The search for inputs of d values."""
        parts = self.resolution or (100 if dimension <= _SMALL_INPUT else 300)
        pairs = tuple((f, f) if isinstance(f, float | int) else f for f in self.floors)
        return BayesianSearch(
            grid=Grid(parts + 1, self.slopes, self.slope_range, pairs),
            spread=1 / parts if self.beta is None else self.beta,
            count=self.count,
            acquisition=self.acquisition,
            estimate=self.estimate,
            sample_size=self.sample_size,
            at_least=self.at_least,
            check_every=self.check_every,
            per_step=self.per_step,
            spread_over=self.spread_over,
            shrink=self.shrink_priors,
            confidence=self.confidence,
            limit=self.search_limit,
        )

    def build(self, dimension: int) -> AnyWalk:
        """The attack for inputs of d values."""
        search, limit = self.search(dimension), _LONGEST / dimension**0.5
        large = self.beta is None and search.spread > limit
        spread = LineSpread(limit if large else search.spread)
        direction: Direction[tuple[()]] = MonteCarlo(self.count, spread, baseline=self.baseline)
        if self.true_gradient:
            direction = TrueDirection()
        return BoundaryWalk(
            start=GivenStart(),
            direction=direction,
            step_rule=FullStep(self.enlarge),
            search=search,
            # With few answers per dimension, steps of the published length may increase the distance (D8).
            acceptance=AcceptIfNearer() if large else UnlessFaint(),
            restart=NoRestart(),
            iterations=self.iterations,
        )
