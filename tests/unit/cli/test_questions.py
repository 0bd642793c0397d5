from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Psj


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Eight images (1, 2, 2) of class 0, and one of class 1."""
    images = np.linspace(0.1, 0.4, 9, dtype=np.float32).repeat(4).reshape(9, 1, 2, 2)
    images[-1] = 0.9
    path = tmp_path / "many.npz"
    np.savez(path, images=images, labels=np.array([0] * 8 + [1]))
    return path


def _gate(models: Path, many: Path, at_least: float) -> Path:
    content = {
        "source": {"dataset": "file", "data": str(many), "model": f"{models}:function"},
        "run": {"budget": 100, "images": 8},
        "limits": {"median_distance": at_least},
    }
    path = many.parent / "gate.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_check_names_the_kind_and_writes_its_files(psj: Psj, models: Path, many: Path, tmp_path: Path) -> None:
    result = psj("check", "--model", f"{models}:function", "--data", many, "--images", 3, "--out", tmp_path / "c")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("deterministic")
    assert json.loads((tmp_path / "c" / "check.json").read_text(encoding="utf-8"))["answer"]["kind"] == "deterministic"
    assert (tmp_path / "c" / "check.html").exists()


def test_compare_takes_two_models(psj: Psj, models: Path, many: Path) -> None:
    model = f"{models}:function"
    result = psj("compare", model, model, "--data", many, "--images", 8, "--budget", 100, "--scale", 1)
    assert result.exit_code == 0, result.output
    assert "ratio" in result.stdout


def test_certify_tells_both_bounds(psj: Psj, models: Path, many: Path) -> None:
    words = ("--data", many, "--images", 2, "--samples", 200, "--budget", 100)
    result = psj("certify", "--sigma", 0.2, "--model", f"{models}:function", *words)
    assert result.exit_code == 0, result.output
    assert "certified" in result.stdout


def test_certify_with_a_bad_sigma_is_one_line_and_exit_code_2(psj: Psj) -> None:
    result = psj("certify", "--sigma", -1)
    assert result.exit_code == 2
    assert "error: sigma must be a positive number" in result.stderr


@pytest.mark.parametrize(("at_least", "code"), [(0.05, 0), (9.0, 1)])
def test_gate_ends_with_the_code_of_its_outcome(psj: Psj, models: Path, many: Path, at_least: float, code: int) -> None:
    folder = many.parent
    result = psj("gate", _gate(models, many, at_least), "--root", folder / "runs", "--out", folder / "out")
    assert result.exit_code == code, result.output
    assert (folder / "out" / "gate.md").read_text(encoding="utf-8").startswith("# Robustness gate")
    assert json.loads((folder / "out" / "gate.json").read_text(encoding="utf-8"))["answer"]["code"] == code


def test_gate_with_a_wrong_file_ends_with_2(psj: Psj, tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text("{}", encoding="utf-8")
    assert psj("gate", tmp_path / "gate.json", "--out", tmp_path / "out").exit_code == 2
    assert psj("gate", tmp_path / "none.toml", "--out", tmp_path / "out").exit_code == 2


def test_card_and_curve_take_several_etas_at_once(psj: Psj, models: Path, many: Path) -> None:
    folder = many.parent
    assert psj("gate", _gate(models, many, 0.05), "--root", folder / "runs", "--out", folder / "out").exit_code == 0
    run = next((folder / "runs").iterdir())
    result = psj("curve", run, "--eta", 0.1, 0.5, 2, "--out", folder / "curve")
    assert result.exit_code == 0, result.output
    assert [f"At eta {eta}:" in result.stdout for eta in ("0.1", "0.5", "2")] == [True] * 3
    result = psj("card", run, "--eta", 0.1, 0.5, "--out", folder / "card")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (folder / "card").iterdir()) == ["card.html", "card.json", "card.md"]


def test_a_baseline_that_was_written_is_accepted(psj: Psj, models: Path, many: Path) -> None:
    folder = many.parent
    path, words = _gate(models, many, 0.05), ("--root", folder / "runs", "--out", folder / "out")
    assert psj("gate", path, *words, "--write-baseline", folder / "baseline.json").exit_code == 0
    content = json.loads(path.read_text(encoding="utf-8"))
    content |= {"limits": {"median_over_baseline": 0.9}, "baseline": {"file": "baseline.json"}}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert psj("gate", path, *words).exit_code == 0
