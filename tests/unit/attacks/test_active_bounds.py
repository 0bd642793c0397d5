from __future__ import annotations

import math

import pytest
import torch
from attack_toys import begun_at, border_of, problem_of

from popskipjump.attacks import Problem
from popskipjump.attacks.directions.adaptive.active_bounds import ActiveBounds, Push
from popskipjump.attacks.directions.adaptive.count import GainOptimalCount
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.errors import InputError
from popskipjump.oracles import Plane
from popskipjump.rng import Key, normal

D = 40
ROW = torch.arange(1)
SIZE = torch.tensor([0.01], dtype=torch.float64)
NOISE = torch.ones(1, D)


def problem_with_bounds() -> Problem:
    return problem_of(Plane(torch.full((D,), D**-0.5), 0.5), torch.full((1, D), 0.5), bounds=(0.0, 1.0))


def narrowed(bounds: ActiveBounds, state: Push | None, point: torch.Tensor) -> torch.Tensor:
    spread = bounds.narrowed(problem_with_bounds(), state, point, SIZE, torch.ones(1, D))
    assert float((spread**2).mean()) == pytest.approx(1.0, abs=1e-5)
    return spread[0] / spread[0].max()


def point_with(*at: tuple[int, float]) -> torch.Tensor:
    point = torch.full((1, D), 0.5)
    for place, value in at:
        point[0, place] = value
    return point


def test_before_any_answer_a_value_at_a_bound_counts_half() -> None:
    spread = narrowed(ActiveBounds(), None, point_with((0, 0.0), (1, 1.0), (2, 0.003), (3, 0.01)))
    assert spread[:4].tolist() == pytest.approx([0.5, 0.5, 0.5, 1.0])  # 0.003 is near, 0.01 is not
    assert spread[4:].tolist() == [1.0] * (D - 4)


def test_what_points_outward_is_asked_less_and_what_points_inward_as_much_as_elsewhere() -> None:
    bounds = ActiveBounds(least=0.2)
    signal = torch.zeros(1, D)
    signal[0, :4] = torch.tensor([-12.0, 12.0, -12.0, 12.0])
    state = bounds.learned(None, signal, NOISE)
    spread = narrowed(bounds, state, point_with((0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0)))
    assert spread[:4].tolist() == pytest.approx([0.2, 1.0, 1.0, 0.2], abs=1e-3)
    assert narrowed(bounds, state, point_with()).tolist() == [1.0] * D  # with room on both sides nothing is outward


def test_scores_as_large_as_chance_makes_them_are_not_believed() -> None:
    bounds = ActiveBounds()
    chance = normal(Key(3).roots(ROW), D)
    state = bounds.learned(None, 0.9 * chance / (chance**2).mean().sqrt(), NOISE)
    assert narrowed(bounds, state, torch.zeros(1, D)).tolist() == [1.0] * D  # all half, alike


def test_it_unlearns_what_later_answers_contradict() -> None:
    bounds, point = ActiveBounds(decay=0.5), point_with((0, 0.0))
    signal = torch.zeros(1, D)
    signal[0, 0] = -30.0
    state = bounds.learned(None, signal, NOISE)
    assert float(narrowed(bounds, state, point)[0]) < 0.25
    for _ in range(3):
        state = bounds.learned(state, -signal, NOISE)
    assert float(narrowed(bounds, state, point)[0]) > 0.9


def test_earlier_sums_decay_and_their_variances_with_the_square() -> None:
    old = Push(torch.full((1, D), 8.0), torch.full((1, D), 8.0))
    state = ActiveBounds(decay=0.5).learned(old, torch.ones(1, D), torch.ones(1, D))
    assert float(state.signal[0, 0]) == 5.0
    assert float(state.variance[0, 0]) == 3.0


def test_answers_that_are_all_equal_teach_nothing() -> None:
    bounds = ActiveBounds()
    state = bounds.learned(None, torch.zeros(1, D), torch.zeros(1, D))
    assert float(narrowed(bounds, state, point_with((0, 0.0)))[0]) == pytest.approx(0.5)


def test_directions_turn_away_from_values_whose_normal_points_outward() -> None:
    # Adversarial where values grow, or where the first half falls below its bound, which it cannot.
    slope = torch.ones(D)
    slope[: D // 2] = -1.0
    originals = torch.full((1, D), 0.5)
    originals[0, : D // 2] = 0.0
    problem = problem_of(Plane(slope / math.sqrt(D), 0.55 * math.sqrt(D) / 2), originals, bounds=(0.0, 1.0))
    outer = originals.clone()
    outer[0, D // 2 :] = 0.5 + 0.1 * torch.linspace(0.5, 1.5, D // 2)
    border = border_of(problem, outer, 0.5)
    direction = AdaptiveDirections(local=False, count=GainOptimalCount(fewest=200, most=200))
    state = direction.begin(problem, begun_at(border))
    for iteration in range(1, 6):
        estimate, state = direction(problem, border, iteration, state)
    assert direction.active_bounds is not None
    spread = direction.active_bounds.narrowed(problem, state.push, border.point, SIZE, torch.ones(1, D))[0]
    assert float(spread[: D // 2].mean()) < 0.4 * float(spread[D // 2 :].mean())
    assert float(estimate[0, : D // 2].abs().mean()) < 0.4 * float(estimate[0, D // 2 :].abs().mean())


@pytest.mark.parametrize("wrong", [{"decay": 1.1}, {"decay": -0.1}, {"least": 0.0}, {"least": 1.5}, {"near": -1.0}])
def test_wrong_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        ActiveBounds(**wrong)
