"""Type checks of a configuration's arguments: numbers are finite, flags are flags, parts are objects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import Field, fields
from numbers import Integral, Number, Real
from typing import Any

from popskipjump.errors import InputError


def check_types(config: Any) -> None:
    """Raise an error unless every argument of a dataclass has the type of its field.

    Which numbers of this type make sense, the dataclass checks itself; it may rely on them being finite. Names
    (annotated as `Literal` or by another alias of text) are left to the dataclass as well.
    """
    for field in fields(config):
        value, wanted = getattr(config, field.name), _wanted(field)
        if wanted is None or (value is None and str(field.type).endswith("| None")):
            continue
        if not _CHECKS[wanted](value):
            raise InputError(f"{type(config).__name__}: {field.name} must be {wanted}, not {value!r}.")


def _wanted(field: Field[Any]) -> str | None:
    """What an argument must be, in words, by the annotation of its field; None for a name."""
    annotation = str(field.type)
    for beginning, wanted in _KINDS.items():
        if annotation.startswith(beginning):
            return wanted
    return "an object"


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond float64
        return False


def _is_numbers(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_finite, _leaves(value)))


def _leaves(value: tuple[Any, ...]) -> Iterator[Any]:
    for item in value:
        yield from _leaves(item) if isinstance(item, tuple) else (item,)


def _is_object(value: object) -> bool:
    return value is not None and not isinstance(value, Number | str | bytes | list | tuple | dict | set | type)


_NUMBER, _WHOLE, _FLAG, _NUMBERS = "a finite number", "a whole number", "True or False", "a tuple of finite numbers"
_KINDS = {
    "bool": _FLAG,
    "int": _WHOLE,
    "float": _NUMBER,
    "tuple": _NUMBERS,
    "Callable": "a function",
    "Literal": None,
    "SampleSize": None,
}
_CHECKS = {
    _FLAG: lambda value: isinstance(value, bool),
    _WHOLE: _is_whole,
    _NUMBER: _is_finite,
    _NUMBERS: _is_numbers,
    "a function": callable,
    "an object": _is_object,
}
