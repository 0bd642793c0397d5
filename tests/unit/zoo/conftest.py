"""Where the data for measuring lies, which is not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SIBLING = Path(__file__).resolve().parents[3].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = Path(os.environ.get("POPSKIPJUMP_DATA", SIBLING))
    if not folder.is_dir():
        pytest.skip("no data for measuring: set POPSKIPJUMP_DATA to its folder")
    return folder
