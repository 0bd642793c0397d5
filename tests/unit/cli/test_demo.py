from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from popskipjump import zoo
from popskipjump.experiments import demo as experiment

from .conftest import Psj

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_demonstration_prints_a_table_and_draws_two_pictures(psj: Psj, tmp_path: Path) -> None:
    result = psj("demo", "--images", 2, "--iterations", 2, "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    for name in ("PSJ, no noise", "PSJ ", "QSJ ", "HSJ ", "HSJ, 3 votes"):
        assert f" {name}" in result.stdout
    for name in ("images.png", "curves.png"):
        content = (tmp_path / "demo" / name).read_bytes()
        assert content.startswith(PNG)
        assert len(content) > 10_000


def test_the_demonstration_replaces_its_own_pictures_and_nothing_else(psj: Psj, tmp_path: Path) -> None:
    words = ("demo", "--images", 1, "--iterations", 1, "--out", tmp_path)
    assert psj(*words).exit_code == 0
    assert psj(*words).exit_code == 0
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    refused = psj(*words)
    assert refused.exit_code == 2
    assert "thesis.tex" in refused.stderr


def test_more_images_than_there_are_is_an_error_before_the_first_query(psj: Psj, tmp_path: Path) -> None:
    result = psj("demo", "--images", 1001, "--out", tmp_path)
    assert result.exit_code == 2
    assert "cannot be shown" in result.stderr


def test_an_interrupted_demonstration_writes_nothing(psj: Psj, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_entry", stop)
    result = psj("demo", "--images", 1, "--out", tmp_path)
    assert result.exit_code == 130
    assert not list(tmp_path.iterdir())


def test_all_images_of_the_demonstration_are_classified_correctly() -> None:
    sample = experiment.sample_images(300)
    found = zoo.mnist_model()(torch.from_numpy(sample.images)).argmax(dim=1).numpy()
    np.testing.assert_array_equal(found, sample.labels)
    assert len(np.unique(sample.image_ids)) == 300


def test_a_curve_shows_what_each_image_had_reached_after_equally_many_queries() -> None:
    sample = experiment.sample_images(3)
    outcome = experiment.run_entry(experiment.ENTRIES[0], sample, 2, 0)
    curve = experiment.curve_of(outcome, places=50)
    assert np.all(np.diff(curve.queries) > 0)
    assert curve.median[0] == np.median(outcome.border_trace[0])
    assert np.all((curve.low <= curve.median) & (curve.median <= curve.high))
