"""What all tests share: the number of threads, and one real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

# One thread leaves the neighbours on the machine in peace; `scripts/test_capabilities.py` tries several.
torch.set_num_threads(int(os.environ.get("POPSKIPJUMP_TEST_THREADS", "1")))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright, which can be started once in a process only."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: it is in the extra dev"
    )
    chromium = shutil.which("chromium")  # never a browser that Playwright brings or finds
    if chromium is None:
        pytest.skip("no chromium: install the Debian package chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
