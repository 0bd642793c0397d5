"""The first ten minutes of a newcomer: a fresh clone, an empty HOME, the README; all works at the first try.

The commands are those of the README, word by word; what a newcomer brings (`mine.py`, `mine.npz`) is written here.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pages import README, ROOT, blocks_of, commands_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TORCH_MODEL = """
import torch
import popskipjump as psj


def make():
    return psj.zoo.mnist_model()  # any torch module
"""
LABELS_ONLY = """
import numpy as np


def make():
    noise = np.random.default_rng(0)

    def predict(batch):  # (M, 1, 28, 28) -> (M,)
        bright = batch.mean(axis=(1, 2, 3)) + 0.002 * noise.normal(size=len(batch))
        return (bright > 0.13).astype(int)

    return predict
"""
SCIKIT_LEARN = """
import numpy as np
import popskipjump as psj
from sklearn.ensemble import RandomForestClassifier

x = np.random.default_rng(0).random((300, 6))
y = (x[:, 0] + x[:, 1] > 1).astype(int)
forest = RandomForestClassifier(10, random_state=0).fit(x[:250], y[:250])
right = forest.predict(x[250:]) == y[250:]
report = psj.evaluate(forest, x[250:][right][:5], y[250:][right][:5], budget=300)
print(report)
assert report.success.any()
"""


class Newcomer:
    """A shell in an empty folder, with an empty HOME, and the clone installed."""

    def __init__(self, folder: Path) -> None:
        clone, self.here = folder / "clone", folder / "work"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, capture_output=True)
        self.here.mkdir()
        (folder / "home").mkdir()
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "psj").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m popskipjump "$@"\n')
        (bin_folder / "psj").chmod(0o755)
        path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        self.env = {"HOME": str(folder / "home"), "PATH": path, "PYTHONPATH": str(clone / "src")}

    def run(self, line: str, code: int = 0) -> str:
        done = subprocess.run(
            shlex.split(line, comments=True), cwd=self.here, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def python(self, code: str) -> str:
        (self.here / "script.py").write_text(code)
        return self.run(f"{shlex.quote(sys.executable)} script.py")

    def interrupted(self, line: str, number: int, journal: Path) -> int:
        """Start a command, and send it a signal once it has asked something."""
        words = shlex.split(line, comments=True)
        with subprocess.Popen(
            words, cwd=self.here, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            end = time.monotonic() + 300
            while time.monotonic() < end and process.poll() is None:
                if journal.is_file() and journal.stat().st_size > 2000:
                    process.send_signal(number)
                    break
                time.sleep(0.02)
            process.communicate(timeout=300)
        return process.returncode


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git, or no repository to clone")
    return Newcomer(tmp_path)


def bring(newcomer: Newcomer, model: str, count: int = 60) -> None:
    from popskipjump import zoo

    images, labels = zoo.mnist_images(count)
    if model is LABELS_ONLY:
        labels = (images.mean(axis=(1, 2, 3)) > 0.13).astype(np.int64)
    (newcomer.here / "mine.py").write_text(model)
    np.savez(newcomer.here / "mine.npz", images=images, labels=labels)


def test_the_demo(newcomer: Newcomer) -> None:
    (line,) = [line for line in commands_of(README, "psj") if line.startswith("psj demo")]
    assert "images.png" in newcomer.run(line)
    assert (newcomer.here / "psj-demo" / "curves.png").is_file()


def test_the_example(newcomer: Newcomer) -> None:
    assert "confirmed adversarial" in newcomer.python("\n".join(blocks_of(README)))


@pytest.mark.parametrize("model", [TORCH_MODEL, LABELS_ONLY], ids=["torch module", "label-only function"])
def test_the_commands_for_a_model_of_ones_own(newcomer: Newcomer, model: str) -> None:
    bring(newcomer, model)
    for line in commands_of(README, "psj")[1:]:
        if line.startswith("psj watch"):
            newcomer.run(line.partition("#")[0] + "--out watched.html")
            continue
        newcomer.run(line)
    assert (newcomer.here / "report.html").is_file()
    assert (newcomer.here / "watched.html").is_file()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "timeout"])
def test_a_run_goes_on_after_it_was_stopped(newcomer: Newcomer, number: int, code: int) -> None:
    bring(newcomer, TORCH_MODEL)
    attack, resume, *_ = commands_of(README, "psj")[1:]
    line = attack.partition("#")[0] + " --images 40 --budget 4000 --noise flip:0.1"
    assert newcomer.interrupted(line, number, newcomer.here / "run" / "journal.bin") == code
    assert "unfinished" in newcomer.run("psj runs run")
    newcomer.run(resume)
    stopped = newcomer.run("psj runs run --json")
    newcomer.run(line.replace("--out run", "--out whole"))
    assert '"state": "done"' in stopped
    points = [np.load(newcomer.here / name / "points.npz")["points"] for name in ("run", "whole")]
    assert np.array_equal(*points), "a run that was stopped ends like one that was not"


def test_scikit_learn(newcomer: Newcomer) -> None:
    pytest.importorskip("sklearn")
    assert "confirmed adversarial" in newcomer.python(SCIKIT_LEARN)


def test_nothing_was_written_to_home(newcomer: Newcomer) -> None:
    newcomer.run("psj attack --images 1 --budget 100")
    left = [path for path in Path(newcomer.env["HOME"]).rglob("*") if path.is_file() and ".cache" not in path.parts]
    assert left == []
