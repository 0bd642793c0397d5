"""`Space`: the valid inputs, and the units in which changes are measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popskipjump.errors import DataError, InputError
from popskipjump.geometry import Norm, norm_of
from popskipjump.space import rules
from popskipjump.space.validity import check_rows

UNITS = {
    "range": "ranges of the features",
    "std": "standard deviations of the features",
    "input": "units of the inputs",
    "own": "the given scales",
}
_VERSION = 1  # of the JSON form
_ARRAYS = ("low", "high", "scale", "mask")


@dataclass(frozen=True, eq=False)
class Space:
    """The valid inputs of one shape, and the unit of each feature's change.

    Features are named by place (in the flattened input) or, with `names`, by name. A feature is a number unless one of
    the four kinds below says otherwise. Distances are of changes divided by `scale`; a change of category counts as
    1 / scale, whichever categories they are.

    Args:
        low: smallest value: one number, or one for each feature.
        high: largest value; a feature whose bounds are equal cannot change.
        scale: "range" (each feature's high - low), or one number, or one for each feature.
        mask: True (or 1) where a feature may change, as in ART; any shape that broadcasts to the input's.
        immutable: features that may not change, in addition to those that `mask` leaves out.
        integer: features that are whole numbers.
        ordered: feature -> its levels, increasing numbers.
        onehot: groups of features of which exactly one is 1 and the others are 0.
        categories: feature -> how many categories; the feature holds a code 0, 1, ...
        names: of all features.
        values: feature -> what its codes or levels are called in a frame.
        shape: of one input; None takes that of the arrays.
    """

    low: Any  # (D,) float64 after construction, as are the next two
    high: Any
    scale: Any = "range"
    mask: Any = None  # (D,) bool
    immutable: Any = ()
    integer: Any = ()  # places
    ordered: Mapping[Any, Sequence[float]] = field(default_factory=dict)
    onehot: Sequence[Any] = ()
    categories: Mapping[Any, int] = field(default_factory=dict)
    names: Sequence[str] | None = None
    values: Mapping[Any, Sequence[Any]] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    unit: str = ""  # in words; "" names it by `scale`

    def __post_init__(self) -> None:
        shape = self._shape()
        count = int(np.prod(shape))
        names = rules.Names(count, self.names)
        low = rules.numbers(self.low, count, shape, "low")
        high = rules.numbers(self.high, count, shape, "high")
        mask = np.ones(count, bool) if self.mask is None else rules.flags(self.mask, shape, "mask")
        mask[names.places(self.immutable, "immutable")] = False
        integer = names.places(self.integer, "integer")
        groups = tuple(tuple(names.places(group, "onehot")) for group in self.onehot)
        categories = self._categories(names)
        self._code_bounds(low, high, categories, names)
        ordered = rules.levels_of(self.ordered, low, high, names)
        kinds = {"integer": integer, "ordered": ordered, "onehot": sum(groups, ()), "categories": categories}
        rules.one_kind_each(kinds, names)
        rules.check_bounds(low, high, mask, names)
        rules.whole_bounds(low, high, integer, names)
        unit, scale = self._scales(low, high, groups, categories, count, shape)
        mask &= low < high
        rules.check_scale(scale, mask, names)
        rules.check_groups(groups, low, high, scale, mask, names)
        for name, value in {
            "shape": shape, "low": low, "high": high, "mask": mask, "scale": scale, "unit": unit, "immutable": (),
            "integer": tuple(sorted(integer)), "ordered": ordered, "onehot": groups, "categories": categories,
            "names": names.names, "values": self._values(names, ordered, categories),
        }.items():  # fmt: skip
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    # Reading what was passed.

    def _shape(self) -> tuple[int, ...]:
        if self.shape is not None:
            return tuple(int(size) for size in self.shape)
        for value in (self.low, self.high, self.scale, self.mask):
            if value is not None and not isinstance(value, str) and np.ndim(value):
                return tuple(np.shape(value))
        if self.names is not None:
            return (len(self.names),)
        raise InputError("the bounds are single numbers: say how many features there are with `shape=` or `names=`.")

    def _categories(self, names: rules.Names) -> dict[int, int]:
        found = {}
        for feature, number in self.categories.items():
            place = names.place(feature, "categories")
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
                raise InputError(f"{names.show(place)} must have 1 or more categories, not {number!r}.")
            found[place] = int(number)
        return found

    @staticmethod
    def _code_bounds(
        low: rules.Numbers, high: rules.Numbers, categories: Mapping[int, int], names: rules.Names
    ) -> None:
        """The bounds of codes are 0 and the last code; tighter ones would forbid a category without saying so."""
        for place, number in categories.items():
            if low[place] > 0 or high[place] < number - 1:
                raise InputError(
                    f"{names.show(place)} has {number} categories, codes 0 to {number - 1}, and the bounds "
                    f"({low[place]:g}, {high[place]:g}) exclude some: leave the bounds at the first and last code."
                )
            low[place], high[place] = 0, number - 1

    def _scales(
        self,
        low: rules.Numbers,
        high: rules.Numbers,
        groups: Sequence[tuple[int, ...]],
        categories: Mapping[int, int],
        count: int,
        shape: tuple[int, ...],
    ) -> tuple[str, rules.Numbers]:
        """The unit in words and the scale of each feature; those that cannot change keep whatever it comes to."""
        if not isinstance(self.scale, str):
            scale = rules.numbers(self.scale, count, shape, "scale")
            plain = np.ndim(self.scale) == 0 and float(self.scale) == 1
            return self.unit or UNITS["input" if plain else "own"], scale
        if self.scale == "std":
            raise InputError("standard deviations need rows to compute them from: use Space.from_array(rows, 'std').")
        if self.scale != "range":
            raise InputError(f'scale must be "range", one number or one for each feature, not {self.scale!r}.')
        scale = np.where(np.isfinite(high - low) & (high > low), high - low, 1.0)
        scale[[*sum(groups, ()), *categories]] = 1.0
        return self.unit or UNITS["range"], scale

    def _values(
        self, names: rules.Names, ordered: Mapping[int, tuple[float, ...]], categories: Mapping[int, int]
    ) -> dict[int, tuple[Any, ...]]:
        found = {}
        for feature, called in self.values.items():
            place = names.place(feature, "values")
            number = len(ordered[place]) if place in ordered else categories.get(place)
            if number is None:
                raise InputError(f"values: {names.show(place)} has neither categories nor levels to be named.")
            if len(called) != number or len(set(called)) != number:
                raise InputError(f"values: {names.show(place)} needs {number} different names, not {some_of(called)}.")
            found[place] = tuple(called)
        return found

    # What it says.

    @property
    def dimension(self) -> int:
        """Features of one input, D."""
        return len(self.low)

    @property
    def is_continuous(self) -> bool:
        """Whether every feature that may change is a number without steps."""
        discrete = [*self.integer, *self.ordered, *sum(self.onehot, ()), *self.categories]
        return not bool(self.mask[discrete].any())

    @property
    def is_plain(self) -> bool:
        """Whether it is a box with one range for all features, none of them immutable, in units of the inputs."""
        same = len(set(self.low)) == 1 and len(set(self.high)) == 1 and bool((self.scale == 1).all())
        return same and self.is_continuous and bool(self.mask.all())

    @property
    def words(self) -> str:
        """How many features may change, and in which units, in a few words."""
        return f"{int(self.mask.sum())} of {self.dimension} features, in {self.unit}"

    def show(self, place: int) -> str:
        """A feature for a message."""
        return rules.Names(self.dimension, self.names).show(place)

    def check(self, rows: Any, what: str = "rows") -> None:
        """Raise unless all rows `(M, *S)` are valid inputs."""
        check_rows(self, np.asarray(rows), what)

    def distance(self, rows: Any, originals: Any, norm: str | Norm = "l2") -> np.ndarray:
        """How far rows are from their originals, in scaled units: `(M, *S)`, `(M, *S)` -> float64 `(M,)`."""
        new, old = (np.asarray(x, dtype=np.float64).reshape(-1, self.dimension) for x in (rows, originals))
        change = (new - old) / np.where(self.scale > 0, self.scale, 1.0)
        for place in self.categories:
            change[:, place] = (new[:, place] != old[:, place]) / self.scale[place]
        for group in self.onehot:  # a change of category counts once, not once for each of the two features
            places = list(group)
            changed = (new[:, places] != old[:, places]).any(axis=1)
            change[:, places] = 0.0
            change[:, places[0]] = changed / self.scale[places[0]]
        return np.asarray(norm_of(norm).size(torch.from_numpy(change)).numpy())

    # Other spaces, made from it.

    def with_mask(self, mask: Any) -> Space:
        """The same with fewer free features: True where one may still change."""
        return replace(self, mask=self.mask & rules.flags(mask, self._known_shape, "mask"))

    @property
    def _known_shape(self) -> tuple[int, ...]:
        return tuple(self.shape or ())

    @classmethod
    def from_array(cls, rows: Any, scale: Any = "range", **rest: Any) -> Space:
        """The space that example rows `(N, *S)` span: bounds from their extremes unless `low=` and `high=` are given.

        Args:
            rows: data that the classifier knows, such as its training rows.
            scale: "range", "std" (of the rows), or as for `Space`.
            rest: as for `Space`.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim < 2 or not len(table) or not np.isfinite(table).all():
            raise InputError(f"rows must be finite numbers of shape (rows, ...), not {table.shape} with gaps or none.")
        bounds = {"low": table.min(axis=0), "high": table.max(axis=0)} | rest
        names = rules.Names(table[0].size, rest.get("names"))
        for end in ("low", "high"):
            bounds[end] = rules.numbers(bounds[end], table[0].size, table.shape[1:], end)
        for group in rest.get("onehot", ()):  # the rows may lack a category
            places = names.places(group, "onehot")
            bounds["low"][places], bounds["high"][places] = 0.0, 1.0
        for kind in ("categories", "ordered"):
            for feature, known in rest.get(kind, {}).items():
                place = names.place(feature, kind)
                ends = (0, known - 1) if kind == "categories" else (min(known), max(known))
                bounds["low"][place], bounds["high"][place] = ends
        if isinstance(scale, str) and scale == "std":
            spread = table.std(axis=0).reshape(-1)
            spread[[names.place(f, "onehot") for group in rest.get("onehot", ()) for f in group]] = 1.0
            spread[[names.place(f, "categories") for f in rest.get("categories", {})]] = 1.0
            fixed = ~(spread > 0)
            spread[fixed] = 1.0
            unit = {"unit": UNITS["std"]} | {k: v for k, v in rest.items() if k == "unit"}
            bounds |= {"scale": spread.reshape(table.shape[1:]), **unit}
        else:
            bounds["scale"] = scale
        return cls(**{"shape": table.shape[1:]} | bounds)

    @classmethod
    def from_frame(cls, frame: Any, scale: Any = "range", **rest: Any) -> Space:
        """The space of a pandas frame, from its dtypes and extremes (see `frames.read_frame`)."""
        from popskipjump.space.frames import read_frame

        return read_frame(cls, frame, scale, **rest)

    @classmethod
    def from_columns(cls, path: str | Path) -> Space:
        """The space that a `columns.json` describes (see `columns.read_columns`)."""
        from popskipjump.space.columns import read_columns

        return read_columns(cls, Path(path))

    # Keeping it.

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and text, from which `from_json` makes an equal space."""
        content: dict[str, Any] = {"version": _VERSION, "shape": list(self._known_shape), "unit": self.unit}
        for name in _ARRAYS:
            array = getattr(self, name)
            same = len(np.unique(array)) == 1
            content[name] = _plain(array[0]) if same else [_plain(value) for value in array]
        content["integer"] = list(self.integer)
        content["ordered"] = {str(place): list(levels) for place, levels in sorted(self.ordered.items())}
        content["onehot"] = [list(group) for group in self.onehot]
        content["categories"] = {str(place): number for place, number in sorted(self.categories.items())}
        content["names"] = None if self.names is None else list(self.names)
        content["values"] = {str(p): [_plain(value) for value in called] for p, called in sorted(self.values.items())}
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Space:
        """The space that `to_json` described."""
        try:
            rest = {key: value for key, value in content.items() if key != "version"}
            if content["version"] != _VERSION:
                raise DataError(f"this space has version {content['version']!r}; version {_VERSION} can be read.")
            rest["shape"] = tuple(rest["shape"])
            for name in ("low", "high"):
                rest[name] = _unplain(rest[name])
            for name in ("ordered", "categories", "values"):
                rest[name] = {int(place): value for place, value in rest[name].items()}
            return cls(**rest)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"this is not the JSON form of a space: {error!r}.") from error

    @property
    def digest(self) -> str:
        """SHA-256 of its JSON form: equal for equal spaces."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.digest)


def some_of(values: Sequence[Any]) -> str:
    """The first few, for a message."""
    return rules.some(values)


def _plain(value: Any) -> Any:
    """A number or text as JSON has it; an infinite bound is text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return "inf" if value > 0 else "-inf"
    return value


def _unplain(value: Any) -> Any:
    return [float(entry) for entry in value] if isinstance(value, list) else float(value)
