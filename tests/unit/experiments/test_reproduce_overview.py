from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from popskipjump.errors import DataError
from popskipjump.experiments.reproduce import EXPERIMENTS
from popskipjump.experiments.reproduce.overview import (
    CLAIMS,
    for_all_machines,
    overview_of,
    read_results,
    verdict_on,
)

ROOT = Path(__file__).resolve().parents[3]
CLAIMED = {"table-1": (1, 2), "votes-ratio": (1,), "noise-level": (2, 3), "noise-model": (4,)}


def _result(name: str, supported: bool | None = True) -> dict[str, Any]:
    origin = {"command": f"psj reproduce {name}", "date": "2030-01-02", "seed": 0, "preset": "quick"}
    return {
        "schema": 1,
        "name": name,
        "title": EXPERIMENTS[name].title,
        "claim": EXPERIMENTS[name].claim,
        "supported": supported,
        "finding": "So it is.",
        "claims": {str(number): supported for number in CLAIMED.get(name, ())},
        "notes": [],
        "images": "3 images",
        "origin": {**origin, "dataset": "mnist", "model": "mnist-cnn", "versions": {}},
        "columns": ["a", "b"],
        "rows": [[1, 2.5]],
    }


def _write(folder: Path, result: dict[str, Any]) -> None:
    (folder / result["name"]).mkdir(parents=True)
    (folder / result["name"] / "result.json").write_text(json.dumps(result), encoding="utf-8")


def test_the_page_has_every_claim_of_the_introduction_and_every_experiment_with_its_origin() -> None:
    text = overview_of({name: _result(name) for name in EXPERIMENTS}, {"table-1": "pictures/x.png"})
    assert text.count("**yes**") == len(CLAIMS) == 4
    for name in EXPERIMENTS:
        assert f"### {name}: " in text
        assert f"seed 0, 2030-01-02. `psj reproduce {name}`" in text
    assert "](pictures/x.png)" in text
    assert "Not run" not in text


def test_an_experiment_that_was_not_run_is_named() -> None:
    assert "Not run: cosine, table-2" in overview_of({"table-1": _result("table-1")}, {})


@pytest.mark.parametrize(("values", "expected"), [((True, True), True), ((True, False), False), ((True, None), None)])
def test_a_claim_needs_all_its_tests(values: tuple[bool | None, ...], expected: bool | None) -> None:
    names = ("table-1", "votes-ratio")
    results = {name: _result(name, value) for name, value in zip(names, values, strict=True)}
    assert verdict_on(1, results) is expected
    assert verdict_on(4, results) is None


def test_the_last_folder_counts(tmp_path: Path) -> None:
    _write(tmp_path / "a", _result("cosine", False))
    _write(tmp_path / "b", _result("cosine", True))
    assert read_results([tmp_path / "a", tmp_path / "b"])["cosine"]["supported"] is True


def test_a_result_of_another_schema_or_a_torn_one_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    _write(tmp_path / "a", {**_result("cosine"), "schema": 99})
    with pytest.raises(DataError, match="repeat `psj reproduce cosine`"):
        read_results([tmp_path / "a"])
    (tmp_path / "a" / "cosine" / "result.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        read_results([tmp_path / "a"])


def test_a_command_loses_the_folders_of_one_machine() -> None:
    typed = "psj reproduce x --data '/a b/c.npz' --weights=/d/e.safetensors --model /f/g.py:make --out h --quick"
    expected = "psj reproduce x --data DIR --weights=FILE --model g.py:make --out DIR --quick"
    assert for_all_machines(typed) == expected


def test_the_claims_say_what_their_answers_hang_on() -> None:
    result = {**_result("table-1", supported=False), "reasons": {"2": "too far at 5%"}}
    text = overview_of({"table-1": result}, {})
    assert f"- (2) table-1, {result['images']}: too far at 5%." in text
    assert "- (1)" not in text


def test_the_page_of_the_repository_is_what_its_kept_numbers_give() -> None:
    spec = importlib.util.spec_from_file_location("write_reproduction", ROOT / "scripts" / "write_reproduction.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if not script.KEPT.is_file():
        pytest.skip("the results of the benchmarks are not here")
    kept = json.loads(script.KEPT.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page == script.page_of(kept), "run scripts/write_reproduction.py"
    assert {claim.name for claim in script.CLAIMS} >= set(kept["claims"])


def test_a_section_whose_numbers_are_gone_stays_as_it_was() -> None:
    old = {"schema": 1, "title": "T", "section": "As it was.", "claims": {"1": True}, "images": "9 images"}
    text = overview_of({"table-1": old, "votes-ratio": _result("votes-ratio")}, {})
    assert "### table-1: T\n\nAs it was.\n" in text
    assert "table-1: yes, votes-ratio: yes" in text
