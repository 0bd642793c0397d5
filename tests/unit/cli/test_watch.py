"""`psj watch` on the command line; its page is tested in tests/unit/experiments/test_watch.py."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from .conftest import Psj


def test_watch_writes_a_page_and_writes_over_none(psj: Psj, models: Path, data: Path, tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "page.html"
    made = psj("attack", "--model", f"{models}:module", "--data", data, "--images", 1, "--budget", 100, "--out", run)
    assert made.exit_code == 0
    assert psj("watch", run, "--out", page).exit_code == 0
    assert "psj watch" in page.read_text(encoding="utf-8")
    again = psj("watch", run, "--out", page)
    assert again.exit_code == 2
    assert "--force" in again.output


def test_watch_says_what_is_no_run(psj: Psj, tmp_path: Path) -> None:
    found = psj("watch", tmp_path)
    assert found.exit_code == 2
    assert "not the folder of a run" in found.output


def test_watch_serves_until_ctrl_c(psj: Psj, models: Path, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    psj("attack", "--model", f"{models}:module", "--data", data, "--images", 1, "--budget", 100, "--out", run)
    command = [sys.executable, "-m", "popskipjump", "watch", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line[line.index("http://") :].split()[0]
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
            assert b"psj watch" in answer.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "no longer watching" in errors
