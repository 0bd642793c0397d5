"""Small values shared by every layer."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from popskipjump.errors import InputError


class Bounds(NamedTuple):
    """The smallest and the largest value an input coordinate may take."""

    low: float
    high: float

    @classmethod
    def of(cls, value: tuple[float, float]) -> Bounds:
        """Check `value` and return it as bounds."""
        try:
            low, high = (float(v) for v in value)
        except (TypeError, ValueError) as error:
            raise InputError(f"bounds must be two numbers (low, high), not {value!r}.") from error
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"bounds must be finite with low < high, not ({low}, {high}).")
        return cls(low, high)

    @property
    def range(self) -> float:
        """Width of the interval."""
        return self.high - self.low


class Status(str, Enum):
    """How an image ended. The value is what a user should know or do."""

    RUNNING = "the attack has not finished this image"
    FINISHED = "all iterations were done"
    CLOSE_ENOUGH = "the point is within the requested distance"
    BUDGET_SPENT = "the query budget ran out; the point is the last one found: raise `budget` for a closer one"
    MISCLASSIFIED = "the classifier already gives another class to the image itself; the distance is 0"
    BAD_LABEL = "the label is not one of the classifier's classes: labels count from 0"
    NO_START = (
        "no adversarial starting point was found: the classifier may never change its answer; "
        "pass `starts=` points (or a Pool of images) that it takes for another class"
    )
    BAD_START = "the given starting point is not adversarial by majority vote: pass another one in `starts=`"
    NO_SIGNAL = (
        "the answers do not depend on the input along the search line (pure noise, or too much of it): "
        "nothing can be measured with this classifier"
    )
    FLAT = (
        "the answers stopped depending on the position along the search line, so no nearer border can be told apart "
        "from noise; the point is the last one found: see its verdict"
    )
    ORACLE_FAILED = "the classifier raised an error or gave an unusable answer on this image; see `messages`"
    INTERRUPTED = "the run was stopped by the user; the point is the last one found"

    @property
    def has_point(self) -> bool:
        """Whether the image ended with a point that the attack located."""
        return self in _WITH_POINT


_WITH_POINT = frozenset(
    {
        Status.RUNNING,
        Status.FINISHED,
        Status.CLOSE_ENOUGH,
        Status.BUDGET_SPENT,
        Status.FLAT,
        Status.MISCLASSIFIED,
        Status.INTERRUPTED,
    }
)
