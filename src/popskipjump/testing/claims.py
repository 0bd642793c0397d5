"""The error that a violated contract raises."""

from __future__ import annotations


def claim(holds: object, otherwise: str) -> None:
    """Fail a test with a sentence, under `python -O` too."""
    if not holds:
        raise AssertionError(otherwise)
