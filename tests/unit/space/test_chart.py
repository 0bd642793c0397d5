"""Free coordinates: every point stands for a valid input that is no farther from the original."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from space_toys import mixed_rows, mixed_space

import popskipjump as psj
from popskipjump.space import Chart


def _points(chart: Chart, count: int, seed: int) -> torch.Tensor:
    stream = torch.Generator().manual_seed(seed)
    return torch.rand(count, chart.dimension, generator=stream) * chart.top


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**31), st.sampled_from(["range", 0.5, "own"]))
def test_every_point_stands_for_a_valid_input(seed: int, scale: object) -> None:
    own = [0.3, 40, 2, 1, 3, 3, 3, 0.5, 1]
    space = mixed_space(scale=own if scale == "own" else scale)
    originals = mixed_rows(4, seed)
    chart = Chart(space, torch.from_numpy(originals))
    image = torch.arange(4).repeat_interleave(50)
    rows = chart.expand(_points(chart, 200, seed), image).numpy()
    space.check(rows)
    assert np.array_equal(rows[:, 8], originals[image, 8])


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 2**31))
def test_the_valid_input_is_no_farther_than_its_point(seed: int) -> None:
    space = mixed_space()
    chart = Chart(space, torch.from_numpy(mixed_rows(3, seed)))
    image = torch.arange(3).repeat_interleave(60)
    start = chart.start[image]
    points = start + (_points(chart, 180, seed) - start) * torch.linspace(0, 1, 180).unsqueeze(1)
    rows = chart.expand(points, image)
    for norm in ("l2", "linf"):
        change = points - start
        there = change.norm(dim=1) if norm == "l2" else change.abs().amax(dim=1)
        assert (space.distance(rows, chart.original[image], norm) <= there.numpy() + 2e-3).all()


def test_the_originals_coordinates_stand_for_the_original_to_the_last_digit() -> None:
    originals = torch.from_numpy(mixed_rows(50, 3))
    chart = Chart(mixed_space(), originals)
    assert torch.equal(chart.expand(chart.start, torch.arange(50)), originals)


def test_every_valid_input_with_the_same_immutable_features_has_a_point() -> None:
    rows = torch.from_numpy(mixed_rows(80, 5))
    rows[:, 8] = 40
    chart = Chart(mixed_space(), rows[:1])
    back = chart.expand(chart.coordinates(rows), torch.zeros(80, dtype=torch.int64))
    assert torch.allclose(back, rows, rtol=1e-5, atol=1e-5)
    assert torch.equal(back[:, 2:], rows[:, 2:])  # whole numbers, levels and categories exactly


def test_steps_are_rounded_towards_the_original() -> None:
    chart = Chart(psj.Space([0, 0], [10, 1], integer=[0], scale=1.0), torch.tensor([[4.0, 0.5]]))
    moves = torch.tensor([0.4, 0.9, 1.0, 1.9, -0.9, -1.0, -9.0])
    points = chart.start.repeat(7, 1)
    points[:, 0] += moves
    assert chart.expand(points, torch.zeros(7, dtype=torch.int64))[:, 0].tolist() == [4, 4, 5, 5, 4, 3, 0]


def test_a_category_changes_once_its_cost_is_paid() -> None:
    chart = Chart(psj.Space([0, 0], [2, 1], categories={0: 3}, immutable=[1]), torch.tensor([[1.0, 0.5]]))
    points = chart.start.repeat(3, 1)
    points[0, 0] += 0.99
    points[1, 0] += 1.0
    points[2, 2] += 1.2
    assert chart.expand(points, torch.zeros(3, dtype=torch.int64))[:, 0].tolist() == [1, 0, 2]


def test_only_free_features_have_coordinates() -> None:
    chart = Chart(mixed_space(), torch.from_numpy(mixed_rows(2)))
    assert chart.dimension == 4 + 3 + 4
    assert chart.layout == (11,)


def test_a_whole_image_and_a_patch_keep_their_axes_and_scattered_pixels_do_not() -> None:
    images = torch.zeros(1, 3, 8, 8)
    patch = np.zeros((8, 8), bool)
    patch[2:6, 1:4] = True
    scattered = patch.copy()
    scattered[0, 0] = True
    of = {"whole": np.ones((3, 8, 8), bool), "patch": patch, "scattered": scattered}
    layouts = {
        name: Chart(psj.Space(0, 1, scale=1, mask=mask, shape=(3, 8, 8)), images).layout for name, mask in of.items()
    }
    assert layouts == {"whole": (3, 8, 8), "patch": (3, 4, 3), "scattered": (39,)}


def test_nothing_free_is_refused() -> None:
    with pytest.raises(psj.InputError, match="no feature free"):
        Chart(psj.Space([0, 0], [1, 1], mask=[0, 0]), torch.zeros(1, 2))
