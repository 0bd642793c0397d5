"""Far borders: the trials of `FarMode`, the ladder of `ArcStep`, and when the mode ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attack_toys import Seen, begun_at, border_of, problem_of, unit

from popskipjump import Plane, QuickSkipJump, Sphere, evaluate
from popskipjump.attacks import AdaptiveDirections, Border, FarMode, Problem
from popskipjump.attacks.directions.far import Trial
from popskipjump.attacks.protocols import Move
from popskipjump.attacks.steps.arc import ArcStep
from popskipjump.attacks.steps.ladder import HIGHEST, LOWEST, climb
from popskipjump.errors import InputError
from popskipjump.rng import Key, normal

D = 50
YES = torch.tensor([True])


def number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


def plane_at(angle: float, budget: int | None = None) -> tuple[Problem, Border]:
    """A border point on axis 0 at a distance of 1, on a plane whose normal is turned by an angle towards axis 1."""
    normal_ = math.cos(angle) * unit(D) + math.sin(angle) * unit(D, 1)
    seen = Seen(Plane(normal_, math.cos(angle)))
    problem = problem_of(seen, torch.zeros(1, D), bounds=(-9.0, 9.0), budget=budget)
    return problem, border_of(problem, 2 * unit(D).unsqueeze(0), 0.5)


@pytest.mark.parametrize("angle", [0.02, 0.1, 0.35, 0.9, 1.28])
@pytest.mark.parametrize("rung", [0.01, 0.1, 0.6])
def test_the_ladder_ends_on_a_rung_below_the_angle_of_the_normal_and_above_half_of_it(
    angle: float, rung: float
) -> None:
    problem, border = plane_at(angle)
    found = float(climb(problem, border, unit(D, 1).unsqueeze(0), number(rung)))
    # On the circle, the adversarial side is between the ray and the normal.
    assert 0.5 * angle <= found + 1e-6
    assert found <= angle + 1e-6
    assert problem.ledger.by_phase["step"].tolist()[0] <= 8


def test_a_ladder_in_a_wrong_direction_has_no_rung() -> None:
    problem, border = plane_at(0.5)
    assert float(climb(problem, border, -unit(D, 1).unsqueeze(0), number(0.1))) == 0


def test_the_ladder_has_a_highest_rung() -> None:
    problem, border = plane_at(1.5)
    assert float(climb(problem, border, unit(D, 1).unsqueeze(0), number(0.1))) == HIGHEST


@pytest.mark.parametrize("budget", [1, 3])
def test_the_ladder_keeps_to_the_budget(budget: int) -> None:
    problem, border = plane_at(0.9, budget=budget)
    climb(problem, border, unit(D, 1).unsqueeze(0), number(0.02))
    assert int(problem.ledger.total.max()) <= budget


def test_the_ladder_leaves_the_queries_of_the_next_search() -> None:
    problem, border = plane_at(0.9, budget=10)
    climb(problem, border._replace(searched=torch.tensor([8])), unit(D, 1).unsqueeze(0), number(0.02))
    assert int(problem.ledger.total.max()) == 2


def test_a_far_step_turns_by_less_than_its_rung_and_remembers_it() -> None:
    problem, border = plane_at(0.5)
    arc = ArcStep()
    move = arc(problem, border, unit(D, 1).unsqueeze(0), ~YES, 1, arc.begin(1), YES)
    assert float(move.angle) == pytest.approx(0.8 * 0.4)  # rungs are 0.2, 0.4, 0.8
    learned = arc.learn(problem, border, border._replace(distance=0.9 * border.distance), move, arc.begin(1))
    assert float(learned.rung) == pytest.approx(0.4)


def test_a_far_ray_that_is_measured_again_asks_no_ladder() -> None:
    problem, border = plane_at(0.5)
    arc = ArcStep()
    move = arc(problem, border, unit(D, 1).unsqueeze(0), YES, 1, arc.begin(1), YES)
    assert float(move.angle) == 0
    assert int(problem.ledger.total) == 0


def trial_after(*imbalances: float, dull: bool = False) -> tuple[Trial, bool, bool]:
    trial, balanced, cut = Trial.begin(number(0), number(0.3), torch.tensor([dull])), ~YES, ~YES
    for imbalance in imbalances:
        trial, balanced, cut = trial.after(number(imbalance), YES)
    return trial, bool(balanced), bool(cut)


def test_balanced_answers_end_the_trials() -> None:
    trial, balanced, cut = trial_after(0.5)
    assert (balanced, cut, float(trial.shift), float(trial.scale)) == (True, False, 0.0, 0.3)


def test_lopsided_answers_shift_the_centre_against_them_first() -> None:
    trial, balanced, cut = trial_after(-1.47)
    assert (balanced, cut, float(trial.shift)) == (False, False, 2.5)


def test_a_shift_that_helps_is_followed_by_the_secant() -> None:
    trial, _, cut = trial_after(-2.0, -1.0)  # 1 for a shift of 2.5: 2.5 more are needed
    assert not cut
    assert float(trial.shift) == pytest.approx(5.0)


def test_a_shift_that_does_not_help_cuts_the_directions_short() -> None:
    trial, _, cut = trial_after(-1.47, -1.47)
    assert cut
    assert float(trial.shift) == 0
    assert float(trial.scale) == pytest.approx(0.06)
    assert bool(trial.dull)


def test_where_shifts_are_known_not_to_help_the_first_lopsided_trial_cuts() -> None:
    assert trial_after(1.47, dull=True)[2]


def steps_until_near(ratio: float) -> int:
    """Far steps until the mode ends, if the best angle is always `ratio` times the angle turned by."""
    _, border = plane_at(0.5)
    mode, turned = FarMode(), 0.2
    state, gain = mode.begin(YES), math.cos(turned) + math.sin(turned) * math.tan(ratio * turned)
    move = Move(border.outer, number(turned), None, YES)
    for step in range(40):
        if not bool(state.far):
            return step
        state = mode.learn(state, border, border._replace(distance=border.distance / gain), move)
    return 40


def test_a_flat_border_ends_the_mode_within_a_few_steps_and_one_that_bends_does_not() -> None:
    assert steps_until_near(1.6) <= 3
    assert steps_until_near(1.9) <= 8
    assert steps_until_near(4.0) == 40


def test_a_step_without_a_rung_says_nothing_about_the_bend() -> None:
    _, border = plane_at(0.5)
    state = FarMode().begin(YES)
    move = Move(border.outer, number(0.8 * LOWEST), None, YES)
    further = border._replace(distance=1.1 * border.distance)
    assert torch.equal(FarMode().learn(state, border, further, move).bend, state.bend)


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_images_begin_far_where_no_starts_were_compared_and_steps_can_be_judged(compared: bool, norm: str) -> None:
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(1, D), norm=norm)
    state = AdaptiveDirections().begin(problem, begun_at(border_of(problem, unit(D).unsqueeze(0), 0.5), compared))
    assert bool(state.far.far) == (not compared and norm == "l2")
    none = AdaptiveDirections(far_mode=None).begin(
        problem, begun_at(border_of(problem, unit(D).unsqueeze(0), 0.5), compared)
    )
    assert not bool(none.far.far)


def test_far_directions_are_few_and_within_the_budget() -> None:
    problem, border = plane_at(1.5, budget=15)
    rule = AdaptiveDirections()
    rule(problem, border, 1, rule.begin(problem, begun_at(border, compared=False)))
    assert int(problem.ledger.total) == 15
    problem, border = plane_at(1.5)
    rule(problem, border, 1, rule.begin(problem, begun_at(border, compared=False)))
    assert 20 <= int(problem.ledger.total) <= 6 * 7 + 20


def test_later_iterations_of_the_far_mode_ask_more_directions() -> None:
    mode = FarMode(directions=20, growth=0.1)
    assert [mode.count(iteration) for iteration in (1, 2, 6, 11)] == [20, 22, 30, 40]
    assert FarMode(growth=0).count(50) == 20


def test_a_far_estimate_remembers_the_one_before_with_its_weight() -> None:
    problem, border = plane_at(1.5)
    rule = AdaptiveDirections(far_mode=FarMode(memory=0.5))
    first, state = rule(problem, border, 1, rule.begin(problem, begun_at(border, compared=False)))
    assert state.recalled is not None
    assert torch.equal(first, state.recalled)
    second, later = rule(problem, border, 2, state)
    assert later.recalled is not None
    assert torch.equal(second, later.recalled)
    problem, _ = plane_at(1.5)
    fresh, _ = rule(problem, border, 2, state._replace(recalled=torch.zeros_like(first)))
    assert torch.allclose(second, fresh + 0.5 * first, atol=1e-5)
    assert not torch.allclose(second, fresh, atol=1e-2)


def test_a_walk_that_begins_near_remembers_no_estimate() -> None:
    problem, border = plane_at(0.5)
    assert AdaptiveDirections().begin(problem, begun_at(border, compared=True)).recalled is None


def bent(far_mode: FarMode | None) -> float:
    """A targeted walk from a far start around a small ball of the target's class."""
    centre = normal(Key(0).root(), D).squeeze(0)
    centre = centre / centre.norm()
    ball = Sphere(5 * centre, 1.0)
    model = type(
        "Ball", (), {"labels": lambda self, x: 1 - ball.labels(x), "device": torch.device("cpu"), "classes": 2}
    )()
    off = normal(Key(1).root(), D).squeeze(0)
    start = (5 * centre + 0.95 * off / off.norm()).unsqueeze(0)
    attack = QuickSkipJump(direction=AdaptiveDirections(far_mode=far_mode))
    report = evaluate(
        model, torch.zeros(1, D), torch.zeros(1, dtype=torch.int64), attack, targets=torch.ones(1, dtype=torch.int64),
        starts=start, budget=400, bounds=(-9.0, 9.0), verdict=0,
    )  # fmt: skip
    return float(report.distances[0])


def test_a_walk_around_a_ball_comes_to_its_nearest_point() -> None:
    assert bent(FarMode()) < 4.2  # from 5.1; the ball begins at 4


@pytest.mark.parametrize(
    "wrong",
    [
        *({"directions": 0}, {"trial": 0}, {"trials": 0}, {"scale": 0.0}, {"leave": 0.0}),
        *({"growth": -0.1}, {"memory": -0.1}, {"memory": 1.0}),
    ],
)
def test_a_far_mode_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="at least"):
        FarMode(**wrong)
