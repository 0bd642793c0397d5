"""HopSkipJump and PopSkipJump on inputs of 3 x 224 x 224, where borders are planes: they come nearer, or stay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from popskipjump import HopSkipJump, Plane, Pool, PopSkipJump, evaluate
from popskipjump.evaluation import Report
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.rng import Key, normal

SHAPE = (3, 224, 224)
D = 3 * 224 * 224


@pytest.fixture(scope="module")
def problem() -> tuple[Plane, Tensor, Pool]:
    """A grey image at a height of 3 above a plane, with a start whose ray has a cosine of 0.1 with the normal."""
    unit = normal(Key(0).root(), D).squeeze(0)
    unit /= unit.norm()
    plane = Plane(unit, float(unit.sum() / 2) + 3.0)
    image = torch.full((1, *SHAPE), 0.5)
    sideways = normal(Key(3).root(), D).squeeze(0)
    start = (image.flatten(1) + 60 * sideways / sideways.norm() + 6 * unit).clamp(0, 1).reshape(image.shape)
    return plane, image, Pool(start, plane.labels(start))


def walked(problem: tuple[Plane, Tensor, Pool], attack: AttackConfig, budget: int, noise: str | None = None) -> Report:
    plane, image, starts = problem
    return evaluate(plane, image, plane.labels(image), attack, noise, starts=starts, budget=budget, verdict=0)


@pytest.mark.parametrize("noise", [None, "flip:0.1"])
def test_psj_does_not_walk_away(problem: tuple[Plane, Tensor, Pool], noise: str | None) -> None:
    distance = walked(problem, PopSkipJump(), 700, noise).trace.distance[:, 0]
    # Under flips, the error of the searches is of this size.
    assert float(distance.max()) < 1.05 * float(distance[0])


def test_the_floor_of_hsj_makes_its_answers_tell_where_the_border_is(problem: tuple[Plane, Tensor, Pool]) -> None:
    """As published, all answers are rounding from the second iteration on, and the walk leads away."""
    ours = walked(problem, HopSkipJump(), 1200)
    published = walked(problem, HopSkipJump(finest=0.0), 1200)
    assert float(ours.trace.distance[-1, 0]) < 0.92 * float(published.trace.distance[-1, 0])
    # Where the walk ended further out than it began, the nearest line is returned.
    for report in (ours, published):
        assert float(report.distances[0]) < 1.02 * float(report.trace.distance[0, 0])


def test_the_published_values_are_kept_where_float32_can_tell_them() -> None:
    image = torch.full((2, 1, 28, 28), 0.5)
    unit = normal(Key(0).root(), 784).squeeze(0)
    plane = Plane(unit / unit.norm(), float(unit.sum() / unit.norm() / 2) + 1.0)
    ours, published = (
        evaluate(plane, image, plane.labels(image), attack, iterations=3, verdict=0)
        for attack in (HopSkipJump(), HopSkipJump(finest=0.0))
    )
    assert torch.equal(torch.from_numpy(ours.points), torch.from_numpy(published.points))
