"""What all tests share: one thread, and one real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

torch.set_num_threads(1)  # sums have one order, and neighbours on the machine are left in peace


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
