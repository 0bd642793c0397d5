from __future__ import annotations

import math

import pytest
import torch
from attack_toys import problem_of, unit

from popskipjump.attacks.parts import knowledge as module
from popskipjump.attacks.parts.knowledge import Knowledge, Memory, foresee, is_sharp
from popskipjump.attacks.parts.locate import BayesianSearch
from popskipjump.oracles import PlanarSigmoid, Plane
from popskipjump.sigmoid import Grid, SigmoidPosterior

SMALL = BayesianSearch(grid=Grid(positions=21))


def search(config, problem, heights_seed, images):
    """A search on lines of length 1, one after the other in the same run."""
    generator = torch.Generator().manual_seed(heights_seed)
    outer = (1 + torch.rand(images, 1, generator=generator)) * unit(2)
    return config(problem, torch.arange(images), outer, 1, None)


def run(config, images, floor, searches=4):
    plane = Plane(unit(2), 0.5)
    problem = problem_of(plane, torch.zeros(images, 2), noise=PlanarSigmoid(plane, math.inf, floor))
    return [search(config, problem, seed, images) for seed in range(searches)]


def same(one, other):
    """Whether two borders are equal to the last digit."""
    pairs = [
        (getattr(one, name), getattr(other, name)) for name in ("position", "safe", "effort", "searched", "probes")
    ]
    return all(torch.equal(a, b) for a, b in [*pairs, *zip(one.estimate, other.estimate, strict=True)])


@pytest.mark.parametrize("images", [1, 3, 30])
@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("config", [SMALL, BayesianSearch(grid=SMALL.grid, acquisition="sample-size", estimate="map")])
def test_what_is_known_changes_no_digit(monkeypatch, config, floor, images):
    searches = 4 if config is SMALL else 2
    walked = run(config, images, floor, searches)
    monkeypatch.setattr(module, "_MOST_KEPT", 0)  # nothing is ever known
    assert all(same(a, b) for a, b in zip(walked, run(config, images, floor, searches), strict=True))


def test_a_memory_that_is_full_half_way_changes_no_digit(monkeypatch):
    walked = run(SMALL, 5, 0.1)
    monkeypatch.setattr(module, "_MOST_KEPT", 25)
    assert all(same(a, b) for a, b in zip(walked, run(SMALL, 5, 0.1), strict=True))


def test_what_was_foreseen_needs_no_posterior(monkeypatch):
    memory = Memory()
    foresee(SMALL, memory)
    monkeypatch.setattr(module.SigmoidPosterior, "update", lambda *_: pytest.fail("a posterior was updated"))
    knowledge = Knowledge(SMALL, None, 2, memory)
    for _ in range(30):
        places = knowledge.places()
        knowledge.learn(places, [places[0] < 4, places[1] < 15])
    assert [round(20 * look.centre) for look in knowledge.looks()] == [4, 15]


def test_images_that_leave_take_their_posterior_along():
    alone, together = Knowledge(SMALL, None, 1, Memory()), Knowledge(SMALL, None, 3, Memory())
    for step in range(12):
        for knowledge, images in ((alone, [2]), (together, [0, 1, 2] if step < 6 else [2])):
            places = knowledge.places()
            knowledge.learn(places, [(step * image) % 3 == 0 for image in images])
        if step == 5:
            together.select([2])
    assert alone.looks() == together.looks()
    assert alone.ends([0]) == together.ends([0])


def test_priors_of_their_own_are_not_written_down():
    memory = Memory()
    knowledge = Knowledge(SMALL, SigmoidPosterior.uniform(SMALL.grid, 2), 2, memory)
    knowledge.learn(knowledge.places(), [True, False])
    knowledge.looks()
    assert not memory.questions
    assert not memory.looks


@pytest.mark.parametrize(
    ("asked", "yes", "sharp"),
    [([1, 1, 0, 2], [1, 1, 0, 0], True), ([1, 1, 0, 2], [1, 0, 0, 1], False), ([0, 2, 0, 0], [0, 1, 0, 0], False)],
)
def test_answers_without_noise_are_told(asked, yes, sharp):
    assert is_sharp(torch.tensor([[asked, yes]])) is sharp
