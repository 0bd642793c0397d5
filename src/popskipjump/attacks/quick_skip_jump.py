"""QuickSkipJump: PopSkipJump's aim with a fraction of its queries."""

from __future__ import annotations

from dataclasses import dataclass, field

from popskipjump.attacks.parts.advance import ArcStep
from popskipjump.attacks.parts.carried import CarriedSearch
from popskipjump.attacks.parts.patterns import PatternStart
from popskipjump.attacks.parts.shaped import ShapedDirections
from popskipjump.attacks.walk import BoundaryWalk


@dataclass(frozen=True)
class QuickSkipJump:
    """QuickSkipJump."""

    iterations: int = 64
    search: CarriedSearch = field(default_factory=CarriedSearch)
    direction: ShapedDirections = field(default_factory=ShapedDirections)
    advance: ArcStep = field(default_factory=ArcStep)
    start: PatternStart | None = field(default_factory=PatternStart)

    def build(self, dimension: int) -> BoundaryWalk:
        """The attack for inputs of d values."""
        return BoundaryWalk(self.search, self.direction, self.advance, self.iterations, keep_nearer=True, start=self.start)
