"""HopSkipJump (Chen, Jordan and Wainwright, S&P 2020), as published up to where float32 ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from popskipjump.arguments import check_types
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint
from popskipjump.attacks.base import check_iterations
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.monte_carlo import DistanceSpread, MonteCarlo
from popskipjump.attacks.searches.bisection import BinarySearch
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.restart import NoRestart
from popskipjump.attacks.steps.straight import HalvingStep
from popskipjump.attacks.walk import AnyWalk, BoundaryWalk
from popskipjump.errors import InputError

FLOAT32 = 2.0**-24  # half the distance of two float32 numbers between 1/2 and 1, the rounding error of most values


@dataclass(frozen=True)
class HopSkipJump:
    """HopSkipJump: bisection, a gradient estimate with its baseline subtracted, a step halved until adversarial.

    HSJ-r, with majority votes, is this attack with `votes=r` in `evaluate`.

    Args:
        iterations: steps along the border.
        radius: delta_t in units of the distance; None for 1/d as published. Another radius also sets the end of the
            bisection to radius / sqrt(d), which keeps their ratio.
        psj_radius: take PopSkipJump's, sqrt(d) / 100, instead.
        count: number of random directions; `DirectionCount(factor=3)` multiplies it.
        finest: smallest change of a value, in units of the range of the bounds, that the classifier can tell: a floor
            for the published radius and bisection (docs/errata.md, D7). 0 has them as published at any size.
    """

    iterations: int = 32
    radius: float | None = None
    psj_radius: bool = False
    count: DirectionCount = field(default_factory=lambda: DirectionCount(limit=10_000))
    finest: float = FLOAT32

    def __post_init__(self) -> None:
        check_types(self)
        check_iterations(self.iterations)
        BinarySearch(finest=self.finest)  # each part checks its own arguments
        if self.radius is not None and (self.radius <= 0 or self.psj_radius):
            raise InputError("radius must be positive, and is not given together with psj_radius.")

    def build(self, dimension: int) -> AnyWalk:
        """The attack for inputs of d values."""
        radius = dimension**0.5 / 100 if self.psj_radius else self.radius
        if radius is None:
            search, spread = BinarySearch(finest=self.finest), DistanceSpread(finest=self.finest)
        else:
            search, spread = BinarySearch(radius / dimension**0.5), DistanceSpread(radius, first=None)
        direction = MonteCarlo(self.count, spread, sphere=True, baseline=True)
        return BoundaryWalk(
            start=GivenStart(),
            direction=direction,
            step_rule=HalvingStep(),
            search=search,
            acceptance=UnlessFaint(),
            restart=NoRestart(),
            iterations=self.iterations,
        )
