from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attack_toys import Seen, border_of, problem_of, unit
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.protocols import StepRule
from popskipjump.attacks.steps.straight import FullStep, HalvingStep, step_size
from popskipjump.errors import InputError
from popskipjump.oracles import Plane


def setting(
    height: float = 0.25, *, count: int = 1, norm: str = "l2", budget: int | None = None, offset: float = 0.0
) -> tuple[Problem, Border, Seen]:
    """Originals at (0, offset, 0), borders at the height on the first axis: points at (0.5, offset, 0)."""
    seen = Seen(Plane(unit(3), height))
    original = torch.zeros(count, 3)
    original[:, 1] = offset
    problem = problem_of(seen, original, norm=norm, budget=budget)
    outer = original + unit(3)
    return problem, border_of(problem, outer, 0.5), seen


def stepped(
    step: StepRule[Any],
    problem: Problem,
    border: Border,
    gradient: Tensor,
    iteration: int,
    remeasure: list[bool] | None = None,
) -> Tensor:
    """The outer ends of the next lines."""
    again = torch.zeros(len(border.rows), dtype=torch.bool) if remeasure is None else torch.tensor(remeasure)
    return step(problem, border, gradient, again, iteration, step.begin(len(border.rows))).outer


@pytest.mark.parametrize("t", [1, 4, 25])
def test_a_step_is_the_distance_over_the_root_of_the_iteration(t: int) -> None:
    _, border, _ = setting()
    assert float(step_size(border, t)) == pytest.approx(0.5 / t**0.5)


@pytest.mark.parametrize("enlarge", [1.0, 1.3, 1.5])
def test_a_full_step_goes_along_the_direction_and_is_enlarged_from_the_original(enlarge: float) -> None:
    problem, border, seen = setting(offset=0.2)
    outer = stepped(FullStep(enlarge), problem, border, torch.tensor([[0.0, 0.0, 7.0]]), 4)
    torch.testing.assert_close(outer, torch.tensor([[0.5 * enlarge, 0.2, 0.25 * enlarge]]))
    assert not seen.points


def test_a_full_step_under_linf_follows_the_signs() -> None:
    problem, border, _ = setting(norm="linf", offset=0.5)
    outer = stepped(FullStep(1.0), problem, border, torch.tensor([[0.1, -3.0, 0.0]]), 4)
    torch.testing.assert_close(outer, torch.tensor([[0.75, 0.25, 0.0]]))


def test_a_full_step_stays_within_the_bounds() -> None:
    problem, border, _ = setting()
    outer = stepped(FullStep(1.5), problem, border, torch.tensor([[1.0, -1.0, 0.0]]), 1)
    assert float(outer.max()) == 1.0
    assert float(outer.min()) == 0.0


def test_a_full_step_without_a_direction_lengthens_the_line() -> None:
    problem, border, _ = setting()
    torch.testing.assert_close(
        stepped(FullStep(1.5), problem, border, torch.zeros(1, 3), 1), torch.tensor([[0.75, 0.0, 0.0]])
    )


def test_a_step_that_ends_adversarial_is_not_halved() -> None:
    problem, border, seen = setting()
    outer = stepped(HalvingStep(), problem, border, torch.tensor([[0.0, 2.0, 0.0]]), 4)
    torch.testing.assert_close(outer, torch.tensor([[0.5, 0.25, 0.0]]))
    assert len(seen.points) == 1
    assert problem.ledger.by_phase["step"].tolist() == [1]


def test_a_step_is_halved_until_it_ends_adversarial() -> None:
    problem, border, _ = setting(height=0.45)
    outer = stepped(HalvingStep(), problem, border, torch.tensor([[-1.0, 0.0, 0.0]]), 1)
    # 0.5 - 0.5, 0.5 - 0.25, 0.5 - 0.125, 0.5 - 0.0625 are below 0.45; 0.5 - 0.03125 is not.
    torch.testing.assert_close(outer, torch.tensor([[0.46875, 0.0, 0.0]]))
    assert problem.ledger.total.tolist() == [5]


def test_an_image_that_never_gets_there_stays_where_it_is() -> None:
    problem, border, _ = setting(height=0.5)  # the border point itself is on the border, hence not adversarial
    outer = stepped(HalvingStep(halvings=6), problem, border, torch.tensor([[-1.0, 0.0, 0.0]]), 1)
    assert torch.equal(outer, border.point)
    assert problem.ledger.total.tolist() == [6]


def test_images_are_halved_each_on_its_own() -> None:
    problem, border, _ = setting(height=0.45, count=3)
    directions = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    outer = stepped(HalvingStep(), problem, border, directions, 1)
    assert outer[:, 0].tolist() == pytest.approx([1.0, 0.46875, 0.5])
    assert problem.ledger.total.tolist() == [1, 5, 1]


def test_halving_ends_with_the_budget() -> None:
    problem, border, _ = setting(height=0.5, budget=4)
    outer = stepped(HalvingStep(), problem, border, torch.tensor([[-1.0, 0.0, 0.0]]), 1)
    assert problem.ledger.total.tolist() == [4]
    assert torch.equal(outer, border.point)


def test_a_halved_step_is_what_was_asked_after_clipping() -> None:
    problem, border, seen = setting()
    outer = stepped(HalvingStep(), problem, border, torch.tensor([[1.0, -1.0, 0.0]]), 1)
    assert torch.equal(outer, seen.points[-1])
    assert float(outer.min()) >= 0.0


def test_a_ray_that_is_to_be_measured_again_is_kept_and_no_query_is_asked() -> None:
    problem, border, _ = setting(count=2)
    gradient = torch.tensor([[0.0, 2.0, 0.0], [0.0, 2.0, 0.0]])
    full = stepped(FullStep(1.5), problem, border, gradient, 4, [True, False])
    torch.testing.assert_close(full, torch.tensor([[0.75, 0.0, 0.0], [0.75, 0.375, 0.0]]))
    halved = stepped(HalvingStep(), problem, border, gradient, 4, [True, False])
    torch.testing.assert_close(halved, torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.25, 0.0]]))
    assert problem.ledger.total.tolist() == [0, 1]


@pytest.mark.parametrize("step", [FullStep(), HalvingStep()], ids=["full", "halved"])
def test_a_move_tells_by_how_much_the_ray_was_turned(step: StepRule[Any]) -> None:
    problem, border, _ = setting(count=2)
    gradient = torch.tensor([[0.0, 2.0, 0.0], [0.0, 2.0, 0.0]])
    move = step(problem, border, gradient, torch.tensor([True, False]), 4, step.begin(2))
    ray = stepped(FullStep(1.0), problem, border, gradient, 4)[1]
    angle = float(torch.atan2(ray[1], ray[0]))
    assert move.angle.tolist() == pytest.approx([0.0, angle])


@pytest.mark.parametrize("make", [lambda: FullStep(0.9), lambda: HalvingStep(0)])
def test_a_step_that_cannot_work_is_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="at least 1"):
        make()
