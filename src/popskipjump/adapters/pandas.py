"""Conversion of columns to a pandas frame, if pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popskipjump.errors import DataError, MissingExtraError


def frame_of(columns: Mapping[str, Any]) -> Any:
    """A frame with these columns, each of one length.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    return _pandas().DataFrame(dict(columns))


def read_csv(path: Path) -> Any:
    """The frame in a file with a header and commas; pandas finds the dtypes.

    Raises:
        MissingExtraError: pandas is not installed.
        DataError: the file cannot be read, or is no such table.
    """
    pandas = _pandas()
    try:
        frame = pandas.read_csv(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from error
    except ValueError as error:  # pandas' own errors are of this type
        raise DataError(f"{path} is no table with a header and commas: {error}.") from error
    if not len(frame):
        raise DataError(f"{path} has no rows.")
    return frame


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error
    return pandas
