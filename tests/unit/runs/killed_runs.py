"""Run in a process of its own: workers that are forked, killed, and forked again until the run is complete.

usage: killed_runs.py FOLDER MOMENT   with MOMENT "random", or the step of finishing a group to die at
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_toys import IMAGES, Logging, source_with, spec_of

from popskipjump.runs import collect as runner
from popskipjump.storage import Database, Journal, folder
from popskipjump.storage.arrays import write_arrays
from popskipjump.storage.records import MARKER

KILLS = 10


def work(root: Path, log: Path, moment: str) -> None:
    runner.GROUP = 3
    source = source_with(Logging(log, seconds=0.005 if moment == "random" else 0.0))
    if moment != "random" and not (root / "died").exists():
        die_at(moment, root / "died")
    runner.collect(spec_of(source), range(IMAGES), root, source=source)


def die_at(moment: str, note: Path) -> None:
    """Let this process kill itself at a step of finishing its first group, once."""
    patch = pytest.MonkeyPatch()  # never undone: the process dies

    def die() -> None:
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "in a record of the journal":
        places: list[int] = []
        whole = Journal.write_at

        def torn(self: Journal, file: int, place: int, content: bytes) -> None:
            places.append(place)
            if len(places) >= 40 and content.startswith(MARKER):
                whole(self, file, place, content[: len(content) // 2])
                die()
            whole(self, file, place, content)

        patch.setattr(Journal, "write_at", torn)
    elif moment == "between two arrays":
        done: list[Path] = []

        def some(path: Path, arrays: Any) -> str:
            if len(done) == 2:
                die()
            done.append(path)
            return write_arrays(path, arrays)

        patch.setattr(folder, "write_arrays", some)
    elif moment == "before the rows":
        patch.setattr(Database, "write", lambda self, results: die())
    elif moment == "before the journal is dropped":
        write = Database.write

        def then_die(self: Database, results: Any) -> None:
            write(self, results)
            die()

        patch.setattr(Database, "write", then_die)


def worker(root: Path, log: Path, moment: str) -> int:
    child = os.fork()
    if not child:
        code = 1
        try:
            work(root, log, moment)
            code = 0
        finally:
            os._exit(code)
    return child


def kill_later(child: int, log: Path, seconds: float) -> None:
    """Kill a worker some time after its first question."""
    before = size_of(log)
    patience = time.monotonic() + 30
    while size_of(log) == before and time.monotonic() < patience:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)


def size_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def main(root: Path, moment: str) -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(7)
    killed = 0
    while True:
        child = worker(root, root / "log", moment)
        if moment == "random" and killed < KILLS:
            kill_later(child, root / "log", rng.uniform(0.0, 0.3))
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        if os.WIFEXITED(status):
            raise SystemExit("a worker failed")
        killed += 1
    print(killed)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
