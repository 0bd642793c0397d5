"""Columns as a pandas frame, where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from popskipjump.errors import MissingExtraError


def frame_of(columns: Mapping[str, Any]) -> Any:
    """A frame with these columns, each of one length.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error
    return pandas.DataFrame(dict(columns))
