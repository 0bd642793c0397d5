"""What a walk leaves of its budget for the settle phase."""

from __future__ import annotations

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks import Problem, set_aside
from popskipjump.attacks.settle import release
from popskipjump.oracles import Plane
from popskipjump.sigmoid import Estimate

D = 4


def problem_with(budget: int | None) -> Problem:
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(1, D), budget=budget)
    problem.verdict = 5
    return problem


def reserved(problem: Problem) -> int:
    """Queries that a walk may not ask, beside those of the verdict."""
    assert problem.ledger.budget is not None
    return int(problem.ledger.budget) - int(problem.ledger.remaining(torch.tensor([0]))) - problem.verdict


def reserved_for(slope: float, low: float, budget: int = 4000) -> int:
    """The reserve for a border with this slope and this noise at its adversarial end."""
    problem = problem_with(budget)
    place, log_slope, floor = (torch.tensor([v], dtype=torch.float64) for v in (0.5, slope, low))
    border = border_of(problem, unit(D).unsqueeze(0), 0.5, estimate=Estimate(place, log_slope, floor, floor))
    set_aside(problem)
    set_aside(problem, border)
    return reserved(problem)


@pytest.mark.parametrize(("budget", "expected"), [(10_000, 30), (80, 20), (30, 10), (15, 5)])
def test_the_first_reserve_is_fixed_and_a_part_of_a_small_budget(budget: int, expected: int) -> None:
    problem = problem_with(budget)
    set_aside(problem)
    assert reserved(problem) == expected


def test_without_a_budget_nothing_is_reserved() -> None:
    problem = problem_with(None)
    set_aside(problem)
    assert problem.ledger.reserved == 0


def test_a_gradual_border_and_a_noisy_one_reserve_more_than_a_sharp_one() -> None:
    assert reserved_for(2.5, 0.0) == 30
    assert reserved_for(0.0, 0.0) > 60
    assert reserved_for(2.5, 0.2) > 100


def test_a_gradual_border_reserves_what_a_place_of_moderate_probability_takes() -> None:
    assert reserved_for(0.0, 0.0, budget=1000) > 150  # a tenth of the budget, for patience, would be 100


def test_the_reserve_of_a_border_is_at_most_a_quarter_of_the_budget() -> None:
    assert reserved_for(2.5, 0.3, budget=200) == 50


def test_the_settle_phase_may_ask_all_but_the_verdict() -> None:
    problem = problem_with(100)
    set_aside(problem)
    release(problem)
    assert reserved(problem) == 0
