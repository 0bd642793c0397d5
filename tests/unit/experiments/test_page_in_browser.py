"""The page in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_toys import Logging, source_with, spec_of

from popskipjump.experiments.page import render
from popskipjump.runs.collect import collect

Opened = Callable[..., Any]  # see conftest.py
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_is_whole_in_a_browser(opened: Opened, page_file: Path, width: int, scheme: str) -> None:
    with opened(page_file.as_uri(), width, scheme) as page:
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_problem(accessibility: Callable[..., list[str]], page_file: Path, scheme: str) -> None:
    assert accessibility(page_file.as_uri(), scheme) == []


def _light(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
