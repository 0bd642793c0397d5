"""The package as it is installed: one version, a light import, everything that it needs inside, and nothing large."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import popskipjump

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 2_000_000  # of the wheel
HEAVY = {"torch", "matplotlib", "pandas", "sklearn", "foolbox", "art", "onnxruntime", "jax", "ray", "starlette"}


def modules_after(code: str) -> set[str]:
    """The packages that are loaded after some code."""
    told = f"import sys\n{code}\nprint('|'.join(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split("|")}


def test_the_import_loads_nothing_heavy() -> None:
    assert modules_after("import popskipjump") & (HEAVY | {"numpy", "typer", "rich"}) == set()


@pytest.mark.parametrize("words", [["--help"], ["attack", "--help"], ["noises"], ["attacks"], []])
def test_help_and_lists_load_nothing_heavy(words: list[str]) -> None:
    start = f"sys.argv = ['psj', *{words}]\nfrom popskipjump.cli import main"
    assert modules_after(f"{start}\ntry:\n    main()\nexcept SystemExit:\n    pass") & HEAVY == set()


def test_the_version_stands_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert not re.search(r"^version\s*=", project, re.MULTILINE)
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == popskipjump.__version__
    assert f"## {popskipjump.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed; the workflow builds the wheel")
def test_the_wheel_is_small_and_works_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    inside = tmp_path / "inside"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(inside)
    code = f"import sys; sys.path.insert(0, {str(inside)!r}); sys.argv = 'psj demo --images 2 --iterations 3'.split()"
    code += "\nimport popskipjump; print(popskipjump.__file__)\nfrom popskipjump.cli import main; main()"
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    given = {"cwd": tmp_path, "env": home, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=False, **given)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(inside))
    assert (tmp_path / "psj-demo" / "images.png").is_file()
