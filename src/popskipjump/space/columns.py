"""`columns.json`: a file with the columns of a table and their rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from popskipjump.errors import DataError
from popskipjump.space.space import Space

KINDS = {
    "number": {"low", "high"},
    "integer": {"low", "high"},
    "ordered": {"levels"},
    "category": {"values"},
    "onehot": {"columns"},
}
_ALWAYS = {"name", "kind", "immutable", "scale"}


def read_columns(cls: type[Space], path: Path) -> Space:
    """The space of a file such as

    {"scale": "range",
     "columns": [{"name": "age", "kind": "integer", "low": 18, "high": 90, "immutable": true},
                 {"name": "income", "kind": "number", "low": 0, "high": 90000, "scale": 1000},
                 {"name": "grade", "kind": "ordered", "levels": [1, 2, 4]},
                 {"name": "job", "kind": "category", "values": ["clerk", "nurse"]},
                 {"name": "city", "kind": "onehot", "columns": ["city_a", "city_b"]}]}

    in the order of the data's columns. A scale of a column is the change that counts as 1; "range" is the default.
    """  # noqa: D415
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("columns"), list) or not content["columns"]:
        raise DataError(f'{path} must be an object with a list "columns".')
    if content.get("scale", "range") != "range":
        raise DataError(f'{path}: "scale" of the table can be "range" only; give each column its own "scale".')
    table = _Table(path)
    for entry in content["columns"]:
        table.add(entry)
    return cls(**table.arguments())


class _Table:
    """The arguments of a space, as columns are added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []
        self._ends: list[tuple[float, float]] = []
        self._scales: list[float] = []
        self._rest: dict[str, Any] = {
            "immutable": [], "integer": [], "ordered": {}, "categories": {}, "values": {}, "onehot": [],
        }  # fmt: skip
        self._own = False

    def add(self, entry: Any) -> None:
        """One entry of the list."""
        name, kind = self._checked(entry)
        rest = self._rest
        names = [str(column) for column in entry["columns"]] if kind == "onehot" else [name]
        ends = (0.0, 1.0)
        if kind in ("number", "integer"):
            ends = (self._number(entry, "low"), self._number(entry, "high"))
            if kind == "integer":
                rest["integer"].append(name)
        elif kind == "ordered":
            ends = self._ordered(name, entry["levels"])
        elif kind == "category":
            rest["categories"][name], rest["values"][name] = len(entry["values"]), entry["values"]
            ends = (0.0, len(entry["values"]) - 1.0)
        else:
            rest["onehot"].append(names)
        if entry.get("immutable", False):
            rest["immutable"] += names
        usual = ends[1] - ends[0] if kind not in ("category", "onehot") and ends[1] > ends[0] else 1.0
        self._own |= "scale" in entry
        scale = self._number(entry, "scale") if "scale" in entry else usual
        self._names += names
        self._ends += [ends] * len(names)
        self._scales += [scale] * len(names)

    def _checked(self, entry: Any) -> tuple[str, str]:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise DataError(f'{self._path}: every column is an object with a "name", unlike {entry!r}.')
        name, kind = entry["name"], entry.get("kind", "number")
        if kind not in KINDS:
            raise DataError(f"{self._path}: column {name!r} has the kind {kind!r}: choose one of {', '.join(KINDS)}.")
        if missing := KINDS[kind] - entry.keys():
            raise DataError(f"{self._path}: column {name!r} ({kind}) lacks {', '.join(sorted(missing))}.")
        if extra := entry.keys() - KINDS[kind] - _ALWAYS:
            raise DataError(f"{self._path}: column {name!r} ({kind}) has the unknown entry {sorted(extra)[0]!r}.")
        for key in KINDS[kind] & {"levels", "values", "columns"}:
            if not isinstance(entry[key], list) or not entry[key]:
                raise DataError(f"{self._path}: {key} of column {name!r} must be a list that is not empty.")
        return name, kind

    def _number(self, entry: dict[str, Any], key: str) -> float:
        if isinstance(entry[key], bool) or not isinstance(entry[key], int | float):
            raise DataError(f"{self._path}: {key} of column {entry['name']!r} must be a number, not {entry[key]!r}.")
        return float(entry[key])

    def _ordered(self, name: str, levels: list[Any]) -> tuple[float, float]:
        if all(isinstance(level, str) for level in levels):  # words: the data holds their places
            self._rest["values"][name] = levels
            levels = list(range(len(levels)))
        if not all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels):
            raise DataError(f"{self._path}: levels of column {name!r} must be numbers, or words.")
        self._rest["ordered"][name] = levels
        return float(levels[0]), float(levels[-1])

    def arguments(self) -> dict[str, Any]:
        """For `Space`."""
        low, high = zip(*self._ends, strict=True)
        unit = {"unit": "the scales of columns.json"} if self._own else {"unit": "ranges of the features"}
        return {"low": low, "high": high, "scale": self._scales, "names": self._names, **self._rest, **unit}
