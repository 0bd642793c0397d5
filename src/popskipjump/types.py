"""Value types shared by every layer: input bounds and the status of an image."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

from popskipjump.errors import InputError

_LARGEST = 1e12  # the sum of a million squares of such values still fits into float32
_FLOAT32 = 2.0**-23  # float32 machine epsilon
_FEWEST_LEVELS = 1000


class Bounds(NamedTuple):
    """The smallest and the largest value an input coordinate may take."""

    low: float
    high: float

    @classmethod
    def of(cls, value: tuple[Any, Any]) -> Bounds:
        """Check `value` and return it as bounds."""
        try:
            low, high = (float(v) for v in value)
        except (TypeError, ValueError) as error:
            raise InputError(f"bounds must be two numbers (low, high), not {value!r}.") from error
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"bounds must be finite with low < high, not ({low}, {high}).")
        largest = max(abs(low), abs(high))
        if largest > _LARGEST:
            raise InputError(
                f"bounds must lie within +-{_LARGEST:g}, or float32 overflows, not ({low:g}, {high:g}): scale."
            )
        levels = (high - low) / (largest * _FLOAT32)
        if levels < _FEWEST_LEVELS:
            raise InputError(
                f"float32 has only about {max(levels, 1):.0f} values between the bounds {low!r} and {high!r}: "
                "shift the inputs so that they begin at 0."
            )
        return cls(low, high)

    @property
    def range(self) -> float:
        """Width of the interval."""
        return self.high - self.low


class Status(str, Enum):
    """Outcome of the attack on one image. The value is an explanation, or advice, for the user."""

    RUNNING = "the attack has not finished this image"
    FINISHED = "all iterations were done; the point is confirmed adversarial"
    CLOSE_ENOUGH = "the walk came within the requested distance; the point is confirmed adversarial"
    BUDGET_SPENT = "the query budget ran out; the point is confirmed adversarial: raise `budget` for a closer one"
    UNCONFIRMED = (
        "the point found could not be confirmed to be adversarial more often than not: "
        "do not count it as a success; raise `budget`, or see its verdict"
    )
    BUDGET_TOO_SMALL = (
        "the query budget ran out before a starting point was confirmed: raise `budget`, or pass `starts=` points"
    )
    MISCLASSIFIED = "the classifier already gives another class to the image itself; the distance is 0"
    BAD_LABEL = "the label is not one of the classifier's classes: labels count from 0"
    NO_START = (
        "no adversarial starting point was found: the classifier may never change its answer, or never give the target "
        "class to noise; pass `starts=` points (or a Pool of images) that it takes for another class, or for the target"
    )
    BAD_START = "the given starting point is not adversarial by majority vote: pass another one in `starts=`"
    NO_SIGNAL = (
        "the answers do not depend on the input along the search line (pure noise, or too much of it): "
        "nothing can be measured with this classifier"
    )
    FLAT = (
        "the answers stopped depending on the position along the search line, so no nearer border can be told apart "
        "from noise; the point is confirmed adversarial"
    )
    ORACLE_FAILED = (
        "the classifier raised an error or gave an unusable answer on this image, also when asked again; see "
        "`messages`; a point found before is kept, unconfirmed"
    )
    INTERRUPTED = "the run was stopped by the user; the point is the last one found, unconfirmed"

    @property
    def ended_well(self) -> bool:
        """Whether the walk ended normally, with a point that the settle phase has confirmed or must confirm."""
        return self in _ENDED_WELL

    @property
    def has_point(self) -> bool:
        """Whether the attack found a point for the image."""
        return self in _WITH_POINT


_WITH_POINT = frozenset(
    {
        Status.RUNNING,
        Status.FINISHED,
        Status.CLOSE_ENOUGH,
        Status.BUDGET_SPENT,
        Status.UNCONFIRMED,
        Status.FLAT,
        Status.MISCLASSIFIED,
        Status.INTERRUPTED,
    }
)
_ENDED_WELL = frozenset({Status.FINISHED, Status.CLOSE_ENOUGH, Status.BUDGET_SPENT, Status.FLAT})
