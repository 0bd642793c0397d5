"""The examples for other libraries run, and show what they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from present import present

EXAMPLES = Path(__file__).parents[3] / "examples"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(present(spec))
    present(present(spec).loader).exec_module(module)
    return module


def test_the_noisy_model_stops_or_misleads_foolbox_and_not_our_attacks() -> None:
    pytest.importorskip("foolbox")
    theirs, psj, qsj = example("foolbox_noisy").main(count=4, budget=800)
    assert "stopped with" in theirs or theirs.split()[2:5] != ["4", "of", "4"]
    for line in (psj, qsj):
        assert int(line.split()[1]) >= 3  # of 4 points, each with 95% confidence
        assert int(line.split()[-4].replace(",", "")) <= 800


def test_the_forest_is_attacked_with_its_own_names() -> None:
    pytest.importorskip("sklearn")
    report = example("scikit_learn").main(budget=200)
    assert any(status.has_point for status in report.status)


def test_the_black_box_of_art_is_attacked_within_its_budget() -> None:
    pytest.importorskip("art", exc_type=ImportError)
    line = example("art_black_box").main(count=3, budget=300)
    assert int(line.split("at most ")[1].split()[0]) <= 300
    assert int(line.split()[0]) >= 2
