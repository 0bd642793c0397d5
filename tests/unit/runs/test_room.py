"""Memory: how many images are attacked together follows a stated limit, and results do not depend on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_toys import Logging, everything, source_with, spec_of

from popskipjump import InputError
from popskipjump.runs import room as rooms
from popskipjump.runs.collect import collect, source_of
from popskipjump.runs.room import bytes_of, room_for

GB = 1 << 30


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * GB), ("1.5 g", 3 * GB // 2), ("500MiB", 500 << 20), ("4096", 4096)]
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "2 apples", "1e9", "2GBB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no size"):
        bytes_of(text)


def test_fewer_large_images_fit_than_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_resident", lambda: 400 << 20)
    spec = source_of().spec(attack="psj")
    small, large = room_for(spec, 784, 50, 2 * GB), room_for(spec, 3 * 224 * 224, 50, 2 * GB)
    assert small == (50, True)
    assert 8 <= large.images < 50
    assert large.points


def test_a_trace_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_resident", lambda: 400 << 20)
    spec = source_of().spec(attack="psj", iterations=5000)
    assert room_for(spec, 3 * 224 * 224, 50, 2 * GB).points is False


def test_so_little_memory_that_nothing_fits_is_refused_before_the_first_query(tmp_path: Path) -> None:
    source = source_with(Logging())
    with pytest.raises(InputError, match="memory must be at least"):
        collect(spec_of(source), [0], tmp_path, source=source, memory=1 << 20)
    assert source.model.count == 0
    assert not list(tmp_path.iterdir())


def test_without_room_for_traces_only_the_border_trace_is_unknown_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_with(Logging())
    whole = everything(collect(spec_of(source), range(4), tmp_path / "whole", source=source))
    monkeypatch.setattr(rooms, "LEAST", 0)
    monkeypatch.setattr(rooms, "_resident", lambda: 0)
    monkeypatch.setattr(rooms, "WORKING", -1)
    notes: list[Any] = []
    tight = collect(spec_of(source), range(4), tmp_path / "tight", source=source, memory=20, on_note=notes.append)
    found = everything(tight)
    assert [name for name in whole if whole[name] != found[name]] == ["trace_border"]
    assert bool(np.isnan(tight.trace_border).all())
    assert "do not fit" in notes[0]
