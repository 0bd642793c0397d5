"""README and documentation: Python blocks run, commands are ones, printed output is real, no link is broken."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import FENCE, README, ROOT, blocks_of, commands_of

from popskipjump.cli import app

PAGES = [README, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
NEEDS = "# Needs "  # begins a block that uses what a reader may not have: the block says what
TRIED_ELSEWHERE = {"classifiers.md", "tables.md"}  # by tests/unit/adapters and tests/unit/space
RUN_TESTS = """
for _name, _kind in list(globals().items()):
    if _name.startswith("Test"):
        for _claim in [name for name in dir(_kind) if name.startswith("test_")]:
            getattr(_kind(), _claim)()
"""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def psj() -> Any:
    """The command, as the library of the command line has it."""
    return typer.main.get_command(app)


def commands() -> dict[str, Any]:
    """Those of `psj`, by name."""
    return dict(psj().commands)


WITH_BLOCKS = [page for page in PAGES if blocks_of(page) and page.name not in TRIED_ELSEWHERE]
COMMANDS = [(page, line) for page in PAGES for line in commands_of(page, "psj")]


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


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_the_python_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    for block in blocks:
        ast.parse(block)
    runnable = [block for block in blocks if not block.startswith(NEEDS)]
    run("import torch\ntorch.set_num_threads(1)\n" + "\n".join(runnable) + RUN_TESTS, tmp_path)


@pytest.mark.slow
def test_the_block_on_clusters_runs(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (block,) = blocks_of(ROOT / "docs" / "guide" / "cluster.md")
    run(f"if __name__ == '__main__':\n    {'    '.join(block.splitlines(keepends=True))}", tmp_path)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page.name}: {line[:40]}" for page, line in COMMANDS])
def test_every_command_of_a_page_is_one_that_psj_takes(
    page: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names, options and the types of their values; the work itself is not done."""
    words = shlex.split(line, comments=True)[1:]
    words = words[: words.index(">")] if ">" in words else words  # the shell takes the rest
    called: list[str] = []
    whole = psj()
    for name, sub in whole.commands.items():
        monkeypatch.setattr(sub, "callback", lambda _word=name, **_: called.append(_word))
    monkeypatch.chdir(tmp_path)
    whole.main([word for word in words if word != "..."], prog_name="psj", standalone_mode=False)
    assert called == words[:1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_script_and_target_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"python3? ((?:benchmarks|scripts|examples)/\S+?\.py)", text)
    assert [file for file in files if not (ROOT / file).is_file()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert [line for line in commands_of(page, "make") if line.split()[1] not in targets] == []
    spoken = re.findall(r"`psj ([a-z]+)", text)
    assert set(spoken) <= set(commands())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = [
        t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t and not t.startswith("mailto")
    ]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_link_to_a_heading_leads_to_one() -> None:
    """In the files of the repository, as GitHub and the site make the names of headings."""
    lost = []
    for page in PAGES:
        for target, heading in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                there = page if not target else page.parent / target
                lost += [] if heading in headings_of(there) else [f"{name_of(page)}: {target}#{heading}"]
    assert lost == []


def headings_of(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.+?)(?:\s+\{#([\w-]+)\})?$", text, re.MULTILINE)
    named = set(re.findall(r"<a (?:id|name)=\"([\w-]+)\"", text)) | {name for _, name in found if name}
    plain = [re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "", title)).strip().lower() for title, _ in found]
    return named | {re.sub(r"\s", "-", title) for title in plain} | {re.sub(r"[\s-]+", "-", title) for title in plain}


def test_the_spelling_is_right() -> None:
    codespell = shutil.which("codespell", path=str(Path(sys.executable).parent)) or shutil.which("codespell")
    if codespell is None:
        pytest.skip("codespell is not installed: it is in the extra dev")
    places = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "docs",
        "src",
        "examples",
        "scripts",
        ".github",
    ]
    done = subprocess.run([codespell, *places], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout
