"""The rules that decide sentences of the paper, on numbers made up for each verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from present import present
from reproduce_toys import SETUP, run_with

from popskipjump import HopSkipJump
from popskipjump.errors import InputError
from popskipjump.experiments.reproduce import DECIDE, EXPERIMENTS, Evidence, Setup
from popskipjump.experiments.reproduce.base import Ask, Way
from popskipjump.experiments.reproduce.caps import wider
from popskipjump.experiments.reproduce.claims import CLAIMS, Claim, Comparison, Verdict, judge, verdict_on
from popskipjump.experiments.reproduce.claims.rules import POWER
from popskipjump.experiments.reproduce.claims.statistics import at_least, at_most, middle, price_of_votes, reached
from popskipjump.runs.data import RunData

BY_NAME = {claim.name: claim for claim in CLAIMS}
IMAGES = 40
MEASURED = {"adversarial-accuracy", "noise-model", "white-box", "sigmoids", "queries-and-time", "acceleration"}
UNCAPPED = replace(SETUP, size=SETUP.size.without_caps())
NOISE = np.random.default_rng(3).lognormal(0, 0.3, 1600)


def _run(way: Way, number: Any) -> RunData:
    distance, queries = number(way)
    return run_with(way, distance, queries, IMAGES)


def evidence_for(name: str, number: Any, measured: Any = None, setup: Any = SETUP) -> Evidence:
    """The runs that decide a claim, each way with the (distance, queries) of `number`."""
    claim = BY_NAME[name]
    asks: list[Ask] = claim.asks(setup) if claim.asks else EXPERIMENTS[claim.experiment].plan(setup)
    return Evidence(setup, {a.way: _run(a.way, number) for a in asks}, measured or {})


def decided(name: str, number: Any, measured: Any = None, setup: Any = SETUP) -> Verdict:
    return verdict_on(BY_NAME[name], evidence_for(name, number, measured, setup)).verdict


# The engine


def test_a_statistic_clearly_on_the_claimed_side_supports_the_claim() -> None:
    assert judge(at_most("x", NOISE, 2 * NOISE, 0.9)).verdict is Verdict.SUPPORTED
    assert judge(at_least("x", 2 * NOISE, NOISE, 1.1)).verdict is Verdict.SUPPORTED


def test_a_statistic_clearly_on_the_other_side_refutes_it() -> None:
    assert judge(at_most("x", 2 * NOISE, NOISE, 1.1)).verdict is Verdict.NOT_SUPPORTED
    assert judge(at_least("x", NOISE, 2 * NOISE, 1.1)).verdict is Verdict.NOT_SUPPORTED


def test_an_open_test_says_how_many_images_would_decide() -> None:
    near = Comparison("x", 30, lambda images: float(NOISE[images].mean() - NOISE[:30].mean()), -0.02)
    outcome = judge(near)
    assert outcome.verdict is Verdict.UNDECIDED
    assert outcome.needed == math.ceil(POWER * 30 * (outcome.low / 0.02) ** 2)


def test_as_many_images_as_were_asked_for_decide() -> None:
    def about(count: int) -> Comparison:
        return at_most("x", 1.12 * NOISE[:count], np.roll(NOISE[:count], 1), 1.0)

    few = judge(about(30))
    assert few.verdict is Verdict.UNDECIDED
    assert few.needed is not None
    assert judge(about(2 * few.needed)).verdict is Verdict.NOT_SUPPORTED  # twice: the first 30 gave but an estimate


def test_a_statistic_on_its_limit_is_decided_by_no_number_of_images() -> None:
    outcome = judge(Comparison("x", 40, lambda images: 1.0 + 1e-9 * float(images.mean() - 19.5), 1.0))
    assert outcome.verdict is Verdict.UNDECIDED
    assert outcome.needed is None


def test_few_images_decide_nothing() -> None:
    assert judge(at_most("x", NOISE[:19], 5 * NOISE[:19], 1.0)).verdict is Verdict.UNDECIDED


def test_one_of_many_tests_refutes_only_at_its_share_of_the_error() -> None:
    alone = Comparison("x", 100, lambda images: 1.0 + float(NOISE[images].mean() - NOISE[:100].mean()), 0.93)
    assert judge(alone, 1).verdict is Verdict.NOT_SUPPORTED
    assert judge(alone, 50).verdict is Verdict.UNDECIDED


def test_equal_medians_are_rarely_decided() -> None:
    """At a limit of 1 either verdict is a chance of 2.5%: 14 or more of 40 at 5% have a probability below 1e-8."""
    values = np.random.default_rng(5).lognormal(0, 0.3, (40, 2, 60))
    found = [judge(at_most("x", a, b, 1.0)).verdict for a, b in values]
    assert sum(verdict is not Verdict.UNDECIDED for verdict in found) < 14


def test_what_cannot_be_told_is_undecided() -> None:
    outcome = judge(Comparison("x", 30, lambda images: math.nan, 1.0))
    assert (outcome.verdict, outcome.needed) == (Verdict.UNDECIDED, None)


def test_a_median_may_be_infinite() -> None:
    assert middle(np.array([1.0, math.inf, math.inf])) == math.inf
    assert middle(np.array([1.0, 2.0, math.inf])) == 2.0


def test_a_distance_after_as_many_queries_is_that_of_the_last_iteration_paid_for() -> None:
    run = run_with(Way(SETUP.psj().attack), 2.0, 3300, images=3)
    assert reached(run, np.array([0, 100, 10_000])).tolist() == [math.inf, 4.0, 2.0]


def test_votes_that_never_come_as_close_give_a_bound_that_helps_only_above_the_limit() -> None:
    psj = run_with(SETUP.psj(), 1.0, 1000, IMAGES)
    tried = [run_with(SETUP.hsj(votes=votes), 2.0, 1000 * votes, IMAGES) for votes in (1, 9)]
    everyone = np.arange(IMAGES)
    assert price_of_votes(psj, tried, 2.0)(everyone) == 9.0
    assert math.isnan(price_of_votes(psj, tried, 100.0)(everyone))
    enough = [*tried, run_with(SETUP.hsj(votes=27), 1.0, 27_000, IMAGES)]
    assert price_of_votes(psj, enough, 100.0)(everyone) == 27.0


def test_a_claim_needs_an_experiment_or_runs_of_its_own() -> None:
    with pytest.raises(InputError, match="must name an experiment"):
        Claim("x", "", "", "", "", "", lambda evidence: [])


# The list


def test_there_are_at_least_twelve_sentences_each_with_its_words() -> None:
    assert len(CLAIMS) >= 12
    assert len(BY_NAME) == len(CLAIMS)
    for claim in CLAIMS:
        assert all((claim.quote, claim.place, claim.statistic, claim.rule))
        assert claim.experiment in {"", *EXPERIMENTS}


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.experiment not in MEASURED], ids=lambda c: c.name)
def test_every_claim_on_runs_alone_can_be_judged(claim: Claim) -> None:
    evidence = evidence_for(claim.name, lambda way: (2.0, 1000 * way.votes))
    judged = verdict_on(claim, evidence)
    assert judged.outcomes
    assert judged.words


def flips(psj: float, hsj: float, votes: float, noisy_queries: int = 1300) -> Callable[..., Any]:
    """Distances under flips; 2 without."""

    def number(way: Way) -> tuple[float, float]:
        kind = type(way.attack).__name__
        queries = 1000 * way.votes
        if way.noise is None:
            return 2.0, queries
        if kind == "PopSkipJump":
            return psj, noisy_queries
        return (votes if way.votes > 1 else hsj), queries

    return number


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("hsj-breaks", flips(2.0, 4.0, 2.4), Verdict.SUPPORTED),
        ("hsj-breaks", flips(2.0, 2.6, 2.4), Verdict.NOT_SUPPORTED),
        ("votes-break", flips(2.0, 4.0, 2.4), Verdict.SUPPORTED),
        ("votes-break", flips(2.0, 4.0, 2.1), Verdict.NOT_SUPPORTED),
        ("psj-unaffected", flips(2.1, 4.0, 2.4), Verdict.SUPPORTED),
        ("psj-unaffected", flips(2.3, 4.0, 2.4), Verdict.NOT_SUPPORTED),
        ("almost-the-same-queries", flips(2.0, 4.0, 2.4), Verdict.SUPPORTED),
        ("almost-the-same-queries", flips(2.0, 4.0, 2.4, 1600), Verdict.NOT_SUPPORTED),
        ("outperforms-votes", flips(2.0, 4.0, 2.4), Verdict.SUPPORTED),
        ("outperforms-votes", flips(9.0, 4.0, 2.4), Verdict.NOT_SUPPORTED),
        ("alike-without-noise", flips(2.0, 4.0, 2.4), Verdict.SUPPORTED),
        ("boundary-attack-breaks", flips(2.0, 4.0, 4.0), Verdict.SUPPORTED),
    ],
)
def test_the_tables_sentences_follow_their_limits(name: str, number: Any, expected: Any) -> None:
    assert decided(name, number) is expected


def radius_of(way: Way) -> float:
    assert isinstance(way.attack, HopSkipJump)
    return present(way.attack.radius)


def noises_of(experiment: str, setup: Setup) -> list[str]:
    found: Any = EXPERIMENTS[experiment]
    return list(found.noises(setup))


def test_a_radius_that_costs_a_fifth_refutes_independence() -> None:
    radii = [radius_of(way) for way in evidence_for("radius", lambda way: (2.0, 100)).runs]
    assert decided("radius", lambda way: (2.4 if radius_of(way) == max(radii) else 2.0, 100)) is Verdict.NOT_SUPPORTED
    assert decided("radius", lambda way: (2.0, 100)) is Verdict.SUPPORTED


def test_a_no_with_capped_queries_is_undecided() -> None:
    number = lambda way: (2.0 if way.noise is None else 4.0, 1000 if way.noise is None else 5000)  # noqa: E731
    capped = verdict_on(BY_NAME["on-par-by-iteration"], evidence_for("on-par-by-iteration", number))
    assert (capped.verdict, capped.capped) == (Verdict.UNDECIDED, True)
    assert "capped" in capped.words
    assert decided("on-par-by-iteration", number, setup=UNCAPPED) is Verdict.NOT_SUPPORTED


def test_cropping_may_fail_on_the_base_network_and_pass_by_the_majority() -> None:
    noises = [noise for levels in UNCAPPED.levels().values() for noise in levels]
    number = lambda way: (3.0 if way.noise and way.noise.startswith("crop") else 2.0, 1000)  # noqa: E731
    measured = {noise: np.full(IMAGES, 2.2) for noise in noises}
    assert decided("same-under-every-model", number, measured, UNCAPPED) is Verdict.NOT_SUPPORTED
    assert decided("same-by-the-majority", number, measured, UNCAPPED) is Verdict.SUPPORTED
    assert decided("defences-do-not-help", number, measured, UNCAPPED) is Verdict.NOT_SUPPORTED


def accuracy_of(points: dict[str, float], clean: dict[str, float]) -> dict[str, np.ndarray]:
    """Probabilities of the true class, the same on every image."""
    noises = ["none", *noises_of("adversarial-accuracy", SETUP)[1:]]
    found = {}
    for noise in noises:
        for attack in ("psj", "hsj"):
            found[f"{attack} {noise} clean"] = np.full(IMAGES, clean.get(noise, 1.0))
            found[f"{attack} {noise} point"] = np.full(IMAGES, points[attack])
    return found


def test_the_sentences_on_accuracy_follow_their_limits() -> None:
    near = lambda way: (2.0 if type(way.attack).__name__ == "PopSkipJump" or way.noise is None else 4.0, 100)  # noqa: E731
    equal = accuracy_of({"psj": 0.3, "hsj": 0.3}, {})
    lost = accuracy_of({"psj": 0.3, "hsj": 0.3}, {"cropping:22": 0.9})
    assert decided("accuracy-below", near, equal) is Verdict.SUPPORTED
    assert decided("accuracy-below", lambda way: (2.0, 100), equal, UNCAPPED) is Verdict.NOT_SUPPORTED
    assert decided("accuracy-coincides", near, equal) is Verdict.SUPPORTED
    assert decided("accuracy-offsets", near, equal) is Verdict.NOT_SUPPORTED
    assert decided("accuracy-offsets", near, lost) is Verdict.SUPPORTED


def test_the_sentences_on_queries_and_tricks_follow_their_limits() -> None:
    noises = noises_of("queries-and-time", UNCAPPED)
    parts = {"search": 10, "direction": 2000}
    measured = {f"{n} {part} queries": np.full(IMAGES, value) for n in noises for part, value in parts.items()}
    evidence = Evidence(UNCAPPED, {}, measured)
    assert verdict_on(BY_NAME["gradient-takes-more-queries"], evidence).verdict is Verdict.SUPPORTED
    asked = {"no trick": 100, "(1) 5 queries a step": 130, "(2) narrow priors": 120}
    tricks = Evidence(SETUP, {}, {f"{name} search queries": np.full(IMAGES, value) for name, value in asked.items()})
    assert verdict_on(BY_NAME["trick-1"], tricks).verdict is Verdict.SUPPORTED
    assert verdict_on(BY_NAME["trick-2"], tricks).verdict is Verdict.NOT_SUPPORTED


def test_votes_are_judged_by_what_they_cost() -> None:
    def number(votes_needed: int, way: Way) -> tuple[float, float]:
        if type(way.attack).__name__ == "PopSkipJump":
            return 2.0, 1000
        return (2.0 if way.votes >= votes_needed else 5.0), 1000 * way.votes

    assert decided("much-fewer-queries-than-votes", partial(number, 9)) is Verdict.SUPPORTED
    assert decided("much-fewer-queries-than-votes", partial(number, 1), setup=UNCAPPED) is Verdict.NOT_SUPPORTED
    assert decided("orders-of-magnitude", partial(number, 9), setup=UNCAPPED) is Verdict.NOT_SUPPORTED
    assert decided("orders-of-magnitude", partial(number, 27), setup=UNCAPPED) is Verdict.UNDECIDED  # 9 were tried


# Caps on the queries, and their check

CHECKED = replace(SETUP, size=replace(DECIDE, cap_images=20))


def under_cropping(capped: float, wide: float) -> Callable[[Way], tuple[float, float]]:
    """PSJ at a distance of 2, but under cropping `capped`, or `wide` with wider caps."""

    def number(way: Way) -> tuple[float, float]:
        if way == setup_wider:
            return wide, 40_000
        return (capped if way == CHECKED.psj("cropping:22") else 2.0), 10_000

    setup_wider = wider(CHECKED, "cropping:22")
    return number


@pytest.mark.parametrize(
    ("capped", "wide", "expected"),
    [
        (5.0, 4.9, Verdict.NOT_SUPPORTED),  # more queries hardly help: too far whatever the caps
        (5.0, 2.0, Verdict.UNDECIDED),  # more queries would have come as near
        (2.1, 2.1, Verdict.SUPPORTED),
    ],
)
def test_a_distance_under_caps_refutes_only_if_wider_caps_do_not_help(
    capped: float, wide: float, expected: Any
) -> None:
    number = under_cropping(capped, wide)
    assert decided("same-under-every-model", number, setup=CHECKED) is expected
    claims = EXPERIMENTS["noise-model"].claims(evidence_for("same-under-every-model", number, setup=CHECKED))
    assert claims[4] is {Verdict.NOT_SUPPORTED: False, Verdict.UNDECIDED: None, Verdict.SUPPORTED: True}[expected]


def test_without_a_check_a_no_under_caps_stays_undecided() -> None:
    unchecked = replace(CHECKED, size=replace(DECIDE, cap_images=0))
    assert decided("same-under-every-model", under_cropping(5.0, 4.9), setup=unchecked) is Verdict.UNDECIDED
    few = at_most("x", 2 * NOISE[:40], NOISE[:40], 1.0)._replace(relief=(NOISE[:19], NOISE[:19]))
    assert not judge(few).stands
    assert judge(few._replace(relief=(NOISE[:20], NOISE[:20]))).stands
