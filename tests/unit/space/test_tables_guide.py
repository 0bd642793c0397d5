"""The examples of the guide to tables run, in their order."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import popskipjump as psj

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "tables.md"


def test_the_python_of_the_guide_runs() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 6
    script = "import torch\ntorch.set_num_threads(1)\n" + "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "30 of 30 features may change" in done.stdout


def test_the_column_file_of_the_guide_is_a_space(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "columns.json").write_text(json.dumps(json.loads(text)))
    assert psj.Space.from_columns(tmp_path / "columns.json").dimension == 6
