"""The folder of a run: it holds what was written, one process at a time, and refuses what it cannot trust."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from present import present

from popskipjump.errors import BusyRunError, DamagedRunError, NotARunError, StorageError
from popskipjump.storage import ImageResult, RunFolder, RunSpec, info, list_runs

SPEC = RunSpec(attack="hsj", iterations=3)
VERSIONS = {"popskipjump": "0", "python": "3"}


def result(image: int) -> ImageResult:
    return ImageResult(
        image=image,
        label=3,
        target=None,
        status="FINISHED",
        message=None,
        distance=float("inf"),
        border_distance=float("nan"),
        queries=2**40,
        phases={"search": 7},
        seconds=0.25,
        verdict=(float("nan"), 0.0, 1.0, 0),
        arrays={"point": np.arange(4, dtype=np.float32).reshape(1, 2, 2) / 3, "trace_queries": np.array([1, 2**40])},
    )


def made(root: Path, images: tuple[int, ...] = (1, 2)) -> Path:
    with RunFolder.working(root, SPEC) as folder:
        folder.begin([*images, 9], {"data": None, "weights": "w"}, VERSIONS)
        folder.finish([result(image) for image in images])
    return root / SPEC.digest


def everything(path: Path) -> dict[str, bytes]:
    """The content of all files but SQLite's own helpers and the lock."""
    skipped = ("results.sqlite-shm", "results.sqlite-wal", "lock")
    return {str(p): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name not in skipped}


def test_a_result_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    with RunFolder.reading(made(tmp_path)) as folder:
        assert folder.spec == SPEC
        assert (folder.finished(), folder.asked(), folder.queries()) == ([1, 2], [1, 2, 9], 2**41)
        assert folder.place() == {"data": None, "weights": "w"}
        assert [versions for _, versions in folder.versions()] == [VERSIONS]
        two, one = folder.results([2, 1])
    expected = result(2)
    assert (two.image, one.image) == (2, 1)
    for name in ("label", "target", "status", "message", "distance", "queries", "phases", "seconds"):
        assert getattr(two, name) == getattr(expected, name)
    assert np.isnan(two.border_distance)
    assert np.isnan(two.verdict[0])
    for name, array in expected.arrays.items():
        assert two.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(two.arrays[name], array)


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = everything(path)
    with RunFolder.reading(path) as folder:
        folder.results()
    info(path)
    assert everything(path) == before


def test_a_run_in_a_folder_without_the_right_to_write_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with RunFolder.reading(path) as folder:
        assert folder.finished() == [1, 2]
    assert not (path / "results.sqlite-shm").exists()


def test_a_second_process_is_told_that_the_run_is_busy(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from popskipjump.storage import RunFolder, RunSpec\n"
        "with RunFolder.working(Path(sys.argv[1]), RunSpec(attack='hsj', iterations=3)):\n"
        "    print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert present(other.stdout).readline() == b"open\n"
        with pytest.raises(BusyRunError, match=rf"number {other.pid}\) is at work"), RunFolder.working(tmp_path, SPEC):
            pass
        assert info(tmp_path / SPEC.digest).state == "running"
        other.kill()
    with RunFolder.working(tmp_path, SPEC):
        pass


def test_runs_are_listed_with_their_state(tmp_path: Path) -> None:
    made(tmp_path)
    done = SPEC.but(seed=1)
    with RunFolder.working(tmp_path, done) as folder:
        folder.begin([4], {}, VERSIONS)
        folder.finish([result(4)])
    (tmp_path / "notes").mkdir()
    states = {present(run.spec).seed: (run.state, run.finished, run.asked) for run in list_runs(tmp_path)}
    assert states == {0: ("unfinished", 2, 3), 1: ("done", 1, 1)}


def damage_database(path: Path) -> None:
    content = (path / "results.sqlite").read_bytes()
    (path / "results.sqlite").write_bytes(content[:100] + b"\xff" * (len(content) - 100))


def no_database(path: Path) -> None:
    (path / "results.sqlite").write_bytes(b"not a database at all" * 100)


def empty_database(path: Path) -> None:
    (path / "results.sqlite").write_bytes(b"")


def lost_database(path: Path) -> None:
    (path / "results.sqlite").unlink()


def damage_spec(path: Path) -> None:
    (path / "spec.json").write_text("{", encoding="utf-8")


def foreign_spec(path: Path) -> None:
    (path / "spec.json").write_text(json.dumps(SPEC.but(seed=5).model_dump(mode="json")), encoding="utf-8")


def newer_spec(path: Path) -> None:
    fields = SPEC.model_dump(mode="json") | {"schema_version": 7, "new_field": 1}
    (path / "spec.json").write_text(json.dumps(fields), encoding="utf-8")


def newer_database(path: Path) -> None:
    with sqlite3.connect(path / "results.sqlite") as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()


def no_spec(path: Path) -> None:
    (path / "spec.json").unlink()


@pytest.mark.parametrize(
    ("harm", "error", "said"),
    [
        (damage_database, DamagedRunError, "is damaged"),
        (no_database, DamagedRunError, "is damaged"),
        (empty_database, DamagedRunError, "missing or empty"),
        (lost_database, DamagedRunError, "missing or empty"),
        (damage_spec, DamagedRunError, "spec.json is damaged"),
        (foreign_spec, NotARunError, "another spec"),
        (newer_spec, NotARunError, "has version 7 .* reads version 2"),
        (newer_database, NotARunError, "has version 7 .* reads version 2"),
        (no_spec, NotARunError, "no spec.json"),
    ],
)
def test_a_folder_that_cannot_be_trusted_is_refused_and_left_as_it_is(
    tmp_path: Path, harm: Callable[[Path], None], error: type[Exception], said: str
) -> None:
    path = made(tmp_path)
    harm(path)
    for name in ("results.sqlite-wal", "results.sqlite-shm"):
        (path / name).unlink(missing_ok=True)
    before = everything(path)
    with pytest.raises(error, match=said), RunFolder.working(tmp_path, SPEC):
        pass
    if harm is not foreign_spec:
        with pytest.raises(StorageError), RunFolder.reading(path) as folder:
            folder.results()
    assert everything(path) == before
    assert info(path).state not in ("done", "unfinished", "running")


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    path = made(tmp_path)
    array = path / "arrays" / "2.npz"
    array.write_bytes(array.read_bytes()[:-1] + b"x")
    with RunFolder.reading(path) as folder:
        assert len(folder.results([1])) == 1
        with pytest.raises(DamagedRunError, match=r"2\.npz is damaged: its content has changed"):
            folder.results()
        array.unlink()
        with pytest.raises(DamagedRunError, match=r"2\.npz is damaged: it is missing"):
            folder.results()


def test_a_folder_of_other_things_is_not_written_to(tmp_path: Path) -> None:
    place = tmp_path / SPEC.digest
    place.mkdir()
    (place / "holiday.jpg").write_bytes(b"sea")
    with pytest.raises(NotARunError, match=r"holds holiday\.jpg"), RunFolder.working(tmp_path, SPEC):
        pass
    assert [p.name for p in place.iterdir()] == ["holiday.jpg"]


def test_a_run_that_was_killed_at_its_birth_begins_again(tmp_path: Path) -> None:
    place = tmp_path / SPEC.digest
    place.mkdir()
    (place / "lock").touch()
    (place / ".spec.json.partial").write_text("{")
    made(tmp_path, images=())
    empty_database(place)
    made(tmp_path)
    assert info(place).finished == 2


@pytest.mark.parametrize("step", ["array", "rows"])
def test_a_full_disk_loses_nothing_that_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = made(tmp_path)
    before = everything(path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*words: Any, **options: Any) -> sqlite3.Connection:
        connections.append(connect(*words, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    with RunFolder.working(tmp_path, SPEC) as folder:
        folder.begin([7], {}, VERSIONS)
        if step == "array":
            monkeypatch.setattr(os, "fsync", full)
        else:  # SQLite writes by itself: give it no more pages
            (pages,) = connections[-1].execute("PRAGMA page_count").fetchone()
            connections[-1].execute(f"PRAGMA max_page_count = {pages}").fetchone()
        many = [result(image) for image in range(7, 7 + (1 if step == "array" else 200))]
        with pytest.raises(StorageError, match=r"disk is full.*make room"):
            folder.finish(many)
    monkeypatch.undo()
    with RunFolder.reading(path) as folder:
        assert folder.finished() == [1, 2]
        assert len(folder.results()) == 2
    assert all(everything(path)[name] == content for name, content in before.items() if name.endswith(".npz"))
    assert not list(path.rglob("*.partial"))


def test_a_root_that_cannot_be_a_folder_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be used"), RunFolder.working(tmp_path / "file", SPEC):
        pass
    with pytest.raises(NotARunError, match="there is no folder"):
        list_runs(tmp_path / "nowhere")
