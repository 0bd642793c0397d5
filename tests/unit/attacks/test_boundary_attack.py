from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_toys import Seen, problem_of, unit
from torch import Tensor

from popskipjump.attacks import BoundaryAttack, Problem, Step
from popskipjump.errors import InputError
from popskipjump.oracles import BaseModel, Plane
from popskipjump.types import Status

D = 10


def first_step(
    attack: BoundaryAttack, *, count: int = 4, budget: int | None = None, model: BaseModel | None = None
) -> tuple[Problem, Seen, Step]:
    """Originals at 0, the border at 0.3 on the first axis, and starts far along it in a corner."""
    seen = Seen(model or Plane(unit(D), 0.3))
    problem = problem_of(seen, torch.zeros(count, D), budget=budget)
    start = torch.full((count, D), 0.6)
    return problem, seen, attack.init(problem, torch.arange(count), start)


def test_the_distance_falls_towards_the_border() -> None:
    attack = BoundaryAttack(proposals=150)
    problem, _, now = first_step(attack)
    distances = [now.border.distance]
    for iteration in range(1, 6):
        now = attack.step(problem, now, iteration)
        distances.append(now.border.distance)
    trace = torch.stack(distances)
    assert bool((trace.diff(dim=0) < 0).all())
    assert float(trace[0].min()) > 0.9
    assert float(trace[-1].max()) < 0.55
    assert float(trace[-1].min()) >= 0.3


def test_every_point_kept_was_answered_adversarial() -> None:
    attack = BoundaryAttack(proposals=50)
    problem, seen, now = first_step(attack)
    now = attack.step(problem, now, 1)
    assert seen.model.labels(now.border.point).tolist() == [1] * 4


def test_the_step_across_keeps_the_distance() -> None:
    attack = BoundaryAttack(proposals=1, test_every=1, orthogonal=0.2)
    problem = problem_of(seen := Seen(Plane(unit(D), 0.3)), torch.zeros(4, D), bounds=(-9.0, 9.0))
    now = attack.init(problem, torch.arange(4), torch.full((4, D), 0.6))
    attack.step(problem, now, 1)
    aside, point = seen.points[-2], now.border.point  # the last call asks about the step inward
    torch.testing.assert_close(aside.norm(dim=1), point.norm(dim=1))
    angle = (aside * point).sum(dim=1) / point.norm(dim=1) ** 2
    torch.testing.assert_close(angle, torch.full((4,), (1 + 0.2**2) ** -0.5))


def test_each_iteration_asks_its_proposals_and_one_in_ten_twice() -> None:
    attack = BoundaryAttack(proposals=40, test_every=10)
    problem, _, now = first_step(attack)
    attack.step(problem, now, 1)
    assert problem.ledger.by_phase["walk"].tolist() == [40] * 4
    assert problem.ledger.by_phase["step"].tolist() == [4] * 4


def test_steps_grow_where_everything_is_adversarial_and_shrink_where_nothing_is() -> None:
    class All:
        device, classes = torch.device("cpu"), 2

        def __init__(self, label: int) -> None:
            self.label = label

        def labels(self, points: Tensor) -> Tensor:
            return torch.full((len(points),), self.label)

    attack = BoundaryAttack(proposals=300)
    for label, grows in ((1, True), (0, False)):
        problem, _, now = first_step(attack, model=All(label))
        walk: Any = attack.step(problem, now, 1).memory
        assert bool((walk.orthogonal > attack.orthogonal).all()) is grows
        assert bool((walk.forward > attack.forward).all()) is grows


def test_the_walk_ends_with_the_budget() -> None:
    attack = BoundaryAttack(proposals=100)
    problem, _, now = first_step(attack, budget=31)
    now = attack.step(problem, now, 1)
    assert now.ended == dict.fromkeys(range(4), Status.BUDGET_SPENT)
    assert int(problem.ledger.total.max()) <= 31
    assert int(problem.ledger.total.min()) >= 30


@pytest.mark.parametrize("budget", range(10, 34))
def test_the_walk_ends_with_the_budget_wherever_it_falls(budget: int) -> None:
    attack = BoundaryAttack(proposals=100, test_every=3)
    problem, _, now = first_step(attack, count=1, budget=budget)
    attack.step(problem, now, 1)
    assert budget - 1 <= int(problem.ledger.total) <= budget


def test_an_image_that_left_does_not_shift_the_others() -> None:
    attack = BoundaryAttack(proposals=30)
    problem, _, now = first_step(attack)
    stays = torch.tensor([False, True, False, True])
    after = attack.step(problem, now._replace(border=now.border.select(stays)), 1)
    whole_problem, _, whole = first_step(attack)
    expected = attack.step(whole_problem, whole, 1)
    assert after.border.rows.tolist() == [1, 3]
    assert torch.equal(after.border.point, expected.border.point[stays])


@pytest.mark.parametrize("arguments", [{"proposals": 0}, {"test_every": 0}, {"forward": 0.0}, {"adapt": 0.5}])
def test_settings_without_meaning_are_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        BoundaryAttack(**arguments)
