"""`--json`: the output is one JSON text and nothing else; everything for people goes to the error stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Psj


def parsed(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["attacks", "noises"])
def test_lists_of_names(psj: Psj, name: str) -> None:
    found = parsed(psj(name, "--json"))
    assert all(isinstance(text, str) for text in found.values())
    assert "qsj" in found or "flip:0.1" in found


def test_an_attack_tells_what_report_json_says(psj: Psj, models: Path, data: Path, tmp_path: Path) -> None:
    own = ("--model", f"{models}:module", "--data", data, "--images", 2, "--budget", 100, "--json")
    once = parsed(psj("attack", *own))
    assert [image["image"] for image in once["images"]] == [0, 1]
    assert all(image["queries"] <= 100 for image in once["images"])
    run = tmp_path / "run"
    kept = parsed(psj("attack", *own, "--out", run))
    assert kept == json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert [image["distance"] for image in kept["images"]] == [image["distance"] for image in once["images"]]


def test_runs_are_listed_with_their_state(psj: Psj, models: Path, data: Path, tmp_path: Path) -> None:
    assert parsed(psj("runs", tmp_path, "--json")) == []
    run = tmp_path / "run"
    psj("attack", "--model", f"{models}:module", "--data", data, "--images", 1, "--budget", 100, "--out", run)
    (broken := tmp_path / "broken").mkdir()
    (broken / "spec.json").write_text("{")
    found = {Path(entry["path"]).name: entry for entry in parsed(psj("runs", tmp_path, "--json"))}
    assert (found["run"]["state"], found["run"]["finished"], found["run"]["asked"]) == ("done", 1, 1)
    assert found["broken"]["digest"] is None
    assert "damaged" in found["broken"]["state"]


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--images", 1, "--budget", 200),
        ("compare", "embedded", "embedded", "--images", 6, "--budget", 100, "--scale", 1),
        ("certify", "--sigma", 0.25, "--images", 1, "--samples", 100, "--budget", 100),
    ],
    ids=lambda words: str(words[0]),
)
def test_the_answer_to_a_question(psj: Psj, tmp_path: Path, words: tuple[Any, ...]) -> None:
    out = tmp_path / "out"
    answer = parsed(psj(*words, "--out", out, "--json"))
    (written,) = out.glob("*.json")
    assert answer == json.loads(written.read_text(encoding="utf-8"))


def test_a_curve_and_a_card_of_a_run(psj: Psj, models: Path, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    psj("attack", "--model", f"{models}:module", "--data", data, "--images", 2, "--budget", 100, "--out", run)
    assert "answer" in parsed(psj("curve", run, "--json"))
    assert "answer" in parsed(psj("card", run, "--out", tmp_path / "card", "--json"))


def test_an_error_leaves_the_output_empty(psj: Psj, tmp_path: Path) -> None:
    found = psj("runs", tmp_path / "nowhere", "--json")
    assert found.exit_code == 2
    assert found.stdout == ""
    assert "there is no folder" in found.stderr
