"""README and tutorial: every Python block runs, the printed output is the real one, and no link is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) < 900


def test_the_example_of_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    said = re.search(r"<!-- example -->\n```python\n(.*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    assert said is not None
    found, shown = run(said[1], tmp_path).splitlines(), said[2].splitlines()
    assert found[0] == shown[0]  # the other digits depend on the processor
    strip = re.compile(r"[\d.,]+")
    assert [strip.sub("0", line) for line in found] == [strip.sub("0", line) for line in shown]


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    run("import torch\ntorch.set_num_threads(1)\n" + "\n".join(blocks), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = [
        t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t and not t.startswith("mailto")
    ]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
