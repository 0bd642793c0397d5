"""Conversion of pandas frames with columns of several types to arrays of codes and numbers, and back.

Nothing of pandas is imported: what is used of a frame are its columns, dtypes and its own constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from popskipjump.errors import InputError
from popskipjump.space.rules import some
from popskipjump.space.space import Space


def is_frame(value: object) -> bool:
    """Whether a value looks like a frame: columns with names and dtypes."""
    return all(hasattr(value, name) for name in ("columns", "dtypes", "astype", "iloc"))


def read_frame(cls: type[Space], frame: Any, scale: Any = "range", **rest: Any) -> Space:
    """The space of a frame's columns.

    Integer and Boolean columns are integers, categories of an ordered dtype are ordered, those of an unordered one and
    text are categories (of text: those that occur), everything else is a number. Bounds are the extremes that occur.

    Args:
        cls: the class to make.
        frame: rows that the classifier knows, such as its training rows.
        scale: "range", "std", or as for `Space`.
        rest: as for `Space.from_array`; `low=` and `high=` may be a mapping from some columns to their bounds.
    """
    if not is_frame(frame):
        raise InputError(f"from_frame needs a frame with named columns, not {type(frame).__name__}: see from_array.")
    names = [str(name) for name in frame.columns]
    values, ordered, categories, integer = {}, {}, {}, []
    for name, column in zip(names, frame.columns, strict=True):
        called, is_ordered = _categories(frame, column)
        if called is not None:
            values[name] = called
            if is_ordered:
                ordered[name] = list(range(len(called)))
            else:
                categories[name] = len(called)
        elif np.asarray(frame[column]).dtype.kind in "biu":
            integer.append(name)
    in_group = {name for group in rest.get("onehot", ()) for name in group}
    kinds = {
        "integer": [name for name in rest.pop("integer", integer) if name not in in_group],
        "ordered": ordered | dict(rest.pop("ordered", {})),
        "categories": categories,
        "values": values,
    }
    rows = _encoded(frame, names, values)
    for end, extreme in (("low", rows.min(axis=0)), ("high", rows.max(axis=0))):
        given = rest.pop(end, {})
        if not isinstance(given, dict):
            rest[end] = np.broadcast_to(np.asarray(given, dtype=np.float64), extreme.shape).copy()
            continue
        for name, value in given.items():
            if name not in names:
                raise InputError(f"{end}: there is no column {name!r} (there are {some(names)}).")
            extreme[names.index(name)] = value
        rest[end] = extreme
    kinds["integer"] = [name for name in kinds["integer"] if name not in kinds["ordered"]]
    return cls.from_array(rows, scale, names=names, **kinds, **rest)


def _categories(frame: Any, column: Any) -> tuple[list[Any] | None, bool]:
    """The categories of a column, None for numbers, and whether they have an order."""
    dtype = frame[column].dtype
    if hasattr(dtype, "categories"):
        return list(dtype.categories), bool(dtype.ordered)
    entries = np.asarray(frame[column])
    if entries.dtype.kind in "biuf":
        return None, False
    kinds = {type(entry) for entry in entries.tolist()}
    if kinds <= {str}:
        return sorted(set(entries.tolist())), False
    raise InputError(
        f"column {str(column)!r} holds {some(sorted(kind.__name__ for kind in kinds))}: make it numbers, text or a "
        "category dtype."
    )


def encode(space: Space, frame: Any, what: str = "rows") -> np.ndarray:
    """A frame as the space's array of numbers and codes: float64 `(M, D)`; columns may come in any order."""
    if space.names is None:
        raise InputError("the space has no names, so the columns of a frame cannot be found: use Space.from_frame.")
    there = {str(name) for name in frame.columns}
    missing = [name for name in space.names if name not in there]
    if missing:
        raise InputError(f"{what}: the frame has no column {some(map(repr, missing))}.")
    extra = sorted(there - set(space.names))
    if extra:
        raise InputError(
            f"{what}: the space knows nothing of column {some(map(repr, extra))}: drop it, or describe it."
        )
    return _encoded(frame, space.names, {space.names[place]: called for place, called in space.values.items()}, what)


def _encoded(frame: Any, names: Sequence[str], values: dict[str, Any], what: str = "rows") -> np.ndarray:
    by_name = {str(column): column for column in frame.columns}
    columns = []
    for name in names:
        entries = frame[by_name[name]]
        if name in values:
            codes = {value: code for code, value in enumerate(values[name])}
            unknown = [entry for entry in entries.tolist() if entry not in codes]
            if unknown:
                raise InputError(
                    f"{what}: column {name!r} holds {unknown[0]!r}, which is not one of its categories "
                    f"({some(map(repr, values[name]))})."
                )
            columns.append(np.array([codes[entry] for entry in entries.tolist()], dtype=np.float64))
            continue
        try:
            numbers = np.asarray(entries, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{what}: column {name!r} must hold numbers: {error}.") from error
        if not np.isfinite(numbers).all():
            raise InputError(f"{what}: column {name!r} has missing or infinite values: fill them first.")
        columns.append(numbers)
    return np.stack(columns, axis=1)


def decoder(space: Space, like: Any) -> Callable[[np.ndarray], Any]:
    """A function from the space's arrays `(M, D)` to frames with the columns and dtypes of a frame."""
    make = type(like)
    place_of = {name: place for place, name in enumerate(space.names or ())}
    makers = {column: _column_maker(space, place_of[str(column)], like[column]) for column in like.columns}
    places = {column: place_of[str(column)] for column in like.columns}

    def decode(rows: np.ndarray) -> Any:
        flat = np.asarray(rows).reshape(len(rows), -1)
        return make({column: of_column(flat[:, places[column]]) for column, of_column in makers.items()})

    return decode


def _column_maker(space: Space, place: int, like: Any) -> Callable[[np.ndarray], Any]:
    """From the numbers or codes of one feature to a column of the dtype of another."""
    dtype, column = like.dtype, type(like)
    native = isinstance(dtype, np.dtype)
    if place not in space.values:
        return (lambda numbers: numbers.astype(dtype)) if native else (lambda numbers: column(numbers, dtype=dtype))
    words = np.array(space.values[place], dtype=object)
    levels = np.asarray(space.ordered.get(place, range(len(words))))
    if not hasattr(dtype, "categories"):
        return lambda codes: column(words[np.searchsorted(levels, codes)], dtype=dtype)
    # Straight from codes: building a column of words for every query would take longer than many a classifier.
    known = list(dtype.categories)
    missing = [word for word in words.tolist() if word not in known]
    if missing:
        raise InputError(
            f"{space.show(place)}: the column of the frame has no category {missing[0]!r}, which the space allows: "
            "give it the categories of the frame that the space was made from."
        )
    codes_of = np.array([known.index(word) for word in words.tolist()])
    from_codes = dtype.construct_array_type().from_codes
    return lambda codes: from_codes(codes_of[np.searchsorted(levels, codes)], dtype=dtype)


class FrameModel:
    """A classifier of frames as one of arrays; `classes_` stays visible, as scikit-learn has it.

    Args:
        model: an estimator with `predict`, or a function, from a frame to labels.
        decode: from arrays to frames.
    """

    def __init__(self, model: Any, decode: Callable[[np.ndarray], Any]) -> None:
        self._predict = model.predict if hasattr(model, "predict") else model
        self._decode = decode
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_

    def predict(self, rows: np.ndarray) -> Any:
        """`(M, D)` -> labels `(M,)`."""
        return self._predict(self._decode(rows))

    __call__ = predict
