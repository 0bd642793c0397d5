from __future__ import annotations

import math

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks.parts.advance import ArcStep
from popskipjump.oracles import Plane

THETA = 0.6  # angle between the normal and the first ray


def setting(angle: float = THETA, norm: str = "l2"):
    """A plane at distance cos(angle) from the origin whose border point on the first axis is at distance 1."""
    normal = math.cos(angle) * unit(4) + math.sin(angle) * unit(4, 1)
    problem = problem_of(Plane(normal, math.cos(angle)), torch.zeros(1, 4), bounds=(-9.0, 9.0), norm=norm)
    return problem, border_of(problem, 2 * unit(4).unsqueeze(0), 0.5), normal.unsqueeze(0)


def distance_on_the_ray(outer: torch.Tensor, normal: torch.Tensor) -> float:
    """How far the plane is on the ray through a point, exactly."""
    ray = outer / outer.norm()
    return math.cos(THETA) / float((ray * normal).sum())


@pytest.mark.parametrize("turned", [0.1, 0.4, 0.6, 0.9])
def test_one_step_on_a_plane_tells_the_angle_of_its_normal(turned):
    problem, border, normal = setting()
    arc = ArcStep(first=turned, learn=1.0, largest=1.4)
    outer = arc(problem, border, normal, 1)
    problem.notes.write("reached", border.rows, torch.tensor([distance_on_the_ray(outer, normal)]).double())
    arc(problem, border, normal, 2)
    assert float(problem.notes.read("angle", border.rows, 0.0)) == pytest.approx(THETA, abs=1e-5)


def test_the_angle_moves_by_the_weight_of_the_newest_measurement():
    problem, border, normal = setting()
    arc = ArcStep(first=0.2, learn=0.25)
    outer = arc(problem, border, normal, 1)
    problem.notes.write("reached", border.rows, torch.tensor([distance_on_the_ray(outer, normal)]).double())
    arc(problem, border, normal, 2)
    assert float(problem.notes.read("angle", border.rows, 0.0)) == pytest.approx(0.75 * 0.2 + 0.25 * THETA, abs=1e-5)


def test_a_step_by_the_right_angle_points_at_the_nearest_point_of_the_plane():
    problem, border, normal = setting()
    outer = ArcStep(first=THETA)(problem, border, normal, 1)
    torch.testing.assert_close(outer / outer.norm(), normal)


def test_the_window_holds_the_predicted_border():
    problem, border, normal = setting()
    outer = ArcStep(first=THETA)(problem, border, normal, 1)
    span = float(problem.notes.read("span", border.rows, 0.0))
    position = 1 - math.cos(THETA) / float(outer.norm())
    assert 0 < position < span < 1


def test_a_turn_the_wrong_way_teaches_a_smaller_angle():
    problem, border, normal = setting()
    arc = ArcStep(first=0.4)
    outer = arc(problem, border, -normal, 1)
    reached = distance_on_the_ray(outer, normal)
    assert reached > 1
    problem.notes.write("reached", border.rows, torch.tensor([reached]).double())
    arc(problem, border, normal, 2)
    assert float(problem.notes.read("angle", border.rows, 0.0)) < 0.4


def test_a_step_that_met_no_border_counts_as_an_angle_of_nothing():
    problem, border, normal = setting()
    arc = ArcStep(first=0.4, learn=0.5)
    arc(problem, border, normal, 1)
    problem.notes.write("reached", border.rows, torch.tensor([0.5]).double())
    problem.notes.write("missing", border.rows, torch.tensor([1.0]).double())
    arc(problem, border, normal, 2)
    assert float(problem.notes.read("angle", border.rows, 0.0)) == pytest.approx(0.2)


@pytest.mark.parametrize(("reached", "limit"), [(100.0, 0.02), (0.001, 1.0)])
def test_the_angle_stays_within_its_limits(reached, limit):
    problem, border, normal = setting()
    arc = ArcStep(first=0.4, learn=1.0)
    arc(problem, border, normal, 1)
    problem.notes.write("reached", border.rows, torch.tensor([reached]).double())
    arc(problem, border, normal, 2)
    assert float(problem.notes.read("angle", border.rows, 0.0)) == pytest.approx(limit)


def test_on_request_the_ray_itself_is_measured_again_once():
    problem, border, normal = setting()
    arc = ArcStep()
    problem.notes.write("again", border.rows, torch.tensor([1.0]).double())
    outer = arc(problem, border, normal, 1)
    torch.testing.assert_close(outer / outer.norm(), unit(4).unsqueeze(0))
    assert float(outer.norm()) > 1  # the border is within the line
    assert float(problem.notes.read("again", border.rows, 1.0)) == 0


def test_measuring_again_teaches_no_angle():
    problem, border, normal = setting()
    arc = ArcStep(first=0.4)
    problem.notes.write("again", border.rows, torch.tensor([1.0]).double())
    arc(problem, border, normal, 1)
    problem.notes.write("reached", border.rows, torch.tensor([1.3]).double())
    arc(problem, border, normal, 2)
    assert float(problem.notes.read("angle", border.rows, 0.0)) == pytest.approx(0.4)


def test_an_arc_asks_nothing_and_stays_within_the_bounds():
    problem = problem_of(Plane(unit(4), 0.5), torch.zeros(1, 4))
    border = border_of(problem, unit(4).unsqueeze(0), 0.5)
    outer = ArcStep()(problem, border, torch.tensor([[1.0, -1.0, 2.0, 0.0]]), 1)
    assert problem.ledger.total.tolist() == [0]
    assert 0 <= float(outer.min()) <= float(outer.max()) <= 1


def test_under_linf_an_arc_climbs_along_the_signs():
    problem, border, _ = setting(norm="linf")
    outer = ArcStep(first=0.3)(problem, border, torch.tensor([[1.0, 2.0, -3.0, 0.0]]), 1)[0]
    angle = math.atan(1.0)  # the first step of the schedule is as long as the distance
    step, reach = math.tan(angle), math.cos(angle)
    expected = torch.tensor([1 + step, step, -step, 0.0]).clamp(-reach, reach)  # no larger than an arc would leave it
    torch.testing.assert_close(outer / outer[0], expected / expected[0])


@pytest.mark.parametrize("angle", [0.02, 0.1, 0.3])
@pytest.mark.parametrize(
    "norm",
    ["l2", "linf"],
)
def test_the_window_holds_distances_on_both_sides_of_the_one_before(norm, angle):
    problem, border, _ = setting(norm=norm)
    outer = ArcStep(first=angle)(problem, border, torch.tensor([[1.0, 2.0, -3.0, 0.0]]), 1)
    span = float(problem.notes.read("span", border.rows, 1.0))
    furthest = float(problem.norm.size(outer))
    assert (1 - span) * furthest < float(border.distance) < furthest


def test_without_a_direction_an_arc_stays_on_the_ray():
    problem, border, _ = setting()
    outer = ArcStep()(problem, border, torch.zeros(1, 4), 1)
    torch.testing.assert_close(outer / outer.norm(), unit(4).unsqueeze(0))
    assert torch.isfinite(outer).all()


@pytest.mark.parametrize(("width", "low", "high"), [(0.1, 0.75, 1.25), (0.4, 0.2, 1.8), (1.0, 0.1, 3.0)])
def test_a_wide_transition_is_looked_at_from_both_of_its_sides(width, low, high):
    problem, border, normal = setting()
    problem.notes.write("width", border.rows, torch.tensor([width], dtype=torch.float64))
    outer = ArcStep(first=0.1)(problem, border, normal, 1)
    span, furthest = float(problem.notes.read("span", border.rows, 0.0)), float(outer.norm())
    assert (1 - span) * furthest == pytest.approx(low, abs=0.05)  # in units of the distance, which is 1
    assert furthest == pytest.approx(high, abs=0.05)
