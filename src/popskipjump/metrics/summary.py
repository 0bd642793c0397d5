"""The paper's summary over images: the median, with the 40th and the 60th percentile."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from popskipjump.errors import InputError

Number = TypeVar("Number", float, Tensor)


class Summary(NamedTuple):
    """Median, 40th and 60th percentile of a value over images."""

    median: float
    low: float  # 40th percentile
    high: float  # 60th percentile
    count: int  # type: ignore[assignment]  # how many values; hides tuple.count, which a summary has no use for


def summarise(values: Tensor | ArrayLike) -> Summary:
    """Summarise `(B,)` values; an image without an adversarial point counts as `inf` and is not left out."""
    source = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    ordered = np.sort(np.asarray(source, dtype=np.float64), axis=None)
    if not ordered.size:
        raise InputError("there is no value to sum up.")
    bad = int(np.isnan(ordered).sum())
    if bad:
        raise InputError(
            f"{bad} of {ordered.size} values are not numbers (nan): an image without a distance counts as inf."
        )
    low, median, high = (_quantile(ordered.tolist(), percent) for percent in (40, 50, 60))
    return Summary(median, low, high, ordered.size)


def _quantile(ordered: list[float], percent: int) -> float:
    """Percentile by linear interpolation; infinite values are allowed."""
    whole, part = divmod(percent * (len(ordered) - 1), 100)
    below = ordered[whole]
    if part == 0 or below == ordered[whole + 1]:
        return below
    above = ordered[whole + 1]
    return above if math.isinf(above) else below + (above - below) * part / 100


def paper_unit(distance: Number, dimension: int) -> Number:
    """L2 distances in the unit of the paper's tables, ||delta||_2^2 / d (errata E12).

    Args:
        distance: one, or a tensor of any shape, in input units.
        dimension: d, the number of input coordinates.
    """
    if dimension < 1:
        raise InputError(f"dimension must be at least 1, not {dimension}.")
    return distance * distance / dimension
