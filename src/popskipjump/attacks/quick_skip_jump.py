"""QuickSkipJump: small adversarial distances under noise with a fraction of PopSkipJump's queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from popskipjump.arguments import check_types
from popskipjump.attacks.acceptance.if_nearer import AcceptIfNearer
from popskipjump.attacks.base import check_iterations
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.attacks.protocols import Acceptance, Direction, Restart, Search, Start, StepRule
from popskipjump.attacks.searches.warm import WarmStartedSearch
from popskipjump.attacks.starts.patterns import PatternStart
from popskipjump.attacks.starts.restart import RestartIfLost
from popskipjump.attacks.steps.arc import ArcStep
from popskipjump.attacks.walk import AnyWalk, BoundaryWalk

_MOST_ITERATIONS = 1000  # with a budget, which ends the attack long before


@dataclass(frozen=True)
class QuickSkipJump:
    """QuickSkipJump, which adapts its next queries to the answers so far (docs/quickskipjump.md).

    Set a budget: if you give a budget and no number of iterations, the walk continues until the budget is spent.

    Args:
        iterations: steps along the border.
        start: finds the first border.
        direction: estimates the border's normal.
        step: chooses the next search line from the estimated normal.
        search: finds the border on the line to the new point.
        acceptance: chooses between the new border and the one before.
        restart: finds a new start for an image whose line has no border.
        nearest_start: whether to start from the nearest image of the pool.
    """

    iterations: int = 64
    start: Start = field(default_factory=PatternStart)
    direction: Direction[Any] = field(default_factory=AdaptiveDirections)
    step: StepRule[Any] = field(default_factory=ArcStep)
    search: Search[Any] = field(default_factory=WarmStartedSearch)
    acceptance: Acceptance[Any] = field(default_factory=AcceptIfNearer)
    restart: Restart[Any] = field(default_factory=RestartIfLost)
    nearest_start: bool = True

    def __post_init__(self) -> None:
        check_types(self)
        check_iterations(self.iterations)

    def build(self, dimension: int) -> AnyWalk:
        """The attack for inputs of d values."""
        return BoundaryWalk(
            start=self.start,
            direction=self.direction,
            step_rule=self.step,
            search=self.search,
            acceptance=self.acceptance,
            restart=self.restart,
            iterations=self.iterations,
        )

    def iterations_within(self, budget: int) -> int:
        """How many iterations to allow when a budget is given instead."""
        return min(_MOST_ITERATIONS, max(budget // self.direction.fewest, 1))
