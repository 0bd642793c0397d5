"""What all tests share: the number of threads, and one real browser."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
AXE = Path(os.environ.get("AXE_CORE", ROOT / "node_modules" / "axe-core")) / "axe.min.js"

Opened = Callable[..., AbstractContextManager[Any]]

# One thread leaves the neighbours on the machine in peace; `scripts/test_capabilities.py` tries several.
torch.set_num_threads(int(os.environ.get("POPSKIPJUMP_TEST_THREADS", "1")))
# A shell that starts the tests in the background ignores Ctrl-C for them, and their children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture
def opened(browser: Any) -> Opened:
    """Open an address; a complaint of the page, or a request to another host, fails the test at the end."""

    @contextmanager
    def open_page(url: str, width: int = 1280, scheme: str = "light") -> Iterator[Any]:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        yield page
        context.close()
        assert complaints == []
        own = ("file:", "data:", "http://127.0.0.1:")
        assert [address for address in asked if not address.startswith(own)] == []

    return open_page


@pytest.fixture
def accessibility(browser: Any) -> Callable[[str, str], list[str]]:
    """What axe-core finds on a page, of serious or critical impact."""
    if not AXE.is_file():
        pytest.skip("no axe-core: `npm install --no-save axe-core` in the repository, or name its folder in AXE_CORE")

    def find(url: str, scheme: str) -> list[str]:
        # The page's own policy forbids scripts, also the one that checks it.
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        page.goto(url)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run()")["violations"]
        context.close()
        return [
            f"{entry['id']}: {entry['nodes'][0]['html']}"
            for entry in found
            if entry["impact"] in ("serious", "critical")
        ]

    return find
