from __future__ import annotations

import numpy as np
import pytest
import torch
from attack_toys import problem_of

from popskipjump import Plane, evaluate
from popskipjump.attacks.parts.balance import Balance
from popskipjump.rng import Key, normal, uniform

ALL = torch.ones(1, dtype=torch.bool)
ROWS = torch.arange(1)


def balance(shift: float = 0.0, gain: float = 1.0, imbalance: float = 0.0) -> Balance:
    return Balance(*(torch.tensor([value], dtype=torch.float64) for value in (shift, gain, imbalance)))


def after(start: Balance, *imbalances: float, rate: float = 0.7) -> Balance:
    for imbalance in imbalances:
        start = start.corrected(torch.tensor([imbalance], dtype=torch.float64), ALL, rate)
    return start


def settled(half_width: float, centre: float, answers: int = 20, steps: int = 40) -> list[float]:
    """The share of adversarial answers, step by step, where it is a steep function of the shift."""
    now, shares = balance(), []
    for _ in range(steps):
        share = float(np.clip(0.5 + (float(now.shift) - centre) / (2 * half_width), 0, 1))
        seen = torch.tensor([(round(share * answers) + 0.5) / (answers + 1)], dtype=torch.float64)
        shares.append(share)
        now = now.corrected(torch.special.ndtri(seen), ALL, 0.7)
    return shares


def test_too_many_adversarial_answers_move_the_centre_inward_and_too_few_outward():
    assert float(after(balance(), 0.5).shift) == pytest.approx(-0.35)
    assert float(after(balance(), -0.5).shift) == pytest.approx(0.35)


def test_a_jump_from_one_side_to_the_other_halves_the_steps():
    assert float(after(balance(), 1.9, -1.9).gain) == 0.5
    assert float(after(balance(), 1.9, -1.9, 1.9).gain) == 0.25


def test_steps_grow_again_while_the_balance_stays_on_one_side_but_not_beyond_their_length():
    assert float(after(balance(gain=0.1, imbalance=1.9), 1.9).gain) == pytest.approx(0.15)
    assert float(after(balance(imbalance=1.9), 1.9, 1.9).gain) == 1.0


def test_answers_that_are_nearly_balanced_leave_the_length_of_the_steps_alone():
    assert float(after(balance(gain=0.3), 0.4, -0.4, 0.4).gain) == pytest.approx(0.3)


def test_images_that_were_not_asked_stay_as_they_are():
    now = balance(0.7, 0.5, 1.9).corrected(torch.tensor([-1.9], dtype=torch.float64), ~ALL, 0.7)
    assert [float(value) for value in now] == [0.7, 0.5, 1.9]


def test_without_a_rate_the_centre_stays_on_the_border():
    assert [float(value) for value in after(balance(), 1.9, -1.9, rate=0.0)] == [0.0, 1.0, -1.9]


@pytest.mark.parametrize("half_width", [1.0, 0.1, 0.03])
@pytest.mark.parametrize("centre", [0.0, 0.25, -1.3])
def test_a_balance_is_found_however_small_the_shift_that_upsets_it(half_width, centre):
    assert all(0.05 < share < 0.95 for share in settled(half_width, centre)[-10:])


def test_directions_that_no_shift_can_balance_become_shorter_and_recover_later():
    problem = problem_of(Plane(torch.ones(4), 3.0), torch.full((1, 4), 0.5))
    balance(3.0, 1.0, 1.9).note(problem, ROWS)
    assert float(problem.notes.read("scale", ROWS, 1.0)) == pytest.approx(0.4)
    assert float(problem.notes.read("shift", ROWS, 9.0)) == 0
    balance(1.0, 1.0, 0.2).note(problem, ROWS)
    assert float(problem.notes.read("scale", ROWS, 1.0)) == pytest.approx(0.46)


def test_what_is_noted_is_remembered():
    problem = problem_of(Plane(torch.ones(4), 3.0), torch.full((1, 4), 0.5))
    assert [float(value) for value in Balance.remembered(problem, ROWS)] == [0.0, 1.0, 0.0]
    balance(0.5, 0.25, -0.5).note(problem, ROWS)
    assert [float(value) for value in Balance.remembered(problem, ROWS)] == [0.5, 0.25, -0.5]


@pytest.mark.parametrize("noise", [None, "flip:0.1"])
@pytest.mark.parametrize(("dimension", "budget"), [(3, 1000), (16, 2000), (100, 4000)])
def test_an_attack_goes_on_to_the_nearest_point_of_a_plane(dimension, budget, noise):
    """Where all answers of most iterations were equal, it stayed 1% away for ever."""
    unit = normal(Key(5).root(), dimension)[0]
    plane = Plane(unit, float(unit.sum() / 2 + 0.15 * unit.norm()))
    images = 0.4 + 0.2 * uniform(Key(6).roots(torch.arange(6)), dimension)
    report = evaluate(plane, images, plane.labels(images), "qsj", noise, budget=budget, verdict=0)
    assert float(np.median(report.border_distances / plane.distance(images).numpy())) < 1.004
