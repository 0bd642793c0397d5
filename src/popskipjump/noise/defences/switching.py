"""A moving target: an ensemble that switches in time (Sengupta, Chakraborti and Kambhampati, GameSec 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from popskipjump.noise.checks import whole_number
from popskipjump.noise.ensemble import Ensemble


@dataclass(frozen=True)
class Switching(Ensemble):
    """One member of an ensemble answers `period` queries of an image in a row; then the next one is drawn.

    Answers to one input are equal for a while: repeating a query, as votes do, tells nothing new, and the answers are
    not independent, as every decision-based attack takes them to be. Time is counted for each image on its own, so
    that an image's result does not depend on the others.

    Args:
        members: as those of an `Ensemble`.
        period: how many queries in a row; 1 is an `Ensemble`.
    """

    period: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", whole_number("period", self.period, 1))

    def __str__(self) -> str:
        return f"{super().__str__()}, one for {self.period} queries"

    @property
    def held_for(self) -> int:
        """How many queries of an image share one stream (see `Classifier`)."""
        return self.period
