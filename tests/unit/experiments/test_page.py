"""The page of runs: all of it in one file, and what comes from outside is text."""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from present import present
from run_toys import Logging, source_with, spec_of

from popskipjump import InputError, Status
from popskipjump.experiments.charts import curve_chart, log_ticks, sigmoid_chart
from popskipjump.experiments.page import accuracy_rows, render
from popskipjump.experiments.pictures import changed_most, difference, gain_of, picture
from popskipjump.metrics import Curve
from popskipjump.runs.collect import RunData, collect
from popskipjump.space import Space

HOSTILE = '"><script>alert(1)<img src=x onerror=alert(2)>.py:make'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunData]:
    root = tmp_path_factory.mktemp("runs")
    source = source_with(Logging())
    return [collect(spec_of(source, attack=attack), range(4), root, source=source) for attack in ("psj", "hsj")]


def test_a_page_asks_for_nothing_from_outside(runs: Any) -> None:
    page = render(runs)
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) > 8 * 3
    assert all(source.startswith("data:") for source in sources)
    assert "<script" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_a_page_names_what_it_shows(runs: Any) -> None:
    page = render(runs)
    for text in (
        "psj, noise none",
        "hsj, noise none",
        "FINISHED",
        runs[0].spec.digest,
        "torch",
        "direction",
        "verdict",
    ):
        assert text in page
    assert page.count('class="small"') == 4, "a sigmoid for each image of PSJ"
    assert page.count("none fitted") == 4, "and none for HSJ"
    assert page.count("the dots are the answers") == 1
    assert page.count("This attack fits no sigmoid") == 1


def test_pictures_are_shown_within_the_bounds_of_their_values(runs: Any) -> None:
    shown = render(runs[:1])
    values = {"originals": runs[0].originals * 255, "points": runs[0].points * 255}
    wide = render([replace(runs[0], spec=runs[0].spec.but(bounds=(0, 255)), **values)])
    uri = re.compile(r'"(data:image/png[^"]*)" alt="(?:image|adversarial)')
    assert uri.findall(wide) == uri.findall(shown)


def test_colours_may_stand_in_the_last_axis() -> None:
    values = np.random.default_rng(0).random((3, 5, 4)).astype(np.float32)
    assert picture(np.moveaxis(values, 0, 2)) == picture(values)


def test_what_changed_in_a_table_is_named_and_ordered_by_its_scale() -> None:
    space = Space(
        low=[0, 0, 0],
        high=[90_000, 1, 2],
        names=["income", "share", "town"],
        categories={"town": 3},
        values={"town": ("Bern", "Genf", "Chur")},
    )
    before, after = np.array([30_000.0, 0.2, 0.0]), np.array([31_000.0, 0.7, 2.0])
    assert changed_most(before, after, space) == ["town: Bern → Chur", "share: 0.2 → 0.7", "income: 30,000 → 31,000"]
    assert changed_most(before, after)[0] == "0: 30,000 → 31,000", "without a space, by place and value"


def test_a_sigmoid_without_its_answers_says_so(runs: Any) -> None:
    none = np.zeros((4, 0), dtype=np.int64)  # as QSJ has it, which fits over several searches
    page = render([replace(runs[0], probe_asked=none, probe_adversarial=none)])
    assert page.count("answers not kept") == page.count('class="small"') == 4
    assert "this attack does not keep the answers" in page
    assert "the dots are" not in page


def test_what_comes_from_outside_is_escaped(runs: Any) -> None:
    bad = replace(runs[0], spec=runs[0].spec.but(model=HOSTILE.replace("/", "")), messages={0: HOSTILE})
    page = render([bad])
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;img" in page


def test_only_so_many_images_are_shown(runs: Any) -> None:
    page = render(runs, rows=2)
    assert "the first 2 of 4" in page
    assert page.count("difference, amplified") == 2 * 2


def test_images_without_a_result_are_shown_as_such(runs: Any) -> None:
    run = runs[0]
    lost = replace(
        run,
        status=[Status.NO_START, Status.MISCLASSIFIED, Status.ORACLE_FAILED, Status.BAD_LABEL],
        distances=np.array([np.inf, 0.0, np.inf, np.inf]),
        border_distances=np.array([np.inf, 0.0, np.inf, np.inf]),
        trace_border=np.full_like(run.trace_border, np.inf),
        verdict_probability=np.full(4, np.nan),
        verdict_queries=np.zeros(4, dtype=np.int64),
        trace_sigmoid={name: np.full_like(value, np.nan) for name, value in run.trace_sigmoid.items()},
    )
    page = render([lost])
    assert "∞" in page
    assert not re.search(r"\bnan\b", page)
    for status in lost.status:
        assert status.name in page


def test_runs_without_a_white_box_are_drawn_by_the_distance_of_their_points(runs: Any) -> None:
    blind = replace(
        runs[0],
        border_distances=np.full(4, np.nan),
        trace_border=np.full_like(runs[0].trace_border, np.nan),
    )
    assert "Distance of the points (ℓ₂) per query" in render([blind])


def test_two_runs_of_one_name_are_told_apart(runs: Any) -> None:
    page = render([runs[0], replace(runs[0], spec=runs[0].spec.but(seed=3))])
    assert "seed 3" in page


def test_norms_are_not_mixed(runs: Any) -> None:
    with pytest.raises(InputError, match="no common axis"):
        render([runs[0], replace(runs[0], spec=runs[0].spec.but(norm="linf"))])


def pixels(uri: str) -> tuple[int, int, bytes]:
    """Width, height and rows of a PNG."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    start = content.index(b"IDAT") + 4
    length = int.from_bytes(content[start - 8 : start - 4], "big")
    return width, height, zlib.decompress(content[start : start + length])


def test_a_picture_keeps_its_values() -> None:
    values = np.array([[[0.0, 0.5, 1.0], [0.2, 0.4, 0.6]]])
    assert pixels(present(picture(values))) == (3, 2, bytes([0, 0, 128, 255, 0, 51, 102, 153]))
    assert pixels(present(picture(np.ones((3, 1, 1))))) == (1, 1, bytes([0, 255, 255, 255]))


def test_a_rise_is_red_a_fall_is_blue_and_no_change_lets_the_page_show_through() -> None:
    _, _, rows = pixels(present(difference(np.array([[[0.5, -0.5, 0.0, 0.25]]]), gain=2.0)))
    rise, fall, none, half = (rows[1 + 4 * k : 5 + 4 * k] for k in range(4))
    assert rise[0] > 200 > 100 > rise[2]
    assert fall[2] > 200 > 120 > fall[0]
    assert (rise[3], fall[3], none[3], half[3]) == (255, 255, 0, 128)


@pytest.mark.parametrize("shape", [(7,), (2, 4, 4), (1, 2, 3, 4)])
def test_what_is_no_picture_has_none(shape: tuple[int, ...]) -> None:
    assert picture(np.zeros(shape)) is None
    assert difference(np.zeros(shape), 2.0) is None


@pytest.mark.parametrize(("largest", "gain"), [(0.0, 1.0), (0.5, 2.0), (0.013, 80.0), (1.0, 1.0)])
def test_the_gain_is_a_round_number_that_fills_the_range(largest: float, gain: float) -> None:
    assert gain_of(np.array([0.0, -largest])) == gain


@pytest.mark.parametrize(("low", "high"), [(50, 20_000), (1, 1e6), (1.1, 1.3), (0.7, 9), (3.0, 3.1), (1e-4, 2e-4)])
def test_ticks_are_a_few_round_numbers_within_the_axis(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)


def test_a_curve_stays_within_its_frame_and_what_is_infinite_is_at_the_top() -> None:
    count = np.array([10.0, 100.0, 1000.0])
    up = np.array([np.inf, 3.0, 1.0])
    chart = curve_chart([Curve(count, up, up / 2, up * 2)])
    places = [tuple(map(float, point.split(","))) for point in chart.lines[0].median.split()]
    assert places[0] == (chart.left, chart.top)
    assert chart.ceiling == chart.top
    assert all(chart.left <= x <= chart.right and chart.top <= y <= chart.bottom for x, y in places)


def test_the_dots_of_a_sigmoid_are_the_answers() -> None:
    asked, adversarial = np.array([4, 0, 1, 2]), np.array([4, 0, 0, 1])
    chart = sigmoid_chart(0.5, 10.0, 0.0, 0.1, asked, adversarial)
    assert present(chart).answers == 7
    assert [(dot.x, dot.y) for dot in present(chart).dots] == [(40.6, 5.0), (115.1, 86.0), (152.4, 45.5)]
    assert sigmoid_chart(np.nan, 10.0, 0.0, 0.1, asked, adversarial) is None


def test_points_that_are_not_confirmed_catch_the_eye(runs: Any) -> None:
    lost = replace(runs[0], status=[Status.UNCONFIRMED] * 4)
    page = render([lost])
    assert "✗ 0 of 4" in page
    assert "most points are NOT adversarial" in page
    assert "✓ 4 of 4" in render([replace(runs[0], status=[Status.FINISHED] * 4)])


def test_a_row_says_which_class_was_reached(runs: Any) -> None:
    page = render([replace(runs[0], adversarial_labels=np.array([1, 1, 1, -1]), labels=np.array([0, 0, 0, 0]))])
    assert page.count("label 0 → 1") == 3
    assert "label 0 → ?" in page


def test_inputs_that_are_no_pictures_are_told_by_what_changed(runs: Any) -> None:
    flat = replace(runs[0], originals=np.zeros((4, 3)), points=np.tile([0.0, 0.5, 0.0], (4, 1)))
    page = render([flat])
    assert page.count("1: 0 → 0.5") == 4
    assert "no picture" not in page


def test_robust_accuracy_falls_with_the_size_of_the_change_and_counts_confirmed_points_alone(runs: Any) -> None:
    shares = [float(share.rstrip("%")) for _, share in accuracy_rows(runs[0])]
    assert shares[0] == 100.0
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.0
    nothing = replace(runs[0], status=[Status.UNCONFIRMED] * 4)
    assert accuracy_rows(nothing) == []


def test_a_page_says_when_and_on_what_machine_a_run_was_made(runs: Any) -> None:
    page = render(runs)
    assert "machine" in page
    assert "cores" in page
