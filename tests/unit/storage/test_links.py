"""The files of a run are its owner's, and are never written through links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from mutants import SPEC, TARGETS

from popskipjump.cli.output import folder_for
from popskipjump.errors import StorageError
from popskipjump.runs.data import load
from popskipjump.storage import RunFolder


def begin(folder: Path) -> None:
    with RunFolder.working(folder, SPEC, "run") as run:
        run.begin([3], {}, {})


@pytest.mark.parametrize(
    "name", ["lock", "journal.bin", "journal.tail", "results.sqlite", "results.sqlite-wal", "arrays"]
)
def test_a_link_inside_a_run_is_refused_and_its_target_stays_as_it_is(tmp_path: Path, name: str) -> None:
    TARGETS["database"].make(tmp_path)
    victim = tmp_path / "victim"
    if name == "arrays":
        (tmp_path / "run" / name).rename(victim)
    else:
        (tmp_path / "run" / name).unlink(missing_ok=True)
        victim.write_bytes(b"precious")
    (tmp_path / "run" / name).symlink_to(victim)
    with pytest.raises(StorageError, match="symbolic link"):
        begin(tmp_path)
    assert victim.is_dir() or victim.read_bytes() == b"precious"


def test_a_planted_temporary_name_is_not_written_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".spec.json.partial").symlink_to(victim)
    begin(tmp_path)
    assert victim.read_bytes() == b"precious"


def test_only_the_owner_can_read_a_run(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        TARGETS["database"].make(tmp_path)
    finally:
        os.umask(before)
    for path in [tmp_path / "run", *(tmp_path / "run").rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_folder_that_a_command_makes_is_its_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = folder_for(tmp_path / "runs" / "run")
    finally:
        os.umask(before)
    assert not stat.S_IMODE(made.stat().st_mode) & 0o077
    assert folder_for(made) == made


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    TARGETS["database"].make(tmp_path)
    (tmp_path / "run" / "journal.bin").unlink()
    os.mkfifo(tmp_path / "run" / "journal.bin")
    with pytest.raises(StorageError, match="plain file"):
        begin(tmp_path)
    assert load(tmp_path / "run").image_ids.tolist() == [1]
