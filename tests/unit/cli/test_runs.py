"""`psj runs`, `psj resume` and `psj report`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from popskipjump.runs.collect import collect, load, source_of
from popskipjump.runs.source import Source
from popskipjump.storage import RunSpec

CHOICES = {"attack": "hsj", "iterations": 2, "verdict": 5, "starts": "noise"}


class Stop:
    """Ctrl-C after so many queries."""

    def __init__(self, queries: int) -> None:
        self.left = queries

    def __call__(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.fixture
def mine(models: Path, data: Path) -> Source:
    return source_of("file", data, f"{models}:module")


@pytest.fixture
def spec(mine: Any) -> RunSpec:
    made: RunSpec = mine.spec(**CHOICES)
    return made


@pytest.fixture
def interrupted(tmp_path: Path, mine: Any, spec: RunSpec) -> Path:
    """A run of three images that was stopped."""
    with pytest.raises(KeyboardInterrupt):
        collect(spec, range(3), tmp_path / "runs", source=mine, on_queries=Stop(100))
    return tmp_path / "runs" / spec.digest


@pytest.fixture
def finished(tmp_path: Path, mine: Any, spec: RunSpec) -> Path:
    collect(spec, range(3), tmp_path / "runs", source=mine)
    return tmp_path / "runs" / spec.digest


def test_runs_lists_what_is_there(psj: Callable[..., Any], tmp_path: Path, interrupted: Any) -> None:
    result = psj("runs", tmp_path / "runs")
    assert result.exit_code == 0
    assert interrupted.name in result.output
    assert "unfinished" in result.output
    assert "0/3" in result.output


def test_runs_says_what_is_wrong_with_a_run(psj: Callable[..., Any], tmp_path: Path, finished: Any) -> None:
    (finished / "results.sqlite").write_bytes(b"rubbish" * 1000)
    result = psj("runs", tmp_path / "runs")
    assert result.exit_code == 0
    assert "damaged" in " ".join(result.output.split())


def test_runs_of_an_empty_folder_are_none(psj: Callable[..., Any], tmp_path: Path) -> None:
    assert "no runs in the folder" in psj("runs", tmp_path).output


def test_resume_goes_on_with_the_images_that_were_asked_for(
    psj: Callable[..., Any], tmp_path: Path, interrupted: Any, models: Path, mine: Any, spec: RunSpec
) -> None:
    result = psj("resume", interrupted, "--model", f"{models}:module")
    assert result.exit_code == 0, result.output
    assert "3 images were missing, all are done" in result.output
    whole = collect(spec, range(3), tmp_path / "whole", source=mine)
    data = load(interrupted)
    assert data.points.tobytes() == whole.points.tobytes()
    assert data.queries.tolist() == whole.queries.tolist()
    assert "all are done" in psj("resume", interrupted).output


def test_resume_never_runs_a_file_that_the_user_does_not_name(psj: Callable[..., Any], interrupted: Any) -> None:
    result = psj("resume", interrupted)
    assert result.exit_code == 2
    assert "which is run only if you name it: pass --model" in result.output


def test_resume_refuses_another_model(psj: Callable[..., Any], interrupted: Any, models: Path) -> None:
    models.write_text(models.read_text(encoding="utf-8").replace("2.0, 0.0", "1.5, 0.0"), encoding="utf-8")
    result = psj("resume", interrupted, "--model", f"{models}:module")
    assert result.exit_code == 2
    assert "the spec says weights" in result.output


def test_a_resume_that_is_interrupted_says_that_it_can_go_on(
    psj: Callable[..., Any], interrupted: Any, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popskipjump.cli.progress.Bar.queries", lambda self, count: Stop(0)(1))
    result = psj("resume", interrupted, "--model", f"{models}:module")
    assert result.exit_code == 130
    assert "what was answered is kept" in result.output


def test_a_run_of_the_embedded_network_is_resumed_without_any_option(psj: Callable[..., Any], tmp_path: Path) -> None:
    source = source_of()
    spec = source.spec(attack="hsj", iterations=1, verdict=0)
    with pytest.raises(KeyboardInterrupt):
        collect(spec, [4], tmp_path, source=source, on_queries=Stop(50))
    result = psj("resume", tmp_path / spec.digest)
    assert result.exit_code == 0, result.output
    assert load(tmp_path / spec.digest).image_ids.tolist() == [4]


def test_report_writes_one_page(psj: Callable[..., Any], tmp_path: Path, finished: Any) -> None:
    page = tmp_path / "page.html"
    result = psj("report", finished, "--out", page, "--rows", 2)
    assert result.exit_code == 0, result.output
    assert "the first 2 of 3" in page.read_text(encoding="utf-8")
    assert psj("report", finished, "--out", page).exit_code == 2
    assert psj("report", finished, "--out", page, "--force").exit_code == 0


@pytest.mark.parametrize("command", ["resume", "report"])
def test_a_folder_that_is_no_run_is_one_line(psj: Callable[..., Any], tmp_path: Path, command: str) -> None:
    result = psj(command, tmp_path, *(("--out", tmp_path / "x.html") if command == "report" else ()))
    assert result.exit_code == 2
    assert "is not the folder of a run" in result.output
    assert not list(tmp_path.iterdir())


def test_a_report_on_nothing_says_how_to_go_on(psj: Callable[..., Any], tmp_path: Path, interrupted: Any) -> None:
    result = psj("report", interrupted, "--out", tmp_path / "x.html")
    assert result.exit_code == 2
    assert "psj resume" in result.output
