from __future__ import annotations

import numpy as np
import pytest
import torch

from popskipjump import Plane, evaluate
from popskipjump.attacks.directions.adaptive.centring import CentreShift
from popskipjump.rng import Key, normal, uniform

ALL = torch.ones(1, dtype=torch.bool)


def centre(shift: float = 0.0, gain: float = 1.0, imbalance: float = 0.0, scale: float = 1.0) -> CentreShift:
    return CentreShift(*(torch.tensor([value], dtype=torch.float64) for value in (shift, gain, imbalance, scale)))


def after(start: CentreShift, *imbalances: float, rate: float = 0.7) -> CentreShift:
    for imbalance in imbalances:
        start = start.corrected(torch.tensor([imbalance], dtype=torch.float64), ALL, rate)
    return start


def settled(half_width: float, balanced: float, answers: int = 20, steps: int = 40) -> list[float]:
    """The share of adversarial answers, step by step, where it is a steep function of the shift."""
    now, shares = centre(), []
    for _ in range(steps):
        share = float(np.clip(0.5 + (float(now.shift) - balanced) / (2 * half_width), 0, 1))
        seen = torch.tensor([(round(share * answers) + 0.5) / (answers + 1)], dtype=torch.float64)
        shares.append(share)
        now = now.corrected(torch.special.ndtri(seen), ALL, 0.7)
    return shares


def test_too_many_adversarial_answers_move_the_centre_inward_and_too_few_outward() -> None:
    assert float(after(centre(), 0.5).shift) == pytest.approx(-0.35)
    assert float(after(centre(), -0.5).shift) == pytest.approx(0.35)


def test_a_jump_from_one_side_to_the_other_halves_the_steps() -> None:
    assert float(after(centre(), 1.9, -1.9).gain) == 0.5
    assert float(after(centre(), 1.9, -1.9, 1.9).gain) == 0.25


def test_steps_grow_again_while_the_balance_stays_on_one_side_but_not_beyond_their_length() -> None:
    assert float(after(centre(gain=0.1, imbalance=1.9), 1.9).gain) == pytest.approx(0.15)
    assert float(after(centre(imbalance=1.9), 1.9, 1.9).gain) == 1.0


def test_answers_that_are_nearly_balanced_leave_the_length_of_the_steps_alone() -> None:
    assert float(after(centre(gain=0.3), 0.4, -0.4, 0.4).gain) == pytest.approx(0.3)


def test_images_that_were_not_asked_stay_as_they_are() -> None:
    now = centre(0.7, 0.5, 1.9).corrected(torch.tensor([-1.9], dtype=torch.float64), ~ALL, 0.7)
    assert [float(value) for value in now] == [0.7, 0.5, 1.9, 1.0]


def test_without_a_rate_the_centre_stays_on_the_border() -> None:
    assert [float(value) for value in after(centre(), 1.9, -1.9, rate=0.0)] == [0.0, 1.0, -1.9, 1.0]


@pytest.mark.parametrize("half_width", [1.0, 0.1, 0.03])
@pytest.mark.parametrize("balanced", [0.0, 0.25, -1.3])
def test_a_balance_is_found_however_small_the_shift_that_upsets_it(half_width: float, balanced: float) -> None:
    assert all(0.05 < share < 0.95 for share in settled(half_width, balanced)[-10:])


def test_a_shift_keeps_within_its_limits() -> None:
    assert float(after(centre(29.9), -9.0).shift) == 30.0
    assert float(after(centre(-5.9), 9.0).shift) == -6.0


@pytest.mark.parametrize(
    ("shift", "imbalance", "scale", "kept"),
    [
        (3.0, 1.9, 0.4, 0.0),  # no shift balanced the answers: shorter directions, from the border again
        (-3.0, -1.9, 0.4, 0.0),
        (1.9, 1.9, 1.0, 1.9),  # the shift is still on its way
        (3.0, 1.4, 1.0, 3.0),  # the answers are balanced well enough
    ],
)
def test_directions_that_no_shift_can_balance_become_shorter(
    shift: float, imbalance: float, scale: float, kept: float
) -> None:
    now = centre(shift, 1.0, imbalance).next_iteration()
    assert float(now.scale) == pytest.approx(scale)
    assert float(now.shift) == kept


def test_short_directions_recover_by_fifteen_percent_up_to_their_length() -> None:
    scales, now = [], centre(scale=0.4)
    for _ in range(9):
        now = now.next_iteration()
        scales.append(float(now.scale))
    assert scales == pytest.approx([min(0.4 * 1.15**n, 1.0) for n in range(1, 10)])


def test_directions_do_not_become_shorter_without_end() -> None:
    assert float(centre(3.0, 1.0, 1.9, 0.011).next_iteration().scale) == 0.01


def test_a_walk_begins_on_the_border_with_directions_of_full_length() -> None:
    assert [value.tolist() for value in CentreShift.begin(2)] == [[0.0] * 2, [1.0] * 2, [0.0] * 2, [1.0] * 2]


@pytest.mark.parametrize("noise", [None, pytest.param("flip:0.1", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("dimension", "budget"), [(3, 1000), (16, 2000), (100, 4000)])
def test_an_attack_goes_on_to_the_nearest_point_of_a_plane(dimension: int, budget: int, noise: str | None) -> None:
    """Where all answers of most iterations were equal, it stayed 1% away for ever."""
    unit = normal(Key(5).root(), dimension)[0]
    plane = Plane(unit, float(unit.sum() / 2 + 0.15 * unit.norm()))
    images = 0.4 + 0.2 * uniform(Key(6).roots(torch.arange(6)), dimension)
    report = evaluate(plane, images, plane.labels(images), "qsj", noise, budget=budget, verdict=0)
    assert float(np.median(report.border_distances / plane.distance(images).numpy())) < 1.004
