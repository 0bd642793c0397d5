"""Checks of a space's rules for contradictions, before the first query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from popskipjump.errors import InputError

Numbers = np.ndarray  # (D,) float64
LARGEST_INTEGER = 2**24  # float32, in which inputs travel, holds every whole number up to here


class Names:
    """The features by name or by place, with their names in every message."""

    def __init__(self, count: int, names: Sequence[str] | None) -> None:
        if names is not None:
            names = tuple(str(name) for name in names)
            if len(names) != count:
                raise InputError(f"{len(names)} names for {count} features: give one name to each.")
            if len(set(names)) != count:
                twice = sorted({name for name in names if names.count(name) > 1})
                raise InputError(f"the name {twice[0]!r} is given to more than one feature.")
        self.names, self.count = names, count
        self._place = {} if names is None else {name: place for place, name in enumerate(names)}

    def place(self, feature: object, rule: str) -> int:
        """The place of a feature that a rule names."""
        if isinstance(feature, str):
            if feature not in self._place:
                known = "they have no names" if self.names is None else f"there are {some(self.names)}"
                raise InputError(f"{rule}: there is no feature {feature!r} ({known}).")
            return self._place[feature]
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer):
            raise InputError(f"{rule}: a feature is a name or a place, not {feature!r}.")
        if not 0 <= int(feature) < self.count:
            raise InputError(f"{rule}: there is no feature {int(feature)}; places are 0 to {self.count - 1}.")
        return int(feature)

    def places(self, features: object, rule: str) -> list[int]:
        """The places of several; a truth value for each feature does as well."""
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise InputError(f"{rule} must be a list of features, not {features!r}.")
        chosen = np.asarray(features) if isinstance(features, np.ndarray) else None
        if chosen is not None and chosen.dtype == bool:
            if chosen.size != self.count:
                raise InputError(f"{rule} has {chosen.size} truth values for {self.count} features.")
            return [int(place) for place in np.flatnonzero(chosen)]
        found = [self.place(feature, rule) for feature in features]
        if len(set(found)) != len(found):
            twice = next(place for place in found if found.count(place) > 1)
            raise InputError(f"{rule}: {self.show(twice)} is named twice.")
        return found

    def show(self, place: int) -> str:
        """A feature for a message."""
        return f"feature {place}" if self.names is None else f"feature {self.names[place]!r}"


def some(things: Iterable[object], limit: int = 8) -> str:
    """The first few, for a message."""
    listed = list(things)
    shown = ", ".join(map(str, listed[:limit]))
    return shown if len(listed) <= limit else f"{shown}, ... ({len(listed)} in all)"


def numbers(value: Any, count: int, shape: tuple[int, ...], what: str) -> Numbers:
    """One number, or one for each feature, as float64 `(D,)`."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be one number or an array of the inputs' shape {shape}: {error}.") from error
    if array.ndim == 0:
        return np.full(count, float(array))
    if array.shape not in (shape, (count,)):
        raise InputError(f"{what} has the shape {array.shape}; it must be one number or have the shape {shape}.")
    return array.reshape(-1).copy()


def flags(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Truth values (or 0 and 1) that broadcast to the inputs' shape, as bool `(D,)`."""
    array = np.asarray(value)
    if array.dtype != bool and not (array.dtype.kind in "iuf" and bool(np.isin(array, (0, 1)).all())):
        raise InputError(f"{what} must hold truth values, or 0 and 1: 1 where a feature may change.")
    try:
        whole = np.broadcast_to(array.astype(bool), shape)
    except ValueError:
        flat = array.reshape(-1)
        if flat.shape != (int(np.prod(shape)),):
            raise InputError(f"{what} has the shape {array.shape}, which does not fit inputs of {shape}.") from None
        whole = flat.astype(bool)
    return whole.reshape(-1).copy()


def check_bounds(low: Numbers, high: Numbers, mask: np.ndarray, names: Names) -> None:
    """Bounds are in order, and finite where a feature may change."""
    for place in np.flatnonzero(~(low <= high)):
        raise InputError(
            f"{names.show(int(place))} has the bounds ({low[place]:g}, {high[place]:g}): the lower one must not exceed "
            "the upper one."
        )
    for place in np.flatnonzero(mask & ~(np.isfinite(low) & np.isfinite(high))):
        raise InputError(
            f"{names.show(int(place))} may change and has the bounds ({low[place]:g}, {high[place]:g}): give finite "
            "bounds, or make it immutable."
        )


def check_scale(scale: Numbers, mask: np.ndarray, names: Names) -> None:
    """Scales of free features are positive and finite."""
    for place in np.flatnonzero(mask & ~((scale > 0) & np.isfinite(scale))):
        raise InputError(
            f"{names.show(int(place))} has the scale {scale[place]:g}: a scale must be positive and finite (a feature "
            "that cannot change belongs into `immutable`)."
        )


def whole_bounds(low: Numbers, high: Numbers, integer: Sequence[int], names: Names) -> None:
    """Tighten the bounds of integer features, in place, to the whole numbers within them."""
    for place in integer:
        least, most = np.ceil(low[place]), np.floor(high[place])
        if least > most:
            raise InputError(
                f"{names.show(place)} must be an integer, and there is none between {low[place]:g} and {high[place]:g}."
            )
        if np.isfinite((least, most)).all() and max(abs(least), abs(most)) > LARGEST_INTEGER:
            raise InputError(
                f"{names.show(place)} is an integer up to {max(abs(least), abs(most)):.0f}: inputs are float32, which "
                f"holds whole numbers exactly up to {LARGEST_INTEGER:,}. Count in larger units."
            )
        low[place], high[place] = least, most


def levels_of(
    ordered: Mapping[Any, Sequence[float]], low: Numbers, high: Numbers, names: Names
) -> dict[int, tuple[float, ...]]:
    """The levels of ordered features, increasing, each within the bounds; bounds become the first and last level."""
    found = {}
    for feature, values in ordered.items():
        place = names.place(feature, "ordered")
        try:
            levels = np.asarray(list(values), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"the levels of {names.show(place)} must be numbers: {error}.") from error
        if len(levels) < 1 or not np.isfinite(levels).all() or not (np.diff(levels) > 0).all():
            raise InputError(f"the levels of {names.show(place)} must be finite and increasing, not {some(levels)}.")
        if len(set(levels.astype(np.float32))) != len(levels):
            raise InputError(f"two levels of {names.show(place)} are the same number in float32: use codes 0, 1, ...")
        outside = levels[(levels < low[place]) | (levels > high[place])]
        if len(outside):
            raise InputError(
                f"the level {outside[0]:g} of {names.show(place)} is outside its bounds "
                f"({low[place]:g}, {high[place]:g})."
            )
        low[place], high[place] = levels[0], levels[-1]
        found[place] = tuple(float(level) for level in levels)
    return found


def one_kind_each(kinds: Mapping[str, Iterable[int]], names: Names) -> None:
    """No feature is of two kinds."""
    of: dict[int, str] = {}
    for kind, places in kinds.items():
        for place in places:
            if place in of:
                raise InputError(
                    f"{names.show(place)} is in `{of[place]}` and in `{kind}`: it can be of one kind only."
                )
            of[place] = kind


def check_groups(
    groups: Sequence[tuple[int, ...]], low: Numbers, high: Numbers, scale: Numbers, mask: np.ndarray, names: Names
) -> None:
    """One-hot groups are large enough, free or immutable as a whole, and may hold 0 and 1."""
    for group in groups:
        places = list(group)
        shown = some(names.show(place) for place in places)
        if len(places) < 2:
            raise InputError(f"a one-hot group needs at least two features, not {shown}.")
        if mask[places].any() and not mask[places].all():
            raise InputError(f"one-hot group ({shown}): some of it is immutable; free or mask all of its features.")
        if (low[places] > 0).any() or (high[places] < 1).any():
            raise InputError(
                f"one-hot group ({shown}): its features are 0 or 1, and their bounds exclude one of these."
            )
        if mask[places].any() and len(set(scale[places])) > 1:
            raise InputError(f"one-hot group ({shown}): its features must have one scale, the cost of a change.")
