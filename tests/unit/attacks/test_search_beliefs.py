from __future__ import annotations

import math

import pytest
import torch
from attack_toys import found_by, problem_of, unit
from present import present

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.searches import beliefs as module
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.attacks.searches.beliefs import AnswerCache, Beliefs, is_sharp, precompute_sharp
from popskipjump.oracles import PlanarSigmoid, Plane
from popskipjump.rng import Key, uniform
from popskipjump.sigmoid import Grid, SigmoidPosterior

SMALL = BayesianSearch(grid=Grid(positions=21))


def search(config: BayesianSearch, problem: Problem, heights_seed: int, images: int) -> Border:
    """A search on lines of length 1, one after the other in the same run."""
    outer = (1 + uniform(Key(heights_seed).roots(torch.arange(images)), 1)) * unit(2)
    return found_by(config, problem, outer, iteration=1)


def run(config: BayesianSearch, images: int, floor: float, searches: int = 4) -> list[Border]:
    plane = Plane(unit(2), 0.5)
    problem = problem_of(plane, torch.zeros(images, 2), noise=PlanarSigmoid(plane, math.inf, floor))
    return [search(config, problem, seed, images) for seed in range(searches)]


def same(one: Border, other: Border) -> bool:
    """Whether two borders are equal to the last digit."""
    pairs = [
        (getattr(one, name), getattr(other, name))
        for name in ("position", "safe", "deviation", "sample_ratio", "searched", "probes")
    ]
    return all(
        torch.equal(a, b) for a, b in [*pairs, *zip(present(one.estimate), present(other.estimate), strict=True)]
    )


BY_SIZE = BayesianSearch(grid=Grid(positions=11, slopes=4), spread=0.1, acquisition="sample-size", estimate="map")


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize(("config", "images", "searches"), [(SMALL, 1, 4), (SMALL, 30, 4), (BY_SIZE, 3, 2)])
def test_what_is_cached_changes_no_digit(
    monkeypatch: pytest.MonkeyPatch, config: BayesianSearch, images: int, searches: int, floor: float
) -> None:
    walked = run(config, images, floor, searches)
    monkeypatch.setattr(module, "_MOST_KEPT", 0)  # nothing is ever cached
    assert all(same(a, b) for a, b in zip(walked, run(config, images, floor, searches), strict=True))


def test_a_cache_that_is_full_half_way_changes_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = run(SMALL, 5, 0.1)
    monkeypatch.setattr(module, "_MOST_KEPT", 25)
    assert all(same(a, b) for a, b in zip(walked, run(SMALL, 5, 0.1), strict=True))


def test_a_precomputed_search_needs_no_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = AnswerCache()
    precompute_sharp(SMALL.inference, cache)
    monkeypatch.setattr(SigmoidPosterior, "update", lambda *_: pytest.fail("a posterior was updated"))
    beliefs = Beliefs(SMALL.inference, None, 2, cache)
    for _ in range(30):
        places = beliefs.places()
        beliefs.learn(places, [places[0] < 4, places[1] < 15])
    assert [round(20 * summary.centre) for summary in beliefs.summaries()] == [4, 15]


def test_images_that_leave_take_their_posterior_along() -> None:
    alone, together = (Beliefs(SMALL.inference, None, images, AnswerCache()) for images in (1, 3))
    for step in range(12):
        for beliefs, images in ((alone, [2]), (together, [0, 1, 2] if step < 6 else [2])):
            places = beliefs.places()
            beliefs.learn(places, [(step * image) % 3 == 0 for image in images])
        if step == 5:
            together.select([2])
    assert alone.summaries() == together.summaries()
    assert alone.outcomes([0]) == together.outcomes([0])


def test_beliefs_from_priors_of_their_own_are_not_cached() -> None:
    cache = AnswerCache()
    beliefs = Beliefs(SMALL.inference, SigmoidPosterior.uniform(SMALL.grid, 2), 2, cache)
    beliefs.learn(beliefs.places(), [True, False])
    beliefs.summaries()
    beliefs.outcomes([0, 1])
    assert [cache.queries, cache.summaries, cache.outcomes] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("asked", "yes", "sharp"),
    [([1, 1, 0, 2], [1, 1, 0, 0], True), ([1, 1, 0, 2], [1, 0, 0, 1], False), ([0, 2, 0, 0], [0, 1, 0, 0], False)],
)
def test_answers_without_noise_are_told(asked: list[int], yes: list[int], sharp: bool) -> None:
    assert is_sharp(torch.tensor([[asked, yes]])) is sharp
