from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.geometry import L2, LINF, Norm
from popskipjump.metrics import border_distance
from popskipjump.oracles import Plane, Sphere
from popskipjump.rng import Key, uniform

WIDE = (-10.0, 10.0)


class Bands:
    """Labels by the first coordinate: class i between edge i - 1 and edge i."""

    def __init__(self, *edges: float) -> None:
        self.edges = torch.tensor(edges)
        self.sizes: list[int] = []

    def labels(self, points: Tensor) -> Tensor:
        self.sizes.append(len(points))
        return torch.bucketize(points.flatten(1)[:, 0].contiguous(), self.edges)


def line(*ends: float) -> Tensor:
    return torch.tensor(ends).unsqueeze(1)


def zeros(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.int64)


@pytest.mark.parametrize("norm", [L2, LINF], ids=["l2", "linf"])
def test_the_border_of_a_plane_is_found_on_the_ray(norm: Norm) -> None:
    plane = Plane(torch.tensor([3.0, 4.0]), offset=5.0)
    originals = uniform(Key(0).roots(torch.arange(50)), 2) - 1.0  # all in class 0
    points = originals + 2 * uniform(Key(1).roots(torch.arange(50)), 2) + 1.0
    found = border_distance(plane, originals, points, zeros(50), norm, bounds=WIDE)
    share = -plane.height(originals) / (plane.height(points) - plane.height(originals))
    expected = torch.where((share > 0) & (share < 2), share * norm.size(points - originals), math.inf)
    assert expected.isfinite().sum() > 30
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_border_is_found_on_either_side_of_the_point() -> None:
    points = line(1.0, 1.9)  # beyond the border and before it
    found = border_distance(Bands(1.5), line(0.0, 0.0), points, zeros(2), bounds=WIDE)
    torch.testing.assert_close(found, torch.tensor([1.5, 1.5]), rtol=1e-5, atol=0)


def test_the_found_place_is_adversarial_itself() -> None:
    sphere = Sphere(torch.zeros(3), radius=0.7)
    points = uniform(Key(0).roots(torch.arange(40)), 3)
    found = border_distance(sphere, torch.zeros(40, 3), points, zeros(40), bounds=WIDE)
    reached = found.isfinite()
    torch.testing.assert_close(found[reached], torch.full_like(found[reached], 0.7), rtol=1e-5, atol=0)
    assert (found[reached] >= 0.7 - 1e-6).all()


def test_the_first_of_several_borders_counts() -> None:
    class Island(Bands):
        def labels(self, points: Tensor) -> Tensor:
            return super().labels(points) % 2  # class 0, 1 between the first two edges, 0 again, 1

    found = border_distance(Island(0.5, 0.6, 1.0), line(0.0), line(1.2), zeros(1), bounds=WIDE)
    assert float(found) == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 3, 64])
def test_the_point_itself_is_always_looked_at(steps: int) -> None:
    class Needle:
        def labels(self, points: Tensor) -> Tensor:
            return (points[:, 0] == torch.tensor(0.7)).to(torch.int64)

    found = border_distance(Needle(), line(0.1), line(0.7), zeros(1), steps=steps, reach=2.5)
    assert float(found) == pytest.approx(0.6, rel=1e-6)


def test_without_a_border_within_reach_the_distance_is_infinite() -> None:
    ends = line(0.9, 1.1)
    found = border_distance(Bands(2.0), line(0.0, 0.0), ends, zeros(2), bounds=WIDE, reach=2.0)
    assert found.isinf().tolist() == [True, False]


def test_a_longer_reach_finds_a_border_further_out() -> None:
    found = border_distance(Bands(2.0), line(0.0), line(0.5), zeros(1), bounds=WIDE, reach=5.0)
    assert float(found) == pytest.approx(2.0, rel=1e-5)


def test_a_short_reach_stops_before_the_point() -> None:
    found = border_distance(Bands(0.3, 0.8), line(0.0), line(1.0), zeros(1), reach=0.5)
    assert float(found) == pytest.approx(0.3, rel=1e-5)
    assert border_distance(Bands(0.8), line(0.0), line(1.0), zeros(1), reach=0.5).isinf().all()


def test_a_misclassified_original_is_at_distance_zero() -> None:
    found = border_distance(Bands(0.5), line(0.6, 0.2), line(0.9, 0.9), zeros(2))
    assert float(found[0]) == 0.0
    assert float(found[1]) == pytest.approx(0.3, rel=1e-5)


def test_a_point_that_is_its_original_meets_no_border() -> None:
    assert border_distance(Bands(0.5), line(0.2), line(0.2), zeros(1)).tolist() == [math.inf]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_point_that_is_not_finite_meets_no_border(bad: float) -> None:
    found = border_distance(Bands(0.5), line(0.2, 0.2, 0.6), line(bad, 0.9, bad), zeros(3))
    assert found[0].isinf()
    assert float(found[1]) == pytest.approx(0.3, rel=1e-5)
    assert float(found[2]) == 0.0


def test_a_target_alone_counts_as_adversarial() -> None:
    bands, targets = Bands(0.3, 0.6), torch.tensor([1, 2])
    found = border_distance(bands, line(0.0, 0.0), line(0.9, 0.9), zeros(2), targets=targets)
    torch.testing.assert_close(found, torch.tensor([0.3, 0.6]), rtol=1e-5, atol=0)


def test_a_target_never_met_is_infinite() -> None:
    found = border_distance(Bands(0.3), line(0.0), line(0.9), zeros(1), targets=torch.tensor([5]))
    assert found.isinf().all()


def test_beyond_the_bounds_the_clipped_point_is_asked_and_measured() -> None:
    class Second:
        def labels(self, points: Tensor) -> Tensor:
            assert float(points.min()) >= 0
            assert float(points.max()) <= 1
            return (points[:, 1] > 0.7).to(torch.int64)

    # The first coordinate ends at 1 from position 1.25 on; the border is met at 1.75, with a change of (1, 0.7).
    found = border_distance(Second(), torch.zeros(1, 2), torch.tensor([[0.8, 0.4]]), zeros(1))
    assert float(found) == pytest.approx(math.hypot(1.0, 0.7), rel=1e-5)


def test_images_of_any_shape_are_measured_as_one_vector() -> None:
    class Mean:
        def labels(self, points: Tensor) -> Tensor:
            assert points.shape[1:] == (3, 2, 2)
            return (points.mean(dim=(1, 2, 3)) > 0.5).to(torch.int64)

    found = border_distance(Mean(), torch.zeros(2, 3, 2, 2), torch.ones(2, 3, 2, 2), zeros(2))
    torch.testing.assert_close(found, torch.full((2,), 0.5 * math.sqrt(12)), rtol=1e-5, atol=0)


def test_no_call_exceeds_1024_rows() -> None:
    bands = Bands(0.5)
    border_distance(bands, torch.zeros(100, 1), torch.ones(100, 1), zeros(100))
    assert max(bands.sizes) == 1024


def test_an_image_does_not_depend_on_its_batch() -> None:
    sphere = Sphere(torch.zeros(3), radius=0.7)
    points = uniform(Key(0).roots(torch.arange(40)), 3)
    whole = border_distance(sphere, torch.zeros(40, 3), points, zeros(40))
    alone = torch.cat([border_distance(sphere, torch.zeros(1, 3), row[None], zeros(1)) for row in points])
    assert torch.equal(alone, whole)


@pytest.mark.parametrize("bisections", [0, 1, 3, 7])
def test_the_adversarial_end_of_what_remains_is_measured(bisections: int) -> None:
    found = border_distance(Bands(0.51), line(0.0), line(1.0), zeros(1), bisections=bisections)
    assert 0.51 < float(found) <= 0.51 + 2 / 64 / 2**bisections


def test_more_bisections_come_closer() -> None:
    def miss(bisections: int) -> float:
        return abs(float(border_distance(Bands(0.51), line(0.0), line(1.0), zeros(1), bisections=bisections)) - 0.51)

    assert miss(0) <= 2 / 64
    assert miss(20) < 1e-6 < miss(3)


def test_an_empty_batch_has_no_distances() -> None:
    assert border_distance(Bands(0.5), torch.zeros(0, 1), torch.zeros(0, 1), zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("points", "labels", "options", "message"),
    [
        (torch.zeros(2, 2), zeros(2), {}, "one shape"),
        (torch.zeros(2, 1), zeros(3), {}, "labels must have shape"),
        (torch.zeros(2, 1), zeros(2), {"targets": zeros(1)}, "targets must have shape"),
        (torch.zeros(2, 1), zeros(2), {"steps": 0}, "steps must be at least 1"),
        (torch.zeros(2, 1), zeros(2), {"bisections": -1}, "bisections at least 0"),
        (torch.zeros(2, 1), zeros(2), {"reach": 0.0}, "reach positive"),
        (torch.zeros(2, 1), zeros(2), {"bounds": (1.0, 0.0)}, "low < high"),
    ],
)
def test_arguments_out_of_range_are_errors(points: Tensor, labels: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        border_distance(Bands(0.5), torch.zeros(2, 1), points, labels, **options)


def test_an_unknown_norm_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="norm"):
        border_distance(Bands(0.5), torch.zeros(1, 1), torch.zeros(1, 1), zeros(1), "l1")


def test_by_default_the_ray_is_followed_far_beyond_a_point_that_fell_short() -> None:
    found = border_distance(Bands(0.7), line(0.0), line(0.01), zeros(1))
    torch.testing.assert_close(found, torch.tensor([0.7]), rtol=1e-4, atol=0)
