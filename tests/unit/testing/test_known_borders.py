"""The analytic zoo says the truth."""

from __future__ import annotations

import pytest
import torch

from popskipjump import Plane
from popskipjump.errors import InputError
from popskipjump.testing import Polytope, known_borders

KINDS = ["plane", "sphere", "slab", "polytope", "voronoi"]


@pytest.mark.parametrize("dimension", [10, 20, 100])
@pytest.mark.parametrize("name", KINDS)
def test_the_nearest_border_point_is_where_the_distance_says_and_within_the_cube(name: str, dimension: int) -> None:
    case = known_borders(dimension, count=8)[name]
    distance = getattr(case.model, "distance")  # noqa: B009 - of these models, not of every classifier
    points = case.images.clone().requires_grad_(True)
    (uphill,) = torch.autograd.grad(distance(points).sum(), points)
    unit = -uphill / uphill.norm(dim=1, keepdim=True)
    torch.testing.assert_close(uphill.norm(dim=1), torch.ones(8), rtol=1e-4, atol=1e-4)  # it is a distance
    before, beyond = (case.images + factor * case.distances.float().unsqueeze(1) * unit for factor in (0.99, 1.01))
    assert torch.equal(case.model.labels(before), case.labels)
    assert not (case.model.labels(beyond) == case.labels).any()
    assert 0 <= float(beyond.min()) <= float(beyond.max()) <= 1
    assert not (case.model.labels(case.starts) == case.labels).any()


@pytest.mark.parametrize("name", KINDS)
def test_no_nearer_point_is_of_another_class(name: str) -> None:
    case = known_borders(count=2)[name]
    directions = torch.randn(5000, 20, generator=torch.Generator().manual_seed(0))
    directions /= directions.norm(dim=1, keepdim=True)
    for image, label, distance in zip(case.images, case.labels, case.distances, strict=True):
        assert (case.model.labels(image + 0.999 * float(distance) * directions) == label).all()


def test_another_seed_gives_another_zoo() -> None:
    first, second = (known_borders(seed=seed)["plane"] for seed in (0, 1))
    assert not torch.equal(first.images, second.images)
    assert isinstance(first.model, Plane)
    assert isinstance(second.model, Plane)
    assert not torch.equal(first.model.normal, second.model.normal)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match="at least 10"):
        known_borders(3)
    with pytest.raises(InputError, match="from inside alone"):
        Polytope(torch.eye(2), torch.zeros(2)).distance(torch.ones(1, 2))
