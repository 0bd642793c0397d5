"""Validity of rows in a space; the first violation is named by row and feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from popskipjump.errors import InputError
from popskipjump.space.rules import some

if TYPE_CHECKING:
    from popskipjump.space.space import Space


def check_rows(space: Space, rows: np.ndarray, what: str) -> None:
    """Raise unless all rows `(M, *S)` are valid; numbers are compared as float32, as they travel."""
    if rows.ndim < 2 or rows[0].size != space.dimension:
        raise InputError(f"{what} have the shape {rows.shape}; the space is of inputs of {space.shape}.")
    flat = rows.reshape(len(rows), -1).astype(np.float32)
    _refuse(space, ~np.isfinite(flat), flat, what, "not finite")
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    _refuse(space, (flat < low) | (flat > high), flat, what, "outside the feature's bounds")
    uneven = np.zeros_like(flat, dtype=bool)
    uneven[:, list(space.integer)] = flat[:, list(space.integer)] % 1 != 0
    _refuse(space, uneven, flat, what, "not an integer")
    unknown = np.zeros_like(flat, dtype=bool)
    for place, levels in space.ordered.items():
        unknown[:, place] = ~np.isin(flat[:, place], np.asarray(levels, dtype=np.float32))
    _refuse(space, unknown, flat, what, "not one of the feature's levels")
    for place in space.categories:
        unknown[:, place] = flat[:, place] % 1 != 0
    _refuse(space, unknown, flat, what, "not the code of a category")
    for group in space.onehot:
        places = list(group)
        hot = (flat[:, places] == 1).sum(axis=1) == 1
        cold = (flat[:, places] == 0).sum(axis=1) == len(places) - 1
        wrong = np.flatnonzero(~(hot & cold))
        if len(wrong):
            shown = some(space.show(place) for place in places)
            raise InputError(
                f"{len(wrong)} of {len(flat)} {what} are not one-hot in ({shown}), such as row {wrong[0]}: exactly one "
                "of these must be 1 and the others 0."
            )


def _refuse(space: Space, bad: np.ndarray, flat: np.ndarray, what: str, why: str) -> None:
    """Raise if there is a bad value, bool `(M, D)`."""
    if not bad.any():
        return
    row, place = (int(index[0]) for index in np.nonzero(bad))
    count = int(bad.any(axis=1).sum())
    limits = f" ({space.low[place]:g} to {space.high[place]:g})" if "bounds" in why else ""
    raise InputError(
        f"{count} of {len(flat)} {what} break a rule of the space: in row {row}, {space.show(place)} is "
        f"{flat[row, place]:g}, which is {why}{limits}. Correct the data, or the space."
    )
