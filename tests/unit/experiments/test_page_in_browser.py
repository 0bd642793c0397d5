"""The page in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_toys import Logging, source_with, spec_of

from popskipjump.experiments.page import render
from popskipjump.runs.collect import collect

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in the extra dev")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: install the Debian package chromium")

HOSTILE = '"><script>document.title="broken into"<img src=x onerror=alert(2)>' + "x" * 100 + ".py:make"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    source = source_with(Logging())
    runs = [collect(spec_of(source, attack=attack), range(3), root, source=source) for attack in ("psj", "hsj")]
    runs[1] = replace(
        runs[1], spec=runs[1].spec.but(model=HOSTILE.replace("/", "")[:200]), messages={0: HOSTILE, 1: "y" * 300}
    )
    path = root / 'page "of" <b>runs.html'
    path.write_text(render(runs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_is_whole_in_a_browser(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints, asked = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())

    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.title() == "PopSkipJump report: 2 runs"
    assert page.evaluate("document.images.length") == 2 * 3 * 3
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    plots = page.evaluate("[...document.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect().width)")
    assert len(plots) == 1 + 3
    assert all(100 < size <= width for size in plots)
    lines = page.evaluate("[...document.querySelectorAll('.line')].map(line => line.getBBox().width)")
    assert all(size > 50 for size in lines)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page scrolls sideways"
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert (_light(ink) > _light(paper)) == (scheme == "dark")
    page.close()


def _light(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
