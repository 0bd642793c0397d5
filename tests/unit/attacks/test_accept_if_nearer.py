from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks.acceptance.if_nearer import AcceptIfNearer, Refusals
from popskipjump.attacks.protocols import Decision, Move
from popskipjump.errors import InputError
from popskipjump.oracles import Plane


def number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


def judged(
    before: float,
    found: float,
    *,
    rule: AcceptIfNearer | None = None,
    state: Refusals | None = None,
    deviation: float = 0.0,
    seen: bool = True,
    angle: float = 0.3,
    norm: str = "l2",
) -> tuple[Decision, Refusals]:
    """What is made of a border at one distance, after one at another."""
    rule = AcceptIfNearer() if rule is None else rule
    problem = problem_of(Plane(unit(3), 0.5), torch.zeros(1, 3), norm=norm)
    outer = unit(3).unsqueeze(0)
    new = border_of(problem, outer, 1 - found, deviation=number(deviation), seen=torch.tensor([seen]))
    state = rule.begin(1) if state is None else state
    return rule(problem, new, border_of(problem, outer, 1 - before), Move(outer, number(angle)), state)


def taken(*distances: float, **options: Any) -> bool:
    return bool(judged(*distances, **options)[0].take)


def test_a_nearer_border_is_taken_and_a_farther_one_is_not() -> None:
    assert taken(0.5, 0.4)
    assert not taken(0.5, 0.6)


@pytest.mark.parametrize(("deviation", "take"), [(0.049, False), (0.051, True)])
def test_a_farther_border_is_taken_if_both_may_be_equally_far(deviation: float, take: bool) -> None:
    assert taken(0.5, 0.6, rule=AcceptIfNearer(slack=2.0), deviation=deviation) is take


@pytest.mark.parametrize(("kept", "take"), [(0.049, False), (0.051, True)])
def test_the_deviation_of_the_kept_border_counts_as_well(kept: float, take: bool) -> None:
    state = Refusals(number(kept), torch.tensor([0]))
    assert taken(0.5, 0.6, rule=AcceptIfNearer(slack=2.0), state=state) is take


def test_the_deviations_of_both_borders_add_up_as_squares() -> None:
    state = Refusals(number(0.03), torch.tensor([0]))
    slack = AcceptIfNearer(slack=2.0)
    assert taken(0.5, 0.6 - 0.001, rule=slack, state=state, deviation=0.04)  # 2 sqrt(0.03^2 + 0.04^2) = 0.1
    assert not taken(0.5, 0.6 + 0.001, rule=slack, state=state, deviation=0.04)


def test_a_refused_border_leaves_the_deviation_of_the_kept_one() -> None:
    state = Refusals(number(0.01), torch.tensor([0]))
    _, refused = judged(0.5, 0.6, state=state, deviation=0.02)
    _, accepted = judged(0.5, 0.4, state=state, deviation=0.02)
    assert (float(refused.deviation), float(accepted.deviation)) == (0.01, 0.02)


def test_a_border_that_was_not_seen_is_not_taken() -> None:
    assert not taken(0.5, 0.4, seen=False)


def test_where_a_single_step_cannot_be_judged_every_border_that_was_seen_is_taken() -> None:
    assert taken(0.5, 0.9, norm="linf")
    assert not taken(0.5, 0.4, norm="linf", seen=False)


def remeasures(distances: list[float], patience: int = 3) -> list[bool]:
    """Whether the kept ray is to be measured again, after each of some borders."""
    rule, asked = AcceptIfNearer(patience=patience), []
    state = rule.begin(1)
    for found in distances:
        decision, state = judged(0.5, found, rule=rule, state=state)
        asked.append(bool(decision.remeasure))
    return asked


@pytest.mark.parametrize("patience", [1, 3])
def test_after_some_refusals_in_a_row_the_ray_is_to_be_measured_again(patience: int) -> None:
    assert remeasures([0.6] * patience, patience) == [False] * (patience - 1) + [True]


def test_a_success_starts_the_count_of_refusals_anew() -> None:
    assert remeasures([0.6, 0.6, 0.4, 0.6, 0.6, 0.6]) == [False] * 5 + [True]


@pytest.mark.parametrize("options", [{}, {"seen": False}])
def test_a_ray_that_was_measured_again_counts_whatever_it_is(options: dict[Any, Any] | dict[str, bool]) -> None:
    decision, state = judged(0.5, 0.6, angle=0.0, state=Refusals(number(0.0), torch.tensor([3])), **options)
    assert bool(decision.take)
    assert not bool(decision.remeasure)
    assert int(state.in_a_row) == 0


def test_it_never_gives_an_image_up() -> None:
    state = Refusals(number(0.0), torch.tensor([50]))
    assert not bool(judged(0.5, 0.6, state=state)[0].give_up)


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"slack": -0.1}])
def test_a_rule_that_cannot_work_is_refused(wrong: dict[str, float] | dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        AcceptIfNearer(**wrong)
