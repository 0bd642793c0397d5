"""The rules of a space: what they say, how they are kept, and what is refused before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from space_toys import mixed_rows, mixed_space

import popskipjump as psj


def test_a_space_survives_json_with_its_digest() -> None:
    space = mixed_space(values={"town": ["a", "b", "c", "d"]})
    again = psj.Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert again.digest == space.digest


def test_another_rule_gives_another_digest() -> None:
    assert len({mixed_space().digest, mixed_space(integer=[]).digest, mixed_space(immutable=[]).digest}) == 3


def test_infinite_bounds_of_an_immutable_feature_survive_json() -> None:
    space = psj.Space([0, -np.inf], [1, np.inf], immutable=[1])
    assert psj.Space.from_json(json.loads(json.dumps(space.to_json(), allow_nan=False))) == space


def test_the_form_of_another_version_is_refused() -> None:
    with pytest.raises(psj.DataError, match="version"):
        psj.Space.from_json(mixed_space().to_json() | {"version": 99})
    with pytest.raises(psj.DataError, match="not the JSON form"):
        psj.Space.from_json({"version": 1})


def test_a_range_is_the_default_scale_and_a_category_counts_1() -> None:
    space = mixed_space()
    rows = mixed_rows(1)
    moved = rows.copy()
    moved[0, 0] += 1.0 if rows[0, 0] < 1 else -1.0  # half of its range
    assert space.distance(moved, rows) == pytest.approx([0.5], rel=1e-6)
    moved[0, 7] = (rows[0, 7] + 2) % 4
    moved[0, 4:7] = np.roll(rows[0, 4:7], 1)
    assert space.distance(moved, rows) == pytest.approx([1.5], rel=1e-6)
    assert space.distance(moved, rows, "linf") == pytest.approx([1.0])


def test_standard_deviations_come_from_the_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3)) * [1, 10, 100]
    space = psj.Space.from_array(rows, "std")
    assert np.allclose(space.scale, rows.std(axis=0))
    assert "standard deviations" in space.unit
    assert np.array_equal(space.low, rows.min(axis=0))


def test_a_constant_feature_cannot_change() -> None:
    assert psj.Space([0, 3], [1, 3]).mask.tolist() == [True, False]


def test_bounds_of_integers_are_whole() -> None:
    space = psj.Space([0.5, 0], [3.7, 1], integer=[0])
    assert (space.low[0], space.high[0]) == (1, 3)


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"low": [1, 0], "high": [0, 1]}, "must not exceed"),
    ({"low": [0, 0], "high": [np.inf, 1]}, "finite"),
    ({"low": [0, np.nan], "high": [1, 1]}, "must not exceed"),
    ({"low": [0, 0], "high": [1, 1, 1]}, "shape"),
    ({"low": 0, "high": 1}, "how many features"),
    ({"scale": [1, 0]}, "positive"),
    ({"scale": [1, -2]}, "positive"),
    ({"scale": "sigma"}, "range"),
    ({"scale": "std"}, "from_array"),
    ({"mask": [1, 2]}, "0 and 1"),
    ({"mask": [1, 1, 0]}, "does not fit"),
    ({"immutable": [2]}, "no feature 2"),
    ({"immutable": ["age"]}, "no feature 'age'"),
    ({"immutable": 1}, "list of features"),
    ({"integer": [0, 0]}, "named twice"),
    ({"low": [0.2, 0], "high": [0.8, 1], "integer": [0]}, "there is none between"),
    ({"high": [2.0**25, 1], "integer": [0]}, "float32"),
    ({"integer": [0], "ordered": {0: [0, 1]}}, "one kind only"),
    ({"onehot": [(0, 1)], "categories": {0: 2}}, "one kind only"),
    ({"onehot": [(0,)]}, "at least two"),
    ({"onehot": [(0, 1)], "immutable": [0]}, "some of it is immutable"),
    ({"onehot": [(0, 1)], "high": [0.5, 1]}, "exclude"),
    ({"onehot": [(0, 1)], "scale": [1, 2]}, "one scale"),
    ({"ordered": {0: [1, 0]}}, "increasing"),
    ({"ordered": {0: ["low", "high"]}}, "must be numbers"),
    ({"ordered": {0: [0, 3]}}, "outside its bounds"),
    ({"categories": {0: 4}}, "exclude some"),
    ({"categories": {0: 0}}, "1 or more"),
    ({"names": ["a", "a"]}, "more than one"),
    ({"names": ["a"]}, "one name to each"),
    ({"values": {0: ["x", "y"]}}, "neither categories nor levels"),
    ({"categories": {0: 2}, "values": {0: ["x", "x"]}}, "different names"),
]


@pytest.mark.parametrize(("rules", "words"), CONTRADICTIONS)
def test_rules_that_cannot_hold_are_refused(rules: dict[str, Any], words: str) -> None:
    with pytest.raises(psj.InputError, match=words):
        psj.Space(**{"low": [0, 0], "high": [1, 1]} | rules)


BROKEN: list[tuple[int, float, str]] = [
    (0, 2.5, "'length' is 2.5, which is outside"),
    (0, np.nan, "not finite"),
    (2, 3.5, "not an integer"),
    (3, 3.0, "not one of the feature's levels"),
    (7, 1.5, "not the code of a category"),
    (7, 4.0, "outside"),
    (4, 0.5, "not one-hot"),
    (8, 17.0, "outside"),
]


@pytest.mark.parametrize(("place", "value", "words"), BROKEN)
def test_a_row_that_breaks_a_rule_is_named(place: int, value: float, words: str) -> None:
    rows = mixed_rows(3)
    mixed_space().check(rows)
    rows[1, place] = value
    with pytest.raises(psj.InputError, match=words):
        mixed_space().check(rows)


# columns.json

COLUMNS = {
    "columns": [
        {"name": "age", "kind": "integer", "low": 18, "high": 90, "immutable": True},
        {"name": "income", "kind": "number", "low": 0, "high": 90000, "scale": 1000},
        {"name": "grade", "kind": "ordered", "levels": ["low", "mid", "high"]},
        {"name": "steps", "kind": "ordered", "levels": [1, 2, 4]},
        {"name": "job", "kind": "category", "values": ["clerk", "nurse"]},
        {"name": "city", "kind": "onehot", "columns": ["city_a", "city_b"]},
    ]
}


def _written(folder: Path, content: object) -> Path:
    path = folder / "columns.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_column_file_is_a_space(tmp_path: Path) -> None:
    space = psj.Space.from_columns(_written(tmp_path, COLUMNS))
    assert space.names == ("age", "income", "grade", "steps", "job", "city_a", "city_b")
    assert space.mask.tolist() == [False, True, True, True, True, True, True]
    assert space.scale.tolist() == [72, 1000, 2, 3, 1, 1, 1]
    assert space.integer == (0,)
    assert space.onehot == ((5, 6),)
    assert space.categories == {4: 2}
    assert space.ordered == {2: (0, 1, 2), 3: (1, 2, 4)}


BAD_FILES: list[tuple[object, str]] = [
    ("{", "not JSON"),
    ([], "columns"),
    ({"columns": []}, "columns"),
    ({"columns": [3]}, "name"),
    ({"columns": [{"name": "a", "kind": "real", "low": 0, "high": 1}]}, "choose one of"),
    ({"columns": [{"name": "a", "low": 0}]}, "lacks high"),
    ({"columns": [{"name": "a", "low": 0, "high": "1"}]}, "must be a number"),
    ({"columns": [{"name": "a", "low": 0, "high": 1, "frozen": True}]}, "unknown entry 'frozen'"),
    ({"columns": [{"name": "a", "kind": "category", "values": []}]}, "not empty"),
    ({"columns": [{"name": "a", "kind": "ordered", "levels": [1, "b"]}]}, "numbers, or words"),
    ({"columns": [{"name": "a", "low": 0, "high": 1}] * 2}, "more than one"),
]


@pytest.mark.parametrize(("content", "words"), BAD_FILES)
def test_a_column_file_that_makes_no_sense_is_refused(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(psj.InputError, match=words):
        psj.Space.from_columns(_written(tmp_path, content))


def test_a_column_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(psj.DataError, match="cannot be read"):
        psj.Space.from_columns(tmp_path / "none.json")
