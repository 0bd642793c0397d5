"""QuickSkipJump: PopSkipJump's aim with a fraction of its queries."""

from __future__ import annotations

from dataclasses import dataclass, field

from popskipjump.attacks.parts.accept import Nearer
from popskipjump.attacks.parts.advance import ArcStep
from popskipjump.attacks.parts.carried import CarriedSearch
from popskipjump.attacks.parts.patterns import PatternStart
from popskipjump.attacks.parts.shaped import ShapedDirections
from popskipjump.attacks.walk import BoundaryWalk

_MOST_ITERATIONS = 1000  # with a budget, which ends the attack long before


@dataclass(frozen=True)
class QuickSkipJump:
    """An attack of our own that learns from its answers what to ask (docs/quickskipjump.md).

    Its natural measure is a budget: with one and without a number of iterations, it goes on until the budget is spent.

    Args:
        iterations: steps along the border.
        search: finds the border on each line.
        direction: estimates its normal.
        advance: steps along it.
        start: looks for a nearer place to begin at; None begins where it is told.
        accept: chooses between a new border and the one before.
        nearest_start: of a pool of starting points, take the nearest.
    """

    iterations: int = 64
    search: CarriedSearch = field(default_factory=CarriedSearch)
    direction: ShapedDirections = field(default_factory=ShapedDirections)
    advance: ArcStep = field(default_factory=ArcStep)
    start: PatternStart | None = field(default_factory=PatternStart)
    accept: Nearer | None = field(default_factory=Nearer)
    nearest_start: bool = True

    def build(self, dimension: int) -> BoundaryWalk:
        """The attack for inputs of d values."""
        return BoundaryWalk(self.search, self.direction, self.advance, self.iterations, self.start, self.accept)

    def iterations_within(self, budget: int) -> int:
        """How many iterations to allow when a budget is given instead."""
        return min(_MOST_ITERATIONS, max(budget // self.direction.number.fewest, 1))
