"""The page on contracts works for an outside author: its file passes under pytest, and a broken classifier fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "contracts.md"
FILE = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[0]


def pytest_on(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(code)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_the_file_of_the_page_passes(tmp_path: Path) -> None:
    done = pytest_on(tmp_path, FILE)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 20


def test_a_classifier_that_miscounts_fails_with_a_sentence(tmp_path: Path) -> None:
    broken = FILE.replace("self.rows += len(batch)", "self.rows += 1").split("class TestSmoothing")[0]
    done = pytest_on(tmp_path, broken)
    assert done.returncode == 1
    assert re.search(r"\d+ queries counted, \d+ rows seen", done.stdout)
