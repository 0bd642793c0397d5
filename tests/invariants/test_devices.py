"""The same code on any device: nothing is mixed up, and nothing is waited for between the queries."""

from __future__ import annotations

import pytest
import torch
from invariant_toys import ATTACKS, SHAPE, Linear, images_of, parts
from pretended_device import ELSEWHERE, Elsewhere
from torch import Tensor

from popskipjump import Classifier, evaluate
from popskipjump.attacks import Problem
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.monte_carlo import LineSpread, MonteCarlo
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.evaluation import Report
from popskipjump.geometry import L2
from popskipjump.noise import Flip
from popskipjump.oracles import Counted, Ledger, Ticket, Untargeted
from popskipjump.rng import Key
from popskipjump.types import Bounds

IMAGES = 5


def linear(device: torch.device) -> Linear:
    model = Linear()
    model.device = device
    model.weights, model.offset = model.weights.to(device), model.offset.to(device)
    return model


class Answers:
    """An oracle on a device, without a white box."""

    def __init__(self, device: torch.device, flip: float) -> None:
        self.oracle = Classifier(linear(device), Flip(flip) if flip else None)
        self.device = device

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        return self.oracle.ask(points, ticket)


def problem_on(device: torch.device, flip: float = 0.0) -> Problem:
    images = images_of(IMAGES)
    truth = Linear().labels(images).to(device)
    ledger = Ledger(IMAGES)
    return Problem(
        original=images.flatten(1).to(device),
        shape=SHAPE,
        image_id=torch.arange(IMAGES),
        bounds=Bounds(0.0, 1.0),
        norm=L2,
        key=Key(3),
        criterion=Untargeted(truth),
        oracle=Counted(Answers(device, flip), ledger, torch.arange(IMAGES)),
        ledger=ledger,
    )


def outer_of(problem: Problem) -> torch.Tensor:
    return 1 - problem.original


@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "psj-true-gradient"])
def test_an_attack_on_another_device_gives_the_same_report(attack: str) -> None:
    images = images_of(3)
    labels = Linear().labels(images)

    def run(device: torch.device) -> Report:
        oracle = Answers(device, 0.1)
        return evaluate(oracle, images, labels, ATTACKS[attack], iterations=2, verdict=10)

    here = run(torch.device("cpu"))
    with Elsewhere() as carried:
        there = run(ELSEWHERE)
    assert parts(there) == parts(here)
    assert carried.up > 0 < carried.down


@pytest.mark.parametrize("flip", [0.0, 0.1])
@pytest.mark.parametrize("base", [50.0, 5000.0], ids=["50 directions", "5000 directions"])
def test_a_direction_waits_for_the_device_not_once(base: float, flip: float) -> None:
    with Elsewhere() as carried:
        problem = problem_on(ELSEWHERE, flip)
        border, _ = BayesianSearch()(problem, torch.arange(IMAGES), outer_of(problem), None, 0, None, ())
        asked, before = int(problem.ledger.total.sum()), carried.down
        direction = MonteCarlo(DirectionCount(base), LineSpread(0.01), baseline=True)
        found, _ = direction(problem, border, 1, ())
        assert int(problem.ledger.total.sum()) >= asked + IMAGES * base * 0.9
        assert carried.down == before
        assert float(found.abs().sum()) > 0


def test_a_search_waits_for_the_device_once_a_step_whatever_the_number_of_images() -> None:
    with Elsewhere() as carried:
        problem = problem_on(ELSEWHERE)
        searches = {}
        problem.decide(outer_of(problem)[:1], torch.arange(1), "start")  # the first answer is looked at
        for count in (1, IMAGES):
            before = carried.down
            search = BayesianSearch(limit=20, check_every=21)  # no image leaves before the others
            search(problem, torch.arange(count), outer_of(problem)[:count], None, 0, None, ())
            searches[count] = carried.down - before
        assert searches[1] == searches[IMAGES]
        assert searches[IMAGES] <= 20 + 6  # those of leaving and of the result
