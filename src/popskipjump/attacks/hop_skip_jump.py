"""HopSkipJump (Chen, Jordan and Wainwright, S&P 2020), as published."""

from __future__ import annotations

from dataclasses import dataclass, field

from popskipjump.attacks.parts.advance import HalvingStep
from popskipjump.attacks.parts.direction import Count, DistanceSpread, MonteCarlo
from popskipjump.attacks.parts.locate import BinarySearch
from popskipjump.attacks.walk import BoundaryWalk
from popskipjump.errors import InputError


@dataclass(frozen=True)
class HopSkipJump:
    """HopSkipJump: bisection, a gradient estimate with its baseline subtracted, a step halved until adversarial.

    HSJ-r, with majority votes, is this attack with `votes=r` in `evaluate`.

    Args:
        iterations: steps along the border.
        radius: delta_t in units of the distance; None for 1/d as published. Another radius also sets the end of the
            bisection to radius / sqrt(d), which keeps their ratio.
        psj_radius: take PopSkipJump's, sqrt(d) / 100, instead.
        count: number of random directions; `Count(factor=3)` multiplies it.
    """

    iterations: int = 32
    radius: float | None = None
    psj_radius: bool = False
    count: Count = field(default_factory=lambda: Count(limit=10_000))

    def __post_init__(self) -> None:
        if self.radius is not None and (self.radius <= 0 or self.psj_radius):
            raise InputError("radius must be positive, and is not given together with psj_radius.")

    def build(self, dimension: int) -> BoundaryWalk:
        """The attack for inputs of d values."""
        radius = dimension**0.5 / 100 if self.psj_radius else self.radius
        if radius is None:
            search, spread = BinarySearch(), DistanceSpread()
        else:
            search, spread = BinarySearch(radius / dimension**0.5), DistanceSpread(radius, first=None)
        direction = MonteCarlo(self.count, spread, sphere=True, baseline=True)
        return BoundaryWalk(search, direction, HalvingStep(), self.iterations)
