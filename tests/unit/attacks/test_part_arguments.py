"""Every part checks its own arguments: no number without a meaning gets as far as the first query."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from popskipjump.attacks import (
    PARTS,
    ArcStep,
    BoundaryAttack,
    DirectionCount,
    HopSkipJump,
    LineSpread,
    PopSkipJump,
    QuickSkipJump,
    Retry,
    Settle,
)
from popskipjump.errors import InputError

KINDS: dict[str, type[Any]] = PARTS | {
    kind.__name__: kind for kind in (PopSkipJump, QuickSkipJump, HopSkipJump, BoundaryAttack, Settle, Retry)
}
NEEDED: dict[str, dict[str, Any]] = {
    "LineSpread": {"part": 0.01},
    "MonteCarlo": {"count": DirectionCount(), "spread": LineSpread(0.01)},
}
NO_NUMBERS: tuple[Any, ...] = (math.nan, math.inf, -1, True, "1", [1])


def nonsense(annotation: str) -> tuple[Any, ...]:
    """Values that an argument of this type must refuse."""
    if annotation.startswith("bool"):
        return (2, "yes", None)
    if annotation.startswith("int"):
        return (*NO_NUMBERS, 1.5) + (() if annotation.endswith("| None") else (None,))
    if annotation.startswith("float"):
        return NO_NUMBERS + (() if annotation.endswith("| None") else (None,))
    if annotation.startswith("Callable"):
        return (5, "x", None)
    if annotation.startswith("tuple"):
        return (5, "x", None, (math.nan, 1.0), (1.0, math.inf), ("a", "b"), (-2.0, -3.0), (1.0, 2.0, 3.0), [0.1, 0.2])
    return (5, "x", ArcStep) + (() if annotation.endswith("| None") else (None,))


CASES = [
    pytest.param(name, field.name, value, id=f"{name}-{field.name}-{value!r}")
    for name, kind in KINDS.items()
    for field in fields(kind)
    if field.init
    for value in nonsense(str(field.type))
]


@pytest.mark.parametrize("name", KINDS)
def test_a_part_can_be_made(name: str) -> None:
    KINDS[name](**NEEDED.get(name, {}))


@pytest.mark.parametrize(("name", "argument", "value"), CASES)
def test_an_argument_without_a_meaning_is_refused(name: str, argument: str, value: Any) -> None:
    with pytest.raises(InputError):
        KINDS[name](**(NEEDED.get(name, {}) | {argument: value}))
