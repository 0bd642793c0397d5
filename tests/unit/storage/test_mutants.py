"""Damaged files of every kind end in typed errors, at once."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutants import SPEC, TARGETS, fuzz

from popskipjump import DataError, npz
from popskipjump.errors import DamagedRunError
from popskipjump.runs.data import load
from popskipjump.storage import info


@pytest.mark.parametrize("kind", TARGETS)
def test_a_mutant_is_read_or_refused_in_words(tmp_path: Path, kind: str) -> None:
    outcomes = fuzz(TARGETS[kind], tmp_path, seed=1, mutants=range(200))
    assert [outcome.kind for outcome in outcomes if not outcome.typed] == []
    assert max(outcome.seconds for outcome in outcomes) < 10
    refused = sum(outcome.kind != "read" for outcome in outcomes)
    assert refused or "journal" in kind or "binary" in kind, "the mutants are too mild to show anything"


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def header(shape: str, kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def test_an_archive_that_expands_without_end_is_refused_by_its_size() -> None:
    bomb = archive(images=header("(300_000_000,)".replace("_", "")) + bytes(300_000_000))
    assert len(bomb) < 400_000
    with pytest.raises(DataError, match="more than the"):
        npz.read_arrays(bomb, most=1 << 28)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive(images=header("(1 << 50,)".replace("1 << 50", str(1 << 50)))), "its header promises"),
        (archive(images=header("(-1,)")), "negative length"),
        (archive(images=b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little")), "a header of 1,073,741,824 bytes"),
        (archive(images=header("(2,)", "|O") + bytes(16)), "pickled objects"),
        (archive(images=header("(" * 5000)), "no whole npz file"),
        (b"PK\x03\x04", "no whole npz file"),
    ],
)
def test_what_an_array_promises_is_checked_before_it_is_read(content: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        npz.read_arrays(content)


def test_arrays_come_back_as_numpy_wrote_them() -> None:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.array(3, dtype=">i2"),
        "c": np.zeros((0, 2)),
    }
    np.savez(buffer, **arrays)
    found = npz.read_arrays(buffer.getvalue())
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_an_encrypted_member_is_refused() -> None:
    content = bytearray(archive(images=header("(2,)") + b"ab"))
    place = content.find(b"PK\x01\x02")
    content[place + 8] |= 1
    with pytest.raises(DataError, match="encrypted"):
        npz.read_arrays(bytes(content))


def test_a_spec_nested_without_end_is_damaged(tmp_path: Path) -> None:
    TARGETS["spec"].make(tmp_path)
    (tmp_path / "run" / "spec.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(DamagedRunError, match="damaged"):
        load(tmp_path / "run")
    assert "damaged" in info(tmp_path / "run").state


@pytest.mark.parametrize(
    ("column", "value"),
    [("phases", "no json"), ("phases", "[" * 50_000), ("phases", "[]"), ("status", "HAPPY"), ("label", "three"),
     ("distance", "far"), ("queries", b"\x00"), ("phases", json.dumps({"search": "x"}))],
)  # fmt: skip
def test_a_table_with_other_values_than_were_written_is_damaged(tmp_path: Path, column: str, value: Any) -> None:
    TARGETS["database"].make(tmp_path)
    with sqlite3.connect(tmp_path / "run" / "results.sqlite") as connection:
        connection.execute(f"UPDATE images SET {column} = ?", (value,))  # noqa: S608
    connection.close()
    with pytest.raises(DamagedRunError, match="damaged"):
        load(tmp_path / "run")


def test_the_mutants_have_a_run_to_begin_with(tmp_path: Path) -> None:
    TARGETS["database"].make(tmp_path)
    assert load(tmp_path / "run").spec == SPEC
