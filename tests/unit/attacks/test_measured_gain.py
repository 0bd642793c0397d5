from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks import Border, MeasuredGain, Problem
from popskipjump.attacks.protocols import Move
from popskipjump.errors import InputError
from popskipjump.oracles import Plane

D = 9
MANY = torch.tensor([True])
USUAL = torch.tensor([400])


def number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


def setting(budget: int | None = None, searched: int = 10) -> tuple[Problem, Border]:
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(1, D), budget=budget)
    return problem, border_of(problem, unit(D).unsqueeze(0), 0.5, searched=torch.tensor([searched]))


def after_steps(angle: float, steps: int, turned: float = 0.3) -> tuple[MeasuredGain, int]:
    """The number of directions after steps whose best angle was always the same."""
    rule, (problem, border) = MeasuredGain(), setting()
    gain = math.cos(turned) + math.sin(turned) * math.tan(angle)
    found = border._replace(distance=border.distance / gain)
    state, counts = rule.begin(1), USUAL
    for _ in range(steps):
        counts, state = rule(problem, border, USUAL, MANY, state)
        state = rule.learn(state, border, found, Move(border.outer, number(turned)))
    return rule, int(counts)


def test_a_normal_of_few_dimensions_leaves_the_usual_number() -> None:
    problem, border = setting()
    assert MeasuredGain()(problem, border, USUAL, ~MANY, MeasuredGain().begin(1))[0].tolist() == [400]


def test_each_image_follows_the_rule_of_its_own_dimensions() -> None:
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(2, D))
    border = border_of(problem, unit(D).expand(2, D), 0.5, searched=torch.tensor([10, 10]))
    usual = torch.tensor([400, 400])
    counts, _ = MeasuredGain()(problem, border, usual, torch.tensor([True, False]), MeasuredGain().begin(2))
    assert counts.tolist() == [25, 400]


def test_the_first_iteration_of_a_large_one_asks_few() -> None:
    assert after_steps(0.5, 1)[1] == 25


def test_steps_that_gain_little_lead_to_more_directions_and_steps_that_gain_much_to_fewer() -> None:
    assert after_steps(0.05, 20)[1] > 2 * after_steps(0.5, 20)[1]
    assert after_steps(1.2, 20)[1] <= 25


def test_the_number_at_most_doubles() -> None:
    numbers = [after_steps(0.01, steps)[1] for steps in range(1, 8)]
    assert all(later <= 2 * earlier for earlier, later in pairwise(numbers))


def test_a_ray_that_was_measured_again_teaches_nothing() -> None:
    rule, (_, border) = MeasuredGain(), setting()
    state = rule.begin(1)
    learned = rule.learn(state, border, border, Move(border.outer, number(0.0)))
    assert torch.equal(learned.square, state.square)


def test_the_number_keeps_to_the_budget() -> None:
    problem, border = setting(budget=17)
    assert MeasuredGain()(problem, border, USUAL, MANY, MeasuredGain().begin(1))[0].tolist() == [7]


@pytest.mark.parametrize("wrong", [{"dimensions": -1.0}, {"first": 5}, {"fewest": 0}])
def test_it_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="at least"):
        MeasuredGain(**wrong)
