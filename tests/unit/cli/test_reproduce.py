from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from popskipjump.errors import MissingExtraError
from popskipjump.experiments import reproduce
from popskipjump.experiments.reproduce import EXPERIMENTS, QUICK, study
from popskipjump.experiments.reproduce.pages import FILES
from popskipjump.integrations import foolbox

from .conftest import Psj

DATA = os.environ.get("POPSKIPJUMP_DATA")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick size that takes seconds."""
    levels = replace(QUICK.levels, temperatures=(0.1,), dropout=(0.1,), smoothing=(0.05,), cropped=(2,))
    size = replace(
        QUICK, iterations=2, levels=levels, votes=(1, 3), votes_temperatures=(0.1,), radii=2, cosine_trials=20
    )
    monkeypatch.setattr(reproduce, "QUICK", replace(size, timed_images=2, white_box_steps=2))


def test_the_list_names_every_experiment_and_its_claim(psj: Psj) -> None:
    result = psj("reproduce", "--list")
    assert result.exit_code == 0, result.output
    for name in EXPERIMENTS:
        assert f"{name} " in result.stdout


def test_an_unknown_experiment_is_one_line_with_the_known_ones(psj: Psj, tmp_path: Path) -> None:
    result = psj("reproduce", "table-4", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "table-1" in result.stderr
    assert "votes-ratio" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [(), ("table-1", "--quick", "--paper"), ("table-1", "--dataset", "imagenet")])
def test_a_command_that_cannot_be_meant_writes_nothing(psj: Psj, tmp_path: Path, words: tuple[str, ...]) -> None:
    result = psj("reproduce", *words, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "out").exists()


def test_cifar_10_without_its_files_says_what_to_pass(psj: Psj, tmp_path: Path) -> None:
    result = psj("reproduce", "table-1", "--dataset", "cifar10", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "folder or npz file" in result.stderr


def test_more_images_than_qualify_is_an_error_with_the_way_out(psj: Psj, tmp_path: Path) -> None:
    result = psj("reproduce", "table-1", "--images", 900, "--out", tmp_path)
    assert result.exit_code == 2
    assert "--images" in result.stderr
    assert "--data" in result.stderr


def test_the_cosine_needs_no_run_and_writes_all_its_files(psj: Psj, tmp_path: Path) -> None:
    result = psj("reproduce", "cosine", "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("cosine: Equation (3) predicts")  # one line on what the figure shows
    assert "claim: supported" in result.stdout
    assert "its few images decide no claim" in result.stderr
    for name in FILES:
        assert (tmp_path / "cosine" / name).stat().st_size > 100
    page = (tmp_path / "cosine" / "page.md").read_text(encoding="utf-8")
    assert "Do our numbers support it? Yes." in page
    assert "seed 0" in page
    html = (tmp_path / "cosine" / "page.html").read_text(encoding="utf-8")
    assert "Equation (3) predicts" in html
    assert "data:image/png;base64," in html
    assert "<script" not in html
    assert not (tmp_path / "runs").exists()


def _kept(folder: Path) -> dict[Path, int]:
    """When each file of the runs was last written; what SQLite keeps beside its file while reading does not count."""
    files = (p for p in (folder / "runs").rglob("*") if p.is_file() and not p.name.endswith(("-shm", "-wal")))
    return {p: p.stat().st_mtime_ns for p in files}


@pytest.mark.usefixtures("tiny")
def test_a_figure_is_made_once_and_found_the_second_time(psj: Psj, tmp_path: Path) -> None:
    words = ("reproduce", "radius", "--quick", "--images", 2, "--out", tmp_path)
    assert psj(*words).exit_code == 0
    first = (tmp_path / "radius" / "table.csv").read_text(encoding="utf-8")
    before = _kept(tmp_path)
    assert len(list((tmp_path / "runs").iterdir())) == 3
    again = psj(*words)
    assert again.exit_code == 0
    assert "queries" not in again.stderr  # no bar: nothing was asked
    assert (tmp_path / "radius" / "table.csv").read_text(encoding="utf-8") == first
    assert _kept(tmp_path) == before
    result = json.loads((tmp_path / "radius" / "result.json").read_text(encoding="utf-8"))
    assert result["images"] == "2 images"
    rows = list(csv.reader(first.splitlines()))
    assert result["columns"] == rows[0]
    assert len(result["rows"]) == len(rows) - 1 == 3


@pytest.mark.usefixtures("tiny")
def test_experiments_of_one_folder_share_their_runs(psj: Psj, tmp_path: Path) -> None:
    assert psj("reproduce", "noise-level-complete", "--quick", "--images", 2, "--out", tmp_path).exit_code == 0
    runs = len(list((tmp_path / "runs").iterdir()))
    result = psj("reproduce", "noise-level", "--quick", "--images", 2, "--out", tmp_path)
    assert result.exit_code == 0
    assert "queries" not in result.stderr
    assert len(list((tmp_path / "runs").iterdir())) == runs


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["sigmoids", "acceleration"])
def test_what_is_measured_besides_the_runs_is_kept(psj: Psj, tmp_path: Path, name: str) -> None:
    words = ("reproduce", name, "--quick", "--images", 2, "--out", tmp_path)
    assert psj(*words).exit_code == 0
    (kept,) = (tmp_path / "measured").glob(f"{name}-*.npz")
    before, table = kept.stat().st_mtime_ns, (tmp_path / name / "table.csv").read_bytes()
    assert psj(*words).exit_code == 0
    assert kept.stat().st_mtime_ns == before
    assert (tmp_path / name / "table.csv").read_bytes() == table


@pytest.mark.usefixtures("tiny")
def test_an_interrupted_command_keeps_its_runs_and_goes_on(
    psj: Psj, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    collect = vars(study)["collect"]

    def stop(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return collect(*arguments, **options)

    words = ("reproduce", "sample-factor", "--quick", "--images", 1, "--out", tmp_path)
    monkeypatch.setattr(study, "collect", stop)
    result = psj(*words)
    assert result.exit_code == 130
    assert "goes on" in result.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert not (tmp_path / "sample-factor").exists()
    monkeypatch.setattr(study, "collect", collect)
    assert psj(*words).exit_code == 0
    assert (tmp_path / "sample-factor" / "page.md").is_file()


@pytest.mark.usefixtures("tiny")
def test_without_caps_runs_are_other_runs_and_the_page_says_so(psj: Psj, tmp_path: Path) -> None:
    words = ("reproduce", "noise-level", "--quick", "--images", 1, "--out", tmp_path)
    assert psj(*words).exit_code == 0
    capped = set((tmp_path / "runs").iterdir())
    assert psj(*words, "--no-caps").exit_code == 0
    assert len(set((tmp_path / "runs").iterdir()) - capped) == 1, "PSJ under noise; without noise nothing is capped"
    page = (tmp_path / "noise-level" / "page.md").read_text(encoding="utf-8")
    assert 'size "quick, no caps"' in page
    assert "its own limits" in page
    assert "Fewer than 5 images decide nothing." in page


def test_a_folder_with_something_else_in_it_is_refused(psj: Psj, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    result = psj("reproduce", "cosine", "--quick", "--out", tmp_path)
    assert result.exit_code == 2
    assert "thesis.tex" in result.stderr


def test_a_missing_extra_ends_the_one_experiment_with_install_advice(
    psj: Psj, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingExtraError("foolbox", foolbox.EXTRA)

    monkeypatch.setattr(foolbox, "require", missing)
    result = psj("reproduce", "white-box", "--quick", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "popskipjump[white-box]" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_everything_is_reproduced_by_one_command(psj: Psj, tmp_path: Path) -> None:
    result = psj("reproduce", "all", "--quick", "--images", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for name, experiment in EXPERIMENTS.items():
        if not experiment.needs_white_box:
            assert all((tmp_path / name / file).is_file() for file in FILES)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
@pytest.mark.skipif(DATA is None, reason="POPSKIPJUMP_DATA does not name a folder with CIFAR-10 images and weights")
def test_cifar_10_goes_through_the_same_command(psj: Psj, tmp_path: Path) -> None:
    folder = Path(str(DATA))
    files = ("--data", folder / "cifar10_test_first761.npz", "--weights", folder / "cifar10_resnet20.safetensors")
    result = psj("reproduce", "radius", "--quick", "--images", 1, "--dataset", "cifar10", *files, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "cifar-resnet20" in (tmp_path / "radius" / "page.md").read_text(encoding="utf-8")
