"""A report as one works with it: short in a prompt, a table in a notebook, columns, files, figures and a page."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluation_toys import PLANE, Asked, images_of, zeros
from present import present

import popskipjump as psj
from popskipjump import DataError, InputError, evaluate
from popskipjump.evaluation import Report
from popskipjump.evaluation.watching import Watch


@pytest.fixture(scope="module")
def report() -> Report:
    images = images_of(4)
    images[3] = 0.9  # misclassified
    return evaluate(PLANE, images, zeros(4), noise="flip:0.1", budget=300, seed=1)


def test_the_first_call_is_qsj_within_a_thousand_queries() -> None:
    found = evaluate(PLANE, images_of(), zeros())
    assert found.title.startswith("qsj")
    assert found.queries.max() <= 1000
    assert found.success.all()


def test_iterations_of_ones_own_have_no_budget() -> None:
    assert evaluate(PLANE, images_of(), zeros(), iterations=60).queries.max() > 1000


def test_the_prompt_shows_one_line(report: Report) -> None:
    assert "\n" not in repr(report)
    assert len(repr(report)) < 200
    assert "4 images" in repr(report)
    assert len(report) == 4


def test_a_notebook_shows_a_table_with_the_labels(report: Report) -> None:
    shown = report._repr_html_()
    assert shown.count("<tr>") == 5
    assert "0 → 1" in shown


def test_adversarial_labels_are_those_that_were_answered_at_the_points(report: Report) -> None:
    assert report.adversarial_labels[:4].tolist() == [1, 1, 1, 1]  # the last one is wrong to begin with


def test_a_label_without_a_point_is_not_known() -> None:
    never = evaluate(Asked(lambda batch: np.zeros(len(batch), dtype=np.int64)), images_of(), zeros(), budget=200)
    assert never.adversarial_labels.tolist() == [-1] * 3


def test_the_summary_is_json(report: Report) -> None:
    numbers = json.loads(json.dumps(report.summary()))
    assert numbers["images"] == 4
    assert numbers["attacked"] == 3
    assert numbers["queries"] == report.queries.sum()


def test_a_frame_has_a_row_for_each_image(report: Report) -> None:
    pytest.importorskip("pandas")
    frame = report.to_pandas()
    assert len(frame) == 4
    assert frame["distance"].to_numpy() == pytest.approx(report.distances)
    assert {"label", "adversarial_label", "status", "queries", "p_adversarial"} <= set(frame.columns)


def test_a_saved_report_comes_back_whole(report: Report, tmp_path: Path) -> None:
    again = psj.load(report.save(tmp_path / "kept"))
    assert str(again) == str(report)
    for name in ("points", "distances", "success", "adversarial_labels", "images", "labels", "queries"):
        assert getattr(again, name).tobytes() == getattr(report, name).tobytes()
    assert again.status == report.status
    assert torch.equal(again.trace.distance, report.trace.distance)
    assert again.white_box is None


@pytest.mark.parametrize("content", [b"", b"PK no archive", b"\x80\x04N."])
def test_what_is_no_report_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"other\.npz is no report"):
        psj.load(tmp_path / "other.npz")


@pytest.mark.parametrize("kind", ["images", "curves", "sigmoids"])
def test_a_report_can_be_drawn(report: Report, kind: str, tmp_path: Path) -> None:
    report.plot(kind, path=tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_an_unknown_plot_is_refused_with_the_known_ones(report: Report) -> None:
    with pytest.raises(InputError, match="choose one of images, curves, sigmoids"):
        report.plot("pie")


def test_the_page_needs_nothing_else(report: Report, tmp_path: Path) -> None:
    page = report.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert "<script" not in page
    assert "0 → 1" in page


def test_a_page_of_inputs_that_are_no_pictures_tells_what_changed() -> None:
    table = evaluate(PLANE, images_of().flatten(1), zeros(), budget=200)
    assert "changed most" in table.to_html()


@pytest.mark.parametrize("training", [True, False])
def test_a_module_keeps_its_mode(training: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(6, 2)).train(training)
    found = evaluate(module, images_of(), zeros(), budget=60)
    found.border_trace()
    assert all(layer.training is training for layer in module.modules())


def test_progress_is_told_every_thirty_seconds_where_there_is_no_terminal() -> None:
    now, log = [0.0], io.StringIO()
    watch = Watch(log, lambda: now[0])
    hooks = watch.hooks(None)
    for second in range(0, 100, 10):
        now[0] = float(second)
        present(hooks.on_queries)(5)
    watch.end()
    assert log.getvalue().count("\n") == 4  # after 30, 60 and 90 seconds, and the end


def test_progress_changes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    quiet, told = (evaluate(PLANE, images_of(), zeros(), budget=200, progress=progress) for progress in (False, True))
    assert told.points.tobytes() == quiet.points.tobytes()
    assert f"{quiet.queries.sum():,} queries" in capsys.readouterr().err
