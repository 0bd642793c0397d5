"""Every notebook runs from its first cell to its last; what it promises, its own cells assert."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEEDS = {"beside_foolbox_and_art": ("foolbox", "art"), "loans": ("sklearn", "pandas"), "randomized_defence": ()}
MOST_BYTES = 200_000

pytest.importorskip("nbclient", reason="nbclient is not installed: it is in the extra dev")
pytest.importorskip("ipykernel", reason="ipykernel is not installed: it is in the extra dev")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages


def test_the_notebooks_are_those_that_the_documentation_names() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(NEEDS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_was_run_in_order(path: Path) -> None:
    import nbformat

    assert path.stat().st_size < MOST_BYTES
    book: Any = nbformat.read(path, as_version=4)
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [o for cell in book.cells for o in cell.get("outputs", []) if o.output_type == "error"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.timeout(900)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    missing = [name for name in NEEDS[path.stem] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, kernel_name="python3").execute(cwd=str(tmp_path))
