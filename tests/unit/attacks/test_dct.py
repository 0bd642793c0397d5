from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from popskipjump.attacks.directions.adaptive.dct import Basis, basis_of, cosines
from popskipjump.rng import Key, normal

SHAPES = [(784,), (1, 28, 28), (3, 32, 32), (28, 28), (3, 100), (32, 32, 3), (2, 3, 4, 5), (16,), (5,), (2,), (1,)]
SHAPES += [(28, 28, 1), (100, 2), (16, 1, 1)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def points_of(basis: Basis, count: int = 7) -> torch.Tensor:
    return normal(Key(0).roots(torch.arange(count)), basis.dimension)


@pytest.mark.parametrize("size", [1, 2, 3, 28, 32, 784])
def test_the_cosines_are_orthonormal(size: int) -> None:
    matrix = cosines(size).double()
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size).double(), atol=1e-5, rtol=0)


@every_shape
def test_coefficients_and_points_are_inverse_to_each_other_both_ways(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    points = points_of(basis)
    torch.testing.assert_close(basis.to_points(basis.to_coefficients(points)), points, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(basis.to_coefficients(basis.to_points(points)), points, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "shape",
    [(1, 28, 28), (3, 32, 32), (5,), (20,), (784,), (3, 100), (1, 4, 5), (16, 8, 8)],
    ids=str,
)
def test_a_row_does_not_depend_on_the_rows_beside_it(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    points = points_of(basis, 300)
    for move in (basis.to_points, basis.to_coefficients):
        for rows in (1, 2, 5, 64):
            assert torch.equal(move(points[:rows]), move(points)[:rows])


@every_shape
def test_the_basis_keeps_lengths_and_angles(shape: tuple[int, ...]) -> None:
    points = points_of(Basis(shape))
    there = Basis(shape).to_coefficients(points)
    size = float((points @ points.T).abs().max())
    torch.testing.assert_close(there @ there.T, points @ points.T, atol=1e-5 * size, rtol=1e-4)


@every_shape
def test_the_bands_are_a_partition_of_all_coefficients(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    assert basis.band.shape == (basis.dimension,)
    assert basis.band.unique().tolist() == list(range(len(basis.band_size)))
    assert float(basis.band_size.sum()) == basis.dimension


@every_shape
def test_a_sum_over_bands_loses_nothing(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    values = points_of(basis)
    torch.testing.assert_close(basis.by_band(values).sum(dim=1), values.sum(dim=1), atol=1e-3, rtol=1e-4)


@every_shape
def test_a_number_for_each_band_reaches_all_of_its_coefficients(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    numbers = torch.arange(float(len(basis.band_size))).unsqueeze(0)
    assert torch.equal(basis.by_coefficient(numbers)[0], basis.band.to(torch.float32))
    torch.testing.assert_close(basis.by_band(basis.by_coefficient(numbers)), numbers * basis.band_size)


@every_shape
def test_every_candidate_is_the_spectrum_of_a_vector_of_length_one(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    total = (basis.candidates * basis.band_size).sum(dim=1)
    torch.testing.assert_close(total, torch.ones(len(total)))
    assert float(basis.candidates.min()) > 0


@every_shape
def test_the_first_candidate_is_even(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    torch.testing.assert_close(basis.candidates[0], torch.full_like(basis.band_size, 1 / basis.dimension))


@pytest.mark.parametrize("shape", [(5,), (2,), (1,), (3, 5)], ids=str)
def test_small_inputs_have_no_spectrum_and_no_patterns(shape: tuple[int, ...]) -> None:
    basis = Basis(shape)
    points = points_of(basis)
    assert torch.equal(basis.to_coefficients(points), points)
    assert len(basis.candidates) == len(basis.band_size) == 1
    assert basis.corners.shape == (0, basis.dimension)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((784,), (1, 1, 784)),
        ((1, 28, 28), (1, 28, 28)),
        ((28, 28), (1, 28, 28)),
        ((3, 32, 32), (3, 32, 32)),
        ((3, 100), (3, 1, 100)),
        ((5,), (1, 1, 5)),
        ((64, 4, 4), (64, 4, 4)),
        ((2, 3, 4, 5), (6, 4, 5)),
    ],
    ids=str,
)
def test_the_last_axes_are_space_and_the_others_channels(shape: tuple[int, ...], axes: tuple[int, int, int]) -> None:
    assert Basis(shape).axes == axes
    assert Basis(shape).last_channels == 1


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((28, 28, 1), (1, 28, 28)),
        ((128, 1), (1, 1, 128)),
        ((1, 1, 128), (1, 1, 128)),
        ((16, 1, 1), (1, 1, 16)),
        ((1, 1), (1, 1, 1)),
    ],
    ids=str,
)
def test_axes_of_one_value_do_not_count(shape: tuple[int, ...], axes: tuple[int, int, int]) -> None:
    assert Basis(shape).axes == axes


CHANNELS_LAST = [((32, 32, 3), (3, 32, 32)), ((5, 16, 12, 3), (15, 16, 12)), ((100, 2), (2, 1, 100))]


@pytest.mark.parametrize(("shape", "axes"), CHANNELS_LAST, ids=str)
def test_a_short_axis_behind_long_ones_holds_channels(shape: tuple[int, ...], axes: Any) -> None:
    assert Basis(shape).axes == axes


@pytest.mark.parametrize("shape", [shape for shape, _ in CHANNELS_LAST], ids=str)
def test_where_the_channels_are_does_not_matter(shape: tuple[int, ...]) -> None:
    last, first = Basis(shape), Basis((*shape[:-3], shape[-1], *shape[-3:-1]))

    def moved(points: Tensor) -> Tensor:
        return points.reshape(-1, *shape).movedim(-1, -len(shape[-3:])).reshape(points.shape)

    points = points_of(last)
    assert torch.equal(last.to_coefficients(points), first.to_coefficients(moved(points)))
    assert torch.equal(moved(last.to_points(points)), first.to_points(points))
    assert torch.equal(moved(last.blurred(points)), first.blurred(moved(points)))
    assert torch.equal(moved(last.corners), first.corners)


def test_a_flat_grey_image_lies_in_the_lowest_band() -> None:
    basis = Basis((3, 32, 32))
    there = basis.to_coefficients(torch.ones(1, 3072))
    assert float(there[0, 0]) == pytest.approx(math.sqrt(3072), rel=1e-4)
    assert int(basis.by_band(there**2).argmax()) == int(basis.band[0])


def test_a_checkerboard_lies_in_the_highest_grey_band() -> None:
    basis = Basis((3, 32, 32))
    energy = basis.by_band(basis.to_coefficients(basis.corners[:1]) ** 2)[0]
    highest = basis.band[32 * 32 - 1]  # of the mean over the channels
    assert float(energy[highest] / energy.sum()) > 0.6


def test_a_coloured_pattern_lies_in_other_bands_than_a_grey_one() -> None:
    basis = Basis((3, 32, 32))
    grey, coloured = torch.ones(2, 3, 32 * 32)
    coloured[1:] = -0.5
    energy = basis.by_band(basis.to_coefficients(torch.stack((grey, coloured)).flatten(1)) ** 2)
    assert float((energy[0] * energy[1]).sum()) < 1e-3 * float(energy[0].sum() * energy[1].sum())


@pytest.mark.parametrize(("shape", "count"), [((3, 32, 32), 8), ((28, 28), 8), ((3, 100), 6), ((784,), 6)], ids=str)
def test_the_patterns_are_of_plus_and_minus_one_with_both_signs(shape: tuple[int, ...], count: int) -> None:
    corners = Basis(shape).corners
    assert corners.shape == (count, math.prod(shape))
    assert torch.equal(corners.abs(), torch.ones_like(corners))
    assert torch.equal(corners[: count // 2], -corners[count // 2 :])


def test_the_basis_of_a_shape_is_made_once() -> None:
    assert basis_of((1, 28, 28)) is basis_of((1, 28, 28))
