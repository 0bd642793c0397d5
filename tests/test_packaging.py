"""The package as it is installed: one version, a light import, everything that it needs inside, and nothing large."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
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
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed: it is in the extra dev")
def test_the_wheel_is_small_and_works_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """Its dependencies are those of this environment; the workflow installs them anew."""
    done = Steps(tmp_path)
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), where=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    done(sys.executable, "-m", "venv", str(tmp_path / "fresh"))
    python, psj = (str(tmp_path / "fresh" / "bin" / name) for name in ("python", "psj"))
    done(python, "-m", "pip", "install", "--no-deps", "--no-index", str(wheel))
    site = Path(done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # an editable install there is not followed
    assert popskipjump.__version__ in done(psj, "--version")
    place = done(python, "-c", "import popskipjump; print(popskipjump.__file__)").strip()
    assert Path(place).is_relative_to(site)
    done(psj, "demo", "--images", "2", "--iterations", "3")
    assert (tmp_path / "psj-demo" / "images.png").is_file()
    done(psj, "attack", "--images", "2", "--budget", "200", "--out", "run")
    done(psj, "report", "run")
    assert (tmp_path / "report.html").is_file()


class Steps:
    """Commands in an empty folder, with an empty HOME; each must succeed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}

    def __call__(self, *words: str, where: Path | None = None) -> str:
        done = subprocess.run(
            words, cwd=where or self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout
