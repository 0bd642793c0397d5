"""PopSkipJump (Algorithm 1): HopSkipJump for classifiers whose answers are random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from popskipjump.attacks.border import Direction
from popskipjump.attacks.parts.advance import FullStep
from popskipjump.attacks.parts.direction import Count, LineSpread, MonteCarlo, TrueDirection
from popskipjump.attacks.parts.locate import BayesianSearch
from popskipjump.attacks.walk import BoundaryWalk
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.sigmoid import Grid

_SMALL_INPUT = 1024  # up to here the paper's MNIST setting, above it that of CIFAR-10


@dataclass(frozen=True)
class PopSkipJump:
    """PopSkipJump, with every choice of the paper's text as an argument.

    Args:
        iterations: steps along the border.
        resolution: the search line is divided into this many parts, and one coordinate of a direction has the size of
            one part: 100 (MNIST) or 300 (CIFAR-10); None takes 100 up to 1,024 dimensions and 300 above.
        beta: the size of one coordinate of a direction, in units of the search line, if it is not to be one part.
        slopes: how many slopes the prior holds.
        slope_range: log10 of the flattest and the steepest, per length of the search line.
        floors: noise levels eps of the prior, or (low, high) pairs of them.
        count: number of random directions.
        acquisition: "information" or "sample-size" (E[n]).
        estimate: "mean" or "map".
        sample_size: how n_t follows from the posterior: E[n] over the centre with its tail bounded (Algorithm 1,
            "centre"; docs/errata.md, D3), over all parameters ("posterior"), n at the point estimate ("point"), or n
            at the mean signal over the posterior ("signal").
        at_least: smallest n_t without noise, in units of n_t^det; floors of the noise raise it.
        check_every: k of the stopping rule.
        per_step: queries per look at the acquisition (acceleration trick 1).
        spread_over: 1.0 asks them at the best position; 0.9 within 90% of it.
        shrink_priors: acceleration trick 2.
        search_limit: queries of one search at most.
        enlarge: how much longer the next search line is made; 1.5 in the paper. The directions grow with the line, and
            at 1.3 the points came 2 to 5% closer (docs/errata.md, D2).
        baseline: subtract the mean answer from the answers, as HSJ does. The paper does without; with displacements
            that are clipped to the bounds this costs a quarter of the distance (docs/errata.md, D1).
        confidence: how sure the returned point is to lie on the adversarial side of the estimated border.
        true_gradient: PSJ-TrueGrad: take the direction from the white box.
    """

    iterations: int = 32
    resolution: int | None = None
    beta: float | None = None
    slopes: int = 16
    slope_range: tuple[float, float] = (-0.5, 2.5)
    floors: tuple[float | tuple[float, float], ...] = (0.0, 0.05, 0.15, 0.3)
    count: Count = field(default_factory=Count)
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
        for kind, name, known in (
            ("acquisition", self.acquisition, ("information", "sample-size")),
            ("estimate", self.estimate, ("mean", "map")),
            ("sample size", self.sample_size, ("signal", "point", "centre", "posterior")),
        ):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        if min(self.check_every, self.per_step, self.search_limit) < 1:
            raise InputError("check_every, per_step and search_limit must be at least 1.")
        if self.beta is not None and not self.beta > 0:
            raise InputError(f"beta must be positive, not {self.beta!r}.")
        if not (0 < self.spread_over <= 1 and 0 < self.confidence < 1 and self.enlarge >= 1):
            raise InputError("spread_over must be in (0, 1], confidence in (0, 1) and enlarge at least 1.")

    def build(self, dimension: int) -> BoundaryWalk:
        """The attack for inputs of d values."""
        parts = self.resolution or (100 if dimension <= _SMALL_INPUT else 300)
        beta = self.beta or 1 / parts
        pairs = tuple((f, f) if isinstance(f, float | int) else f for f in self.floors)
        search = BayesianSearch(
            grid=Grid(parts + 1, self.slopes, self.slope_range, pairs),
            spread=beta,
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
        direction: Direction = MonteCarlo(self.count, LineSpread(beta), baseline=self.baseline)
        if self.true_gradient:
            direction = TrueDirection()
        return BoundaryWalk(search, direction, FullStep(self.enlarge), self.iterations)
