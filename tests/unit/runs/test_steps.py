"""The steps of a run: a line for each iteration, and no result depends on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from present import present
from run_toys import Logging, everything, source_with, spec_of

from popskipjump.runs import steps
from popskipjump.runs.collect import collect
from popskipjump.runs.steps import STEPS, kept_steps, packed_picture, read_steps, unpacked_picture


def run_in(root: Path, images: Any = range(3), **choices: Any) -> Any:
    source = source_with(Logging())
    return collect(spec_of(source, **choices), images, root, source=source)


def test_every_iteration_of_an_image_is_a_line_that_agrees_with_the_trace(tmp_path: Path) -> None:
    data = run_in(tmp_path)
    assert kept_steps(data.folder) == [0, 1, 2]
    for row, image in enumerate(data.image_ids.tolist()):
        about, found = present(read_steps(data.folder, image))
        assert about["label"] == data.labels[row]
        assert [step["step"] for step in found] == list(range(len(found)))
        assert [step["queries"] for step in found] == data.trace_queries[: len(found), row].tolist()
        assert [step["distance"] for step in found] == pytest.approx(data.trace_distance[: len(found), row].tolist())
        assert sum(count for _, count, _ in found[-1]["probes"]) == data.probe_asked[row].sum()
        assert found[-1]["sigmoid"][0] == pytest.approx(data.trace_sigmoid["centre"][-1, row])


def test_an_attack_without_a_sigmoid_has_steps_without_one(tmp_path: Path) -> None:
    data = run_in(tmp_path, attack="hsj")
    _, found = present(read_steps(data.folder, 0))
    assert len(found) == 3
    assert all(step["sigmoid"] is None and step["probes"] == [] for step in found)


def test_results_do_not_depend_on_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_steps = run_in(tmp_path / "with")

    def no_room(*_: Any) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("popskipjump.runs.steps.private_folder", no_room)
    without = run_in(tmp_path / "without")
    assert kept_steps(without.folder) == []
    assert everything(with_steps) == everything(without)


def test_a_disk_that_fills_up_ends_the_steps_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, image: int, line: bytes) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("popskipjump.runs.steps.StepLog._write", full)
    data = run_in(tmp_path)
    assert len(data.status) == 3
    assert present(read_steps(data.folder, 0))[1] == []


def test_a_line_that_is_cut_short_or_damaged_is_left_out(tmp_path: Path) -> None:
    folder = run_in(tmp_path).folder
    path = folder / STEPS / "0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"[1]\n", b"{rubbish\n", *lines[1:]])[:-5])
    assert len(present(read_steps(folder, 0))[1]) == len(lines) - 2
    path.write_bytes(b"")
    assert read_steps(folder, 0) is None
    assert read_steps(folder, 7) is None


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    spec = spec_of(source_with(Logging()))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "runs" / spec.digest
    data = run_in(tmp_path / "runs", range(1))
    (folder / STEPS / "1.jsonl").symlink_to(victim)
    assert data.folder == folder
    run_in(tmp_path / "runs", range(3))
    assert victim.read_text() == "mine"


def test_only_so_many_images_of_a_run_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "WATCHED", 2)
    monkeypatch.setattr(steps, "MOST_FILES", 4)
    for begin in range(0, 9, 3):
        folder = run_in(tmp_path, range(begin, begin + 3)).folder
    assert len(kept_steps(folder)) == 4
    assert 7 in kept_steps(folder)


@pytest.mark.parametrize("shape", [(1, 5, 4), (3, 8, 8), (6, 7), (3, 300, 200)])
def test_a_picture_survives_being_packed(shape: tuple[int, ...]) -> None:
    values = np.linspace(-1, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    packed = json.loads(json.dumps(packed_picture(values, (-1.0, 3.0))))
    found = present(unpacked_picture(packed))
    assert max(found.shape[1:]) <= steps.SIDE
    if max(shape) <= steps.SIDE:
        assert np.allclose(found.reshape(shape), (values + 1) / 4, atol=1 / 255)


@pytest.mark.parametrize(
    "packed",
    [
        None,
        3,
        {},
        {"size": [1, 2, 2], "data": "!"},
        {"size": [9, 9, 9], "data": ""},
        {"size": [1, 5000, 5000], "data": ""},
    ],
)
def test_a_damaged_picture_is_no_picture(packed: object) -> None:
    assert unpacked_picture(packed) is None
    assert packed_picture(np.zeros(7, dtype=np.float32), (0.0, 1.0)) is None
