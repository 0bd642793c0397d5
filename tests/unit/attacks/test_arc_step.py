from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attack_toys import border_of, problem_of, unit
from present import present
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.protocols import Move
from popskipjump.attacks.steps.arc import ArcState, ArcStep
from popskipjump.errors import InputError
from popskipjump.oracles import Plane

THETA = 0.6  # angle between the normal and the first ray
NO = torch.zeros(1, dtype=torch.bool)


def number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


def setting(angle: float = THETA, norm: str = "l2", width: float = 0.0) -> tuple[Problem, Border, Tensor]:
    """A plane at distance cos(angle) from the origin whose border point on the first axis is at distance 1."""
    normal = math.cos(angle) * unit(4) + math.sin(angle) * unit(4, 1)
    problem = problem_of(Plane(normal, math.cos(angle)), torch.zeros(1, 4), bounds=(-9.0, 9.0), norm=norm)
    return problem, border_of(problem, 2 * unit(4).unsqueeze(0), 0.5, width=number(width)), normal.unsqueeze(0)


def stepped(
    arc: ArcStep, problem: Problem, border: Border, gradient: Tensor, *, remeasure: bool = False, iteration: int = 1
) -> Move:
    return arc(problem, border, gradient, torch.tensor([remeasure]), iteration, arc.begin(1))


def distance_on_the_ray(outer: torch.Tensor, normal: torch.Tensor) -> float:
    """How far the plane is on the ray through a point, exactly."""
    ray = outer / outer.norm()
    return math.cos(THETA) / float((ray * normal).sum())


def learned(arc: ArcStep, turned: float, distance: float, *, deviation: float = 0.0, seen: bool = True) -> float:
    """The next angle, where a turn of the first ray met the border at a distance; before, it was at 1."""
    problem, before, _ = setting()
    found = before._replace(distance=number(distance), deviation=number(deviation), seen=torch.tensor([seen]))
    move = Move(before.outer, number(turned))
    return float(arc.learn(problem, before, found, move, arc.begin(1)).angle)


def measured(first: float, rate: float, **options: Any) -> float:
    """The next angle after a first step on the plane."""
    problem, border, normal = setting()
    arc = ArcStep(first=first, rate=rate, largest=1.4)
    outer = stepped(arc, problem, border, normal).outer
    return learned(arc, first, distance_on_the_ray(outer, normal), **options)


@pytest.mark.parametrize("turned", [0.1, 0.4, 0.6, 0.9])
def test_one_step_on_a_plane_tells_the_angle_of_its_normal(turned: float) -> None:
    assert measured(turned, rate=1.0) == pytest.approx(THETA, abs=1e-5)


def test_the_angle_moves_by_the_weight_of_the_newest_measurement() -> None:
    assert measured(0.2, rate=0.25) == pytest.approx(0.75 * 0.2 + 0.25 * THETA, abs=1e-5)


@pytest.mark.parametrize(("error", "weight"), [(0.0, 1.0), (0.5, 0.5), (1.0, 0.2)])
def test_a_measurement_counts_less_the_less_is_known_of_its_distance(error: float, weight: float) -> None:
    """An angle is as uncertain as a difference of two distances over the sine of the turn."""
    turned = 0.4
    deviation = error * math.sin(turned) / 1.4
    got = measured(turned, rate=0.5, deviation=deviation)
    assert got == pytest.approx(turned + 0.5 * weight * (THETA - turned), abs=1e-5)


def test_an_error_scale_sets_which_error_halves_the_weight() -> None:
    sure, unsure = (
        learned(ArcStep(first=0.4, rate=1.0, error_scale=scale), 0.4, 0.8, deviation=0.1) for scale in (1e6, 1e-6)
    )
    assert unsure == pytest.approx(0.4, abs=1e-6)
    assert abs(sure - 0.4) > 0.1


def test_a_step_by_the_right_angle_points_at_the_nearest_point_of_the_plane() -> None:
    problem, border, normal = setting()
    outer = stepped(ArcStep(first=THETA), problem, border, normal).outer
    torch.testing.assert_close(outer / outer.norm(), normal)


def test_the_angle_of_a_step_is_that_of_the_state() -> None:
    problem, border, normal = setting()
    move = ArcStep()(problem, border, normal, NO, 3, ArcState(number(0.25), number(0.1)))
    outer = move.outer / move.outer.norm()
    assert float(move.angle) == 0.25
    assert math.acos(float(outer[0, 0])) == pytest.approx(0.25, abs=1e-3)


def test_the_window_holds_the_predicted_border() -> None:
    problem, border, normal = setting()
    move = stepped(ArcStep(first=THETA), problem, border, normal)
    position = 1 - math.cos(THETA) / float(move.outer.norm())
    assert 0 < position < float(present(move.window).span) < 1


def test_the_old_distance_is_predicted() -> None:
    problem, border, normal = setting()
    move = stepped(ArcStep(first=0.1), problem, border, normal)
    position = float(present(move.window).predicted * present(move.window).span)
    assert (1 - position) * float(move.outer.norm()) == pytest.approx(math.cos(0.1), abs=1e-5)


@pytest.mark.parametrize(("angle", "tolerance"), [(0.02, 0.002), (0.2, 0.3 * 0.2**2), (0.5, 0.02)])
def test_the_next_search_is_as_precise_as_what_the_turn_can_gain(angle: float, tolerance: float) -> None:
    problem, border, normal = setting()
    move = stepped(ArcStep(first=angle, roughest=0.02), problem, border, normal)
    assert float(present(present(move.window).tolerance)) == pytest.approx(tolerance)


def test_a_turn_the_wrong_way_teaches_a_smaller_angle() -> None:
    problem, border, normal = setting()
    arc = ArcStep(first=0.4)
    reached = distance_on_the_ray(stepped(arc, problem, border, -normal).outer, normal)
    assert reached > 1
    assert learned(arc, 0.4, reached) < 0.4


def test_a_step_that_met_no_border_counts_as_an_angle_of_nothing() -> None:
    assert learned(ArcStep(first=0.4, rate=0.5), 0.4, 0.5, seen=False) == pytest.approx(0.2)


@pytest.mark.parametrize(("reached", "limit"), [(100.0, 0.02), (0.001, 1.0)])
def test_the_angle_stays_within_its_limits(reached: float, limit: float) -> None:
    assert learned(ArcStep(first=0.4, rate=1.0), 0.4, reached) == pytest.approx(limit)


def test_measuring_again_teaches_no_angle() -> None:
    assert learned(ArcStep(first=0.4), 0.0, 1.3) == pytest.approx(0.4)


def test_on_request_the_ray_itself_is_measured_again() -> None:
    problem, border, normal = setting()
    move = stepped(ArcStep(), problem, border, normal, remeasure=True)
    torch.testing.assert_close(move.outer / move.outer.norm(), unit(4).unsqueeze(0))
    assert float(move.outer.norm()) > 1.1  # a good deal beyond the border
    assert float(move.angle) == 0


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_without_a_direction_the_ray_itself_is_measured_again(norm: str) -> None:
    """Equal answers tell no direction: the move must say that it has not turned, and be searched as such."""
    problem, border, normal = setting(norm=norm)
    nothing = stepped(ArcStep(), problem, border, torch.zeros(1, 4))
    asked = stepped(ArcStep(), problem, border, normal, remeasure=True)
    assert float(nothing.angle) == 0
    assert torch.equal(nothing.outer, asked.outer)
    assert torch.equal(present(nothing.window).span, present(asked.window).span)
    assert torch.equal(present(present(nothing.window).tolerance), present(present(asked.window).tolerance))


def test_images_without_a_direction_do_not_hold_up_the_others() -> None:
    problem = problem_of(Plane(unit(4), 0.5), torch.zeros(2, 4), bounds=(-9.0, 9.0))
    border = border_of(problem, 2 * unit(4).expand(2, 4), 0.5)
    arc = ArcStep(first=0.4)
    gradient = torch.stack((torch.zeros(4), unit(4, 1)))
    move = arc(problem, border, gradient, torch.zeros(2, dtype=torch.bool), 1, arc.begin(2))
    assert move.angle.tolist() == pytest.approx([0.0, 0.4])


def test_an_arc_asks_nothing_and_stays_within_the_bounds() -> None:
    problem = problem_of(Plane(unit(4), 0.5), torch.zeros(1, 4))
    border = border_of(problem, unit(4).unsqueeze(0), 0.5)
    outer = stepped(ArcStep(), problem, border, torch.tensor([[1.0, -1.0, 2.0, 0.0]])).outer
    assert problem.ledger.total.tolist() == [0]
    assert 0 <= float(outer.min()) <= float(outer.max()) <= 1


@pytest.mark.parametrize("iteration", [1, 4])
def test_under_linf_an_arc_climbs_along_the_signs_by_the_schedule_of_psj(iteration: int) -> None:
    problem, border, _ = setting(norm="linf")
    gradient = torch.tensor([[1.0, 2.0, -3.0, 0.0]])
    outer = stepped(ArcStep(first=0.3), problem, border, gradient, iteration=iteration).outer[0]
    angle = math.atan(iteration**-0.5)
    step, reach = math.tan(angle), math.cos(angle)
    expected = torch.tensor([1 + step, step, -step, 0.0]).clamp(-reach, reach)  # no larger than an arc would leave it
    torch.testing.assert_close(outer / outer[0], expected / expected[0])


@pytest.mark.parametrize("angle", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_window_holds_distances_on_both_sides_of_the_one_before(norm: str, angle: float) -> None:
    problem, border, _ = setting(norm=norm)
    move = stepped(ArcStep(first=angle), problem, border, torch.tensor([[1.0, 2.0, -3.0, 0.0]]))
    furthest = float(problem.norm.size(move.outer))
    assert (1 - float(present(move.window).span)) * furthest < float(border.distance) < furthest


@pytest.mark.parametrize(("width", "low", "high"), [(0.1, 0.75, 1.25), (0.4, 0.2, 1.8), (1.0, 0.1, 3.0)])
def test_a_wide_transition_is_searched_from_both_of_its_sides(width: float, low: float, high: float) -> None:
    problem, border, normal = setting(width=width)
    move = stepped(ArcStep(first=0.1), problem, border, normal)
    furthest = float(move.outer.norm())
    assert (1 - float(present(move.window).span)) * furthest == pytest.approx(
        low, abs=0.05
    )  # in distances: that one is 1
    assert furthest == pytest.approx(high, abs=0.05)


@pytest.mark.parametrize(
    "wrong",
    [{"first": 2.0}, {"smallest": 0.0}, {"rate": 1.5}, {"margin": 1.0}, {"error_scale": 0.0}, {"roughest": 0.0}],
)
def test_an_arc_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ArcStep(**wrong)
