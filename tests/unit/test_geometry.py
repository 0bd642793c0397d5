from __future__ import annotations

import pytest
import torch
from torch import Tensor

from popskipjump.errors import UnknownNameError
from popskipjump.geometry import L2, LINF, Norm, across, clip, norm_of, per_row, unit
from popskipjump.rng import Key, normal
from popskipjump.types import Bounds

NORMS = [L2, LINF]


@pytest.fixture
def rows() -> torch.Tensor:
    return normal(Key(0).roots(torch.arange(6)), 9)


def test_per_row_lets_each_number_act_on_its_own_row() -> None:
    assert torch.equal(per_row(torch.tensor([2.0, 3.0])) * torch.ones(2, 2), torch.tensor([[2.0, 2.0], [3.0, 3.0]]))


def test_clip_moves_each_coordinate_to_the_nearest_bound() -> None:
    assert clip(torch.tensor([-1.0, 0.5, 3.0]), Bounds(0.0, 2.0)).tolist() == [0.0, 0.5, 2.0]


def test_the_l2_size_is_the_root_of_the_sum_of_squares() -> None:
    assert L2.size(torch.tensor([[3.0, 4.0], [0.0, -2.0]])).tolist() == [5.0, 2.0]


def test_the_linf_size_is_the_largest_change() -> None:
    assert LINF.size(torch.tensor([[3.0, -4.0], [0.0, -2.0]])).tolist() == [4.0, 2.0]


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_the_size_of_a_row_does_not_depend_on_the_others(norm: Norm, rows: Tensor) -> None:
    assert torch.equal(norm.size(rows)[2:3], norm.size(rows[2:3]))


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_a_blend_meets_both_ends(norm: Norm, rows: Tensor) -> None:
    outer, original = rows[:3], rows[3:]
    torch.testing.assert_close(norm.blend(outer, original, torch.zeros(3)), outer)
    torch.testing.assert_close(norm.blend(outer, original, torch.ones(3)), original)


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_a_blend_shrinks_the_distance_in_proportion(norm: Norm, rows: Tensor) -> None:
    outer, original = rows[:3], rows[3:]
    position = torch.tensor([0.25, 0.5, 0.9])
    left = norm.size(norm.blend(outer, original, position) - original)
    torch.testing.assert_close(left, (1 - position) * norm.size(outer - original))


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_a_blend_stays_between_its_ends(norm: Norm) -> None:
    generator = torch.Generator().manual_seed(0)
    outer, original = (torch.rand(500, 20, generator=generator) for _ in range(2))
    blended = norm.blend(outer, original, torch.rand(500, generator=generator))
    assert (blended >= torch.minimum(outer, original) - 1e-6).all()
    assert (blended <= torch.maximum(outer, original) + 1e-6).all()


def test_an_l2_blend_is_on_the_straight_line() -> None:
    middle = L2.blend(torch.tensor([[4.0, 0.0]]), torch.tensor([[0.0, 2.0]]), torch.tensor([0.25]))
    assert middle.tolist() == [[3.0, 0.5]]


def test_a_linf_blend_cuts_the_largest_changes_first() -> None:
    middle = LINF.blend(torch.tensor([[4.0, 1.0, -3.0]]), torch.zeros(1, 3), torch.tensor([0.5]))
    assert middle.tolist() == [[2.0, 1.0, -2.0]]


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_an_ascent_has_norm_one(norm: Norm, rows: Tensor) -> None:
    torch.testing.assert_close(norm.size(norm.ascent(rows)), torch.ones(6))


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_an_ascent_climbs_faster_than_any_other_direction_of_norm_one(norm: Norm, rows: Tensor) -> None:
    others = normal(Key(1).roots(torch.arange(200)), 9)
    others = others / per_row(norm.size(others))
    best = (norm.ascent(rows) * rows).sum(dim=1)
    assert (best >= (rows @ others.T).amax(dim=1)).all()


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_the_ascent_of_a_zero_gradient_is_zero(norm: Norm) -> None:
    assert torch.equal(norm.ascent(torch.zeros(2, 3)), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("name", "norm"), [("l2", L2), ("L2", L2), ("l-2", L2), ("linf", LINF), ("L_inf", LINF), (LINF, LINF)]
)
def test_a_norm_is_found_by_its_name(name: str, norm: Norm) -> None:
    assert norm_of(name) is norm


def test_an_unknown_norm_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="unknown norm 'l1': choose one of l2, linf"):
        norm_of("l1")


ANGLES = torch.tensor([0.0, 0.2, 0.7, 1.2])


def at_angles(angles: torch.Tensor, dimension: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    """Changes `(B, d)` of length 2, and unit normals at known angles from them."""
    first, second = (normal(Key(seed).roots(torch.arange(len(angles))), dimension) for seed in (2, 3))
    ray = L2.ascent(first)
    side = unit(across(second, ray))
    return 2 * ray, per_row(torch.cos(angles)) * ray + per_row(torch.sin(angles)) * side


def test_turned_by_the_angle_of_its_normal_a_border_point_is_the_foot_of_the_perpendicular() -> None:
    change, unit = at_angles(ANGLES)
    foot = per_row((change * unit).sum(dim=1)) * unit  # of the plane through the border point
    torch.testing.assert_close(L2.turn(change, unit, ANGLES), foot, atol=1e-5, rtol=1e-5)


def test_a_turned_point_lies_on_the_circle_over_the_old_change() -> None:
    change, unit = at_angles(ANGLES[1:])  # along the ray itself there is no circle
    turned = L2.turn(change, 3 * unit, torch.full((3,), 0.4))
    torch.testing.assert_close((turned * (change - turned)).sum(dim=1), torch.zeros(3), atol=1e-5, rtol=0)


def test_a_turn_shortens_by_the_cosine_of_its_angle() -> None:
    change, unit = at_angles(torch.full((4,), 0.9))
    torch.testing.assert_close(L2.size(L2.turn(change, unit, ANGLES)), 2 * torch.cos(ANGLES))


@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_a_turn_by_nothing_changes_nothing(norm: Norm, rows: Tensor) -> None:
    torch.testing.assert_close(norm.turn(rows[:3], rows[3:], torch.zeros(3)), rows[:3])


def test_a_gradient_along_the_ray_turns_nothing_aside() -> None:
    change, _ = at_angles(ANGLES)
    turned = L2.turn(change, torch.zeros_like(change), torch.full((4,), 0.3))
    torch.testing.assert_close(turned, torch.cos(torch.tensor(0.3)) ** 2 * change)


def test_a_linf_turn_steps_along_the_signs_and_cuts_the_largest_changes(rows: Tensor) -> None:
    change, gradient = rows[:3], rows[3:]
    angle = torch.tensor(0.3)
    turned = LINF.turn(change, gradient, angle.expand(3))
    size = LINF.size(change).unsqueeze(1)
    stepped = change + size * torch.tan(angle) * gradient.sign()
    within = stepped.abs() <= size * torch.cos(angle)
    assert within.any()
    torch.testing.assert_close(turned[within], stepped[within])
    assert (LINF.size(turned) <= (size * torch.cos(angle)).squeeze(1) * (1 + 1e-6)).all()


def test_what_is_across_a_direction_is_at_right_angles_to_it_and_keeps_the_rest(rows: Tensor) -> None:
    vectors, direction = rows[:3], unit(rows[3:])
    side = across(vectors, direction)
    torch.testing.assert_close((side * direction).sum(dim=1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(across(side, direction), side, atol=1e-6, rtol=1e-5)
    removed = vectors - side
    torch.testing.assert_close(L2.size(removed) ** 2 + L2.size(side) ** 2, L2.size(vectors) ** 2)


def test_one_direction_serves_many_vectors(rows: Tensor) -> None:
    direction = unit(rows[:1])
    torch.testing.assert_close(across(rows, direction)[4:5], across(rows[4:5], direction))


def test_a_row_of_length_one_or_none(rows: Tensor) -> None:
    made = unit(torch.cat((rows, torch.zeros_like(rows[:1]))))
    torch.testing.assert_close(L2.size(made), torch.tensor([1.0] * len(rows) + [0.0]))
