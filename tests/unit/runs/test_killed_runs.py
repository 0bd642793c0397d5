"""A run that is killed at any moment loses nothing but the call in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from run_toys import IMAGES, Logging, everything, source_with, spec_of

from popskipjump.runs.collect import RunData, collect, load

SCRIPT = Path(__file__).with_name("killed_runs.py")
TOYS = Path(__file__).parents[2] / "toys"
MOMENTS = ["in a record of the journal", "between two arrays", "before the rows", "before the journal is dropped"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    source = source_with(Logging())
    return collect(spec_of(source), range(IMAGES), tmp_path_factory.mktemp("whole"), source=source)


def killed_run(root: Path, moment: str) -> tuple[int, RunData, list[tuple[int, list[tuple[int, int]]]]]:
    """How often it was killed, the results, and the log of calls."""
    command = [sys.executable, str(SCRIPT), str(root), moment]
    path = os.pathsep.join(filter(None, (str(TOYS), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (root / "log").read_text().splitlines()]
    calls = [(process, [tuple(number) for number in numbers]) for process, numbers in lines]
    return int(done.stdout), load(root / spec_of(source_with(None)).digest), calls


def repeated(calls: list[tuple[int, list[tuple[int, int]]]]) -> int:
    """Queries asked twice, but for those of each process's last call, whose answers were never seen."""
    last = {process: place for place, (process, _) in enumerate(calls)}
    asked = defaultdict(list)
    for place, (process, numbers) in enumerate(calls):
        for number in numbers:
            asked[number].append((process, place))
    return sum(place != last[process] for times in asked.values() for process, place in times[:-1])


def test_a_run_killed_at_ten_random_moments_ends_as_the_uninterrupted_one(tmp_path: Path, uninterrupted: Any) -> None:
    killed, data, calls = killed_run(tmp_path, "random")
    assert killed == 10, "the run was over before it could be killed"
    assert everything(data) == everything(uninterrupted)
    assert repeated(calls) == 0
    assert {number for _, numbers in calls for number in numbers} == {
        (image, number)
        for image, count in zip(data.image_ids, data.queries, strict=True)
        for number in range(count)
    }  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_while_it_writes_ends_as_the_uninterrupted_one(
    tmp_path: Path, uninterrupted: Any, moment: Any
) -> None:
    killed, data, calls = killed_run(tmp_path, moment)
    assert killed == 1
    assert everything(data) == everything(uninterrupted)
    assert repeated(calls) == 0
