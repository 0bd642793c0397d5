"""A value that may be None, where the test knows that it is not."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value; None fails the test."""
    assert value is not None
    return value
