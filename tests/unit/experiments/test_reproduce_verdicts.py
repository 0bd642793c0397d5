from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from reproduce_toys import SETUP, evidence_of, run_with

from popskipjump import BoundaryAttack, HopSkipJump, PopSkipJump, QuickSkipJump
from popskipjump.experiments.reproduce import DEFAULT, EXPERIMENTS, PAPER, QUICK, Setup, Size
from popskipjump.experiments.reproduce.base import FEWEST, Way, judged
from popskipjump.experiments.reproduce.figures.cosine import BORDERS, COUNTS, analytic
from popskipjump.experiments.reproduce.figures.timing import VARIANTS
from popskipjump.experiments.reproduce.numbers import Ratio, all_of, compare, farther_for_as_many, what_would_decide

UNCAPPED = Setup("mnist", (1, 28, 28), replace(PAPER, table_images=5, images=5, votes_images=5))


def _as_published(way: Way) -> tuple[float, float]:
    """PSJ keeps its distance under any noise; the others double it; votes cost their queries."""
    if isinstance(way.attack, PopSkipJump):
        return 2.0, 13_000 if way.noise is None else 18_000
    queries = (27_000 if isinstance(way.attack, BoundaryAttack) else 12_800) * way.votes
    return (2.0 if way.noise is None else 4.0), queries


def _psj_breaks(way: Way) -> tuple[float, float]:
    distance, queries = _as_published(way)
    return (distance * 1.5 if isinstance(way.attack, PopSkipJump) and way.noise else distance), queries


def _nothing_breaks(way: Way) -> tuple[float, float]:
    return 2.0, _as_published(way)[1]


@pytest.mark.parametrize("name", ["table-1", "table-2"])
def test_the_tables_support_the_claim_when_only_psj_keeps_its_distance(name: str) -> None:
    assert EXPERIMENTS[name].verdict(evidence_of(EXPERIMENTS[name], _as_published)).supported is True


@pytest.mark.parametrize("name", ["table-1", "table-2"])
@pytest.mark.parametrize("numbers", [_psj_breaks, _nothing_breaks])
def test_the_tables_refute_the_claim_when_psj_breaks_or_nothing_does(name: str, numbers: object) -> None:
    finding = EXPERIMENTS[name].verdict(evidence_of(EXPERIMENTS[name], numbers))  # type: ignore[arg-type]
    assert finding.supported is False


def test_a_rule_that_the_images_cannot_decide_is_left_open() -> None:
    reference = np.linspace(1.0, 3.0, 8)
    ragged = np.array([1.0, 4.0, 1.2, 3.5, 1.4, 3.0, 1.5, 5.0])
    found = compare(ragged, reference)
    assert found.low < 1.1 < found.high
    assert found.at_most(1.1) is None
    assert found.above(1.1) is None
    assert compare(reference, reference) == (1.0, 1.0, 1.0, 8)
    assert compare(3 * reference, reference).at_most(1.1) is False
    assert compare(np.full(8, np.inf), reference).above(1.1) is True
    assert compare(reference, np.full(8, np.inf)).at_most(1.1) is None


def test_an_open_rule_says_how_many_images_would_decide_it() -> None:
    def ratio_of(count: int) -> Ratio:
        values, reference = np.random.default_rng(4).lognormal(0, 0.4, (2, count))
        return compare(values, reference)

    few = ratio_of(20)
    limit = few.value + 0.7 * (few.high - few.value)
    assert few.at_most(limit) is None
    needed = few.images_to_decide(limit)
    assert 20 < needed < 200
    assert what_would_decide([(few, limit), (few, 100.0)]) == f" About {needed:,} images would decide what is open."
    assert what_would_decide([(few, 100.0)]) == ""
    assert "no number of images" in what_would_decide([(few, few.value)])
    assert Ratio(1.0, 0.9, 1.1, 20).images_to_decide(1.09) > Ratio(1.0, 0.9, 1.1, 20).images_to_decide(1.099)


@pytest.mark.parametrize(
    ("values", "expected"), [((True, True), True), ((True, None), None), ((None, False), False), ((), True)]
)
def test_rules_are_joined_without_guessing(values: tuple[bool | None, ...], expected: bool | None) -> None:
    assert all_of(values) is expected


def test_table_2_refutes_alike_attacks_when_they_differ_without_noise() -> None:
    def far_boundary(way: Way) -> tuple[float, float]:
        distance, queries = _as_published(way)
        return distance * (1 if isinstance(way.attack, PopSkipJump) else 2), queries

    assert EXPERIMENTS["table-2"].verdict(evidence_of(EXPERIMENTS["table-2"], far_boundary)).supported is False


def test_table_3_follows_the_queries_and_nothing_else() -> None:
    table = EXPERIMENTS["table-3"]
    assert table.verdict(evidence_of(table, _nothing_breaks, setup=UNCAPPED)).supported is True
    assert table.verdict(evidence_of(table, _nothing_breaks)).supported is None  # a short boundary attack

    def costly(way: Way) -> tuple[float, float]:
        distance, queries = _as_published(way)
        return distance, queries * (2 if isinstance(way.attack, PopSkipJump) else 1)

    assert table.verdict(evidence_of(table, costly)).supported is False


def test_a_missing_border_is_a_broken_attack() -> None:
    def lost(way: Way) -> tuple[float, float]:
        distance, queries = _as_published(way)
        return (np.inf if distance > 2 else distance), queries

    finding = EXPERIMENTS["table-1"].verdict(evidence_of(EXPERIMENTS["table-1"], lost))
    assert finding.supported is True
    assert "∞" in finding.sentence


@pytest.mark.parametrize("name", ["noise-level", "noise-level-complete", "noise-model"])
def test_noise_levels_support_refute_or_stay_open_under_a_cap(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.verdict(evidence_of(experiment, _as_published, setup=UNCAPPED)).supported is True
    assert experiment.verdict(evidence_of(experiment, _psj_breaks, setup=UNCAPPED)).supported is False
    capped = experiment.verdict(evidence_of(experiment, _psj_breaks))
    assert capped.supported is None
    assert "capped" in capped.sentence


def test_queries_that_fall_as_the_noise_grows_refute_convergence() -> None:
    experiment = EXPERIMENTS["noise-level"]
    levels = {noise: i for i, noise in enumerate(UNCAPPED.levels()["dropout"])}

    def falling(way: Way) -> tuple[float, float]:
        return 2.0, 13_000 if way.noise is None else 100_000 - 10_000 * levels[way.noise]

    assert experiment.verdict(evidence_of(experiment, falling, setup=UNCAPPED)).supported is False


def test_the_radius_must_not_matter() -> None:
    experiment = EXPERIMENTS["radius"]
    assert experiment.verdict(evidence_of(experiment, lambda way: (2.0, 13_000))).supported is True

    def grows(way: Way) -> tuple[float, float]:
        assert isinstance(way.attack, HopSkipJump)
        return 2.0 + (way.attack.radius or 0), 13_000

    finding = experiment.verdict(evidence_of(experiment, grows))
    assert finding.supported is False
    assert "Worse at β = 0.28, β = 1." in finding.sentence


def test_votes_support_refute_or_leave_open() -> None:
    experiment = EXPERIMENTS["votes-ratio"]

    def numbers(close_from: int, psj: int) -> Callable[[Way], tuple[float, float]]:
        def number(way: Way) -> tuple[float, float]:
            if isinstance(way.attack, PopSkipJump):
                return 2.0, psj
            return (2.0 if way.votes >= close_from else 3.0), 13_000 * way.votes

        return number

    assert experiment.verdict(evidence_of(experiment, numbers(9, 20_000))).supported is True
    assert experiment.verdict(evidence_of(experiment, numbers(1, 20_000))).supported is False
    never = experiment.verdict(evidence_of(experiment, numbers(99, 1_000_000)))
    assert never.supported is None
    assert "more than" in never.sentence
    assert experiment.verdict(evidence_of(experiment, numbers(99, 20_000))).supported is True
    assert "HSJ's radius 5.85" in experiment.reasons(evidence_of(experiment, numbers(9, 20_000)))[1]


def test_votes_that_may_or_may_not_come_as_close_decide_nothing() -> None:
    experiment = EXPERIMENTS["votes-ratio"]
    evidence = evidence_of(experiment, lambda way: (2.0 if isinstance(way.attack, PopSkipJump) else 3.0, 13_000.0))
    mixed = np.array([1.5, 2.5, 1.5, 2.5, 1.5])
    runs = {
        way: replace(run, border_distances=mixed) if isinstance(way.attack, HopSkipJump) and way.votes == 1 else run
        for way, run in evidence.runs.items()
    }
    assert experiment.verdict(replace(evidence, runs=runs)).supported is None


def test_the_sample_factor_must_help_by_iteration_and_not_by_query() -> None:
    experiment = EXPERIMENTS["sample-factor"]

    def factor(way: Way) -> float:
        assert isinstance(way.attack, HopSkipJump)
        return way.attack.count.factor

    helps = evidence_of(experiment, lambda way: (2 / (2 - 1 / factor(way)), 13_000 * factor(way)))
    assert experiment.verdict(helps).supported is True
    assert experiment.verdict(evidence_of(experiment, lambda way: (2.0, 13_000 * factor(way)))).supported is False


@pytest.mark.parametrize(("best", "supported"), [(1.8, True), (1.0, None)])
def test_the_white_box_verdict_follows_the_better_rival(best: float, supported: bool | None) -> None:
    experiment = EXPERIMENTS["white-box"]
    count = len(SETUP.size.levels.temperatures)
    measured = {"PGD": np.full((count, 5), best), "Brendel-Bethge": np.full((count, 5), 3.0)}
    assert experiment.verdict(evidence_of(experiment, lambda way: (2.0, 1.0), measured)).supported is supported


@pytest.mark.parametrize(("psj", "hsj", "supported"), [(0.1, 0.9, True), (0.9, 0.9, None)])
def test_the_accuracy_verdict_follows_the_area_under_the_curves(psj: float, hsj: float, supported: bool | None) -> None:
    experiment = EXPERIMENTS["adversarial-accuracy"]
    noises = ["none", *(noise for group in experiment.groups(SETUP) for noise in group if noise)]  # type: ignore[attr-defined]
    measured: dict[Any, Any] = {}
    for noise in noises:
        left = (0.1, 0.1) if noise == "none" else (psj, hsj)
        measured |= {f"psj {noise} clean": np.full(5, 0.95), f"psj {noise} point": np.full(5, left[0])}
        measured |= {f"hsj {noise} clean": np.full(5, 0.95), f"hsj {noise} point": np.full(5, left[1])}
    assert experiment.verdict(evidence_of(experiment, lambda way: (2.0, 1.0), measured)).supported is supported


@pytest.mark.parametrize(("shift", "supported"), [(0.0, True), (0.1, False)])
def test_the_cosine_verdict_allows_chance_and_nothing_more(shift: float, supported: bool) -> None:
    theory = analytic(784)
    error = np.full((len(BORDERS), len(COUNTS)), 0.004)
    measured = {"dimension": np.array(784), "clipped cosine": theory + shift, "clipped error": error}
    measured |= {"sigmoid cosine": theory, "sigmoid error": error}
    experiment = EXPERIMENTS["cosine"]
    assert experiment.verdict(evidence_of(experiment, lambda way: (1.0, 1.0), measured)).supported is supported


@pytest.mark.parametrize(("ragged", "supported"), [(0.0, True), (0.3, False)])
def test_the_sigmoid_verdict_counts_the_lines_that_fit(ragged: float, supported: bool) -> None:
    places = np.linspace(0, 1, 101)
    line = 1 / (1 + np.exp(-4 * 10 * (places - 0.4))) + ragged * np.sin(40 * places)
    lines = np.broadcast_to(line, (6, 5, 101))
    experiment = EXPERIMENTS["sigmoids"]
    evidence = evidence_of(experiment, lambda way: (1.0, 1.0), {"probability": lines})
    assert experiment.verdict(evidence).supported is supported


def _timed(
    names: list[str], search: dict[str, tuple[float, float]], distance: dict[str, float]
) -> dict[str, np.ndarray]:
    found: dict[Any, Any] = {}
    for name in names:
        asked, seconds = search[name]
        found |= {f"{name} search queries": np.full(3, asked), f"{name} search seconds": np.array(seconds)}
        found |= {f"{name} direction queries": np.full(3, 20_000), f"{name} direction seconds": np.array(1.0)}
        found |= {f"{name} border": np.full((33, 3), distance[name])}
    return found


def test_acceleration_must_save_time_and_keep_the_distance() -> None:
    experiment = EXPERIMENTS["acceleration"]
    names = list(VARIANTS)
    search = dict(zip(names, [(1000.0, 4.0), (1500.0, 2.0), (700.0, 3.0), (900.0, 1.0)], strict=True))
    good = _timed(names, search, dict.fromkeys(names, 2.0))
    assert experiment.verdict(evidence_of(experiment, lambda way: (1.0, 1.0), good)).supported is True
    worse = _timed(names, search, {**dict.fromkeys(names, 2.0), names[-1]: 3.0})
    assert experiment.verdict(evidence_of(experiment, lambda way: (1.0, 1.0), worse)).supported is False


@pytest.mark.parametrize(
    ("queries", "seconds", "supported"), [(150.0, 2.0, True), (1500.0, 2.0, False), (150.0, 0.5, False)]
)
def test_the_gradient_must_take_more_queries_and_less_time(queries: float, seconds: float, supported: bool) -> None:
    experiment = EXPERIMENTS["queries-and-time"]
    noises = [levels[-1] for levels in UNCAPPED.levels().values()]
    measured = _timed(noises, dict.fromkeys(noises, (queries, seconds)), dict.fromkeys(noises, 2.0))
    evidence = evidence_of(experiment, lambda way: (1.0, 1.0), measured, UNCAPPED)
    assert experiment.verdict(evidence).supported is supported


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("table-1", _as_published, {1: True, 2: True}),
        ("table-1", _psj_breaks, {1: True, 2: False}),
        ("table-1", _nothing_breaks, {1: True, 2: True}),
        ("table-3", _as_published, {3: True}),
        ("noise-level-complete", _as_published, {2: True, 3: True}),
        ("noise-level-complete", _psj_breaks, {2: False, 3: True}),
        ("noise-model", _as_published, {4: True}),
        ("noise-model", _psj_breaks, {4: False}),
        ("radius", _as_published, {}),
    ],
)
def test_an_experiment_says_what_it_found_of_each_claim_of_the_introduction(
    name: str, numbers: object, expected: dict[int, bool | None]
) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.claims(evidence_of(experiment, numbers, setup=UNCAPPED)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("numbers", [_as_published, _psj_breaks])
def test_a_handful_of_images_decides_nothing(numbers: Any) -> None:
    experiment = EXPERIMENTS["table-1"]
    finding, claims = judged(experiment, evidence_of(experiment, numbers, images=FEWEST - 1))
    assert finding.supported is None
    assert finding.sentence.endswith("Fewer than 5 images decide nothing.")
    assert claims == {1: None, 2: None}
    finding, claims = judged(experiment, evidence_of(experiment, numbers, images=FEWEST))
    assert finding.supported is (numbers is _as_published)
    assert None not in claims.values()


@pytest.mark.parametrize(("size", "decided"), [(QUICK, False), (DEFAULT, True)])
def test_what_is_timed_counts_its_own_images(size: Size, decided: bool) -> None:
    experiment = EXPERIMENTS["acceleration"]
    evidence = evidence_of(experiment, lambda way: (1.0, 1.0), setup=replace(SETUP, size=size))
    assert (min(experiment.sample(evidence)) >= FEWEST) is decided


@pytest.mark.parametrize("size", [QUICK, DEFAULT, PAPER])
def test_a_size_without_caps_has_the_limits_of_the_attack(size: Size) -> None:
    free = size.without_caps()
    assert not free.is_capped
    assert Setup("mnist", (1, 28, 28), free).psj("cropping:24").attack == PopSkipJump(iterations=32)
    assert (free == size) is (size is PAPER)
    assert replace(free, name=size.name, most_directions=1, most_searched=1) == replace(
        size, most_directions=1, most_searched=1
    )


def test_a_page_says_whose_limits_hold() -> None:
    experiment = EXPERIMENTS["noise-model"]
    assert "at most 1,000 directions" in experiment.notes(SETUP)[0]
    assert "its own limits: at most 50,000 directions" in experiment.notes(replace(SETUP, size=QUICK.without_caps()))[0]


def test_distances_compare_after_as_many_queries() -> None:
    psj = run_with(SETUP.psj("flip:0.1"), 2.0, 1_000)
    slow = run_with(SETUP.hsj("flip:0.1", votes=3), 1.8, 2_000)  # nearer at the end, for twice the queries
    last = int((slow.trace_queries[:, 0] <= 1_000).sum()) - 1
    assert farther_for_as_many(psj, slow).value == pytest.approx(2.0 / slow.trace_border[last, 0])
    assert farther_for_as_many(psj, slow).at_most(1.0)
    assert farther_for_as_many(psj, run_with(SETUP.hsj(), 1.8, 900)).value == pytest.approx(2.0 / 1.8)
    late = run_with(SETUP.hsj(), 1.8, 90_000)  # has not begun by then
    assert not np.isfinite(farther_for_as_many(psj, late).value)


def test_the_reasons_name_what_failed() -> None:
    experiment = EXPERIMENTS["noise-model"]

    def breaks(way: Way) -> tuple[float, float]:
        return (3.0 if way.noise == "cropping:27" else 2.0), 13_000

    words = experiment.reasons(evidence_of(experiment, breaks, setup=UNCAPPED))[4]
    assert words.endswith("above: cropping:27")
    assert "up to 1.1: logit:0.01, " in words
    table = EXPERIMENTS["table-1"]
    assert "1 [1, 1] (5%), 1 [1, 1] (10%)" in table.reasons(evidence_of(table, _as_published))[2]
    assert set(EXPERIMENTS["noise-level"].reasons(evidence_of(EXPERIMENTS["noise-level"], _as_published))) == {2}
    assert "1.02 times HSJ" in EXPERIMENTS["table-3"].reasons(evidence_of(EXPERIMENTS["table-3"], _as_published))[3]


WITH_RUNS = ["table-1", "table-2", "table-3", "noise-level", "noise-level-complete", "votes-ratio"]


@pytest.mark.parametrize("name", [*WITH_RUNS, "radius", "sample-factor"])
def test_every_figure_has_one_line_that_says_what_it_shows(name: str) -> None:
    experiment = EXPERIMENTS[name]
    kept, broken = (experiment.headline(evidence_of(experiment, numbers)) for numbers in (_as_published, _far_hsj))
    assert kept
    assert "\n" not in kept
    assert len(kept) < 200
    assert kept != broken


def _far_hsj(way: Way) -> tuple[float, float]:
    """HSJ's distance grows with its radius, its directions and its noise; PSJ and QSJ keep theirs."""
    if not isinstance(way.attack, HopSkipJump):
        return 2.0, 20_000 if way.noise else 13_000
    return 2.0 + (way.attack.radius or 0.0) + 0.1 * way.attack.count.factor + bool(way.noise), 12_000 * way.votes


@pytest.mark.parametrize("name", WITH_RUNS)
def test_our_own_attack_stands_beside_psj_and_decides_no_claim(name: str) -> None:
    experiment = EXPERIMENTS[name]

    def numbers(way: Way, quick: float) -> tuple[float, float]:
        return (quick, 4_000) if isinstance(way.attack, QuickSkipJump) else _as_published(way)

    near, far = (evidence_of(experiment, partial(numbers, quick=quick)) for quick in (1.0, 40.0))
    assert "0.5 [0.5, 0.5] times PSJ's final distance" in experiment.ours(near)
    assert "20 [20, 20] times PSJ's final distance" in experiment.ours(far)
    assert experiment.verdict(near) == experiment.verdict(far)
