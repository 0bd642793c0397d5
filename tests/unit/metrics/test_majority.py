"""The border of the most frequent answer, exactly and by a sequential test.

The sequential tests below ask for a confidence of 1 - 1e-7 on each ray, so that a right program fails one of them with
a probability below 1e-6.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from present import present
from torch import Tensor

from popskipjump import HopSkipJump, TorchModel, evaluate
from popskipjump.errors import InputError
from popskipjump.metrics import MajorityClassifier, border_distance, majority_border
from popskipjump.noise import BitDepth, Cropping, Flip, LogitSampling, Smoothing
from popskipjump.oracles import FunctionModel, NoiseModel, Plane
from popskipjump.rng import Key
from popskipjump.zoo import mnist_images, mnist_model

SURE = 1 - 1e-7
SIGMA = 0.3


def strip() -> FunctionModel:
    """Class 1 where the first coordinate is between 0.5 and 1."""
    return FunctionModel(lambda x: ((x[:, 0] > 0.5) & (x[:, 0] < 1)).astype(int), classes=2)


def strip_border() -> float:
    """Where half of the smoothed answers are 1: smoothing moves the strip's border inwards."""
    normal, low, high = NormalDist(0, SIGMA), 0.4, 0.75
    for _ in range(60):
        x = (low + high) / 2
        inside = normal.cdf(1 - x) - normal.cdf(0.5 - x) > 0.5
        low, high = (low, x) if inside else (x, high)
    return high


class Blind:
    """Another noise model's answers, without its truth."""

    def __init__(self, noise: NoiseModel) -> None:
        self.noise = noise

    def sample(self, model: object, points: Tensor, roots: Tensor) -> Tensor:
        return self.noise.sample(model, points, roots)


ORIGIN, ACROSS = torch.zeros(1, 2), torch.tensor([[0.75, 0.0]])


def test_the_interval_holds_the_border_that_smoothing_has_moved() -> None:
    found = majority_border(
        strip(), Smoothing(SIGMA), ORIGIN, ACROSS, torch.zeros(1, dtype=torch.int64), confidence=SURE, draws=1 << 15
    )
    assert not found.exact
    assert float(found.low) <= strip_border() <= float(found.high)
    assert float(found.high - found.low) < 0.05
    assert float(found.low) > 0.51  # the base classifier's border is at 0.5
    assert float(found.distance) == pytest.approx(strip_border(), abs=0.02)


def test_more_draws_make_the_interval_narrower() -> None:
    labels = torch.zeros(1, dtype=torch.int64)
    few, many = (majority_border(strip(), Smoothing(SIGMA), ORIGIN, ACROSS, labels, draws=n) for n in (128, 1 << 14))
    assert float(many.high - many.low) < 0.5 * float(few.high - few.low)


def test_at_a_plane_the_majority_of_smoothed_answers_changes_where_the_plane_is() -> None:
    plane = Plane(torch.tensor([3.0, 4.0]), offset=1.0)
    origin, points = torch.zeros(2, 2), torch.tensor([[0.5, 0.5], [0.2, 0.9]])
    labels = plane.labels(origin)
    found = majority_border(plane, Smoothing(0.2), origin, points, labels, confidence=SURE, draws=1 << 13)
    base = border_distance(plane, origin, points, labels)
    assert ((found.low <= base) & (base <= found.high)).all()


def test_exact_and_drawn_answers_agree() -> None:
    model = TorchModel(mnist_model())
    images, labels = (torch.from_numpy(a) for a in mnist_images(3))
    points = images.flip(0)
    exact = majority_border(model, BitDepth(1, 3), images, points, labels)
    drawn = majority_border(model, Blind(BitDepth(1, 3)), images, points, labels, confidence=SURE)
    assert exact.exact
    assert not drawn.exact
    assert torch.equal(exact.low, exact.high)
    coarse = 2 / 32 * (points - images).flatten(1).norm(dim=1)  # where the answers come and go within a cell
    assert ((drawn.low - coarse <= exact.distance) & (exact.distance <= drawn.high + coarse)).all()


@pytest.mark.parametrize("noise", [Flip(0.3), LogitSampling(1.0), None], ids=str)
def test_noise_that_keeps_the_likeliest_answer_keeps_the_border(noise: NoiseModel | None) -> None:
    model = TorchModel(mnist_model())
    images, labels = (torch.from_numpy(a) for a in mnist_images(3))
    found = majority_border(model, noise, images, images.flip(0), labels)
    base = border_distance(model, images, images.flip(0), labels, steps=32, bisections=8)
    assert found.exact
    assert torch.equal(found.distance, base)


def test_a_ray_gets_the_same_answers_whatever_its_batch() -> None:
    origin, points = torch.zeros(3, 2), torch.tensor([[0.75, 0.0], [0.75, 0.5], [0.6, 0.1]])
    labels, ids = torch.zeros(3, dtype=torch.int64), torch.tensor([7, 3, 9])
    whole = majority_border(strip(), Smoothing(SIGMA), origin, points, labels, image_ids=ids, draws=256)
    one = majority_border(
        strip(), Smoothing(SIGMA), origin[1:2], points[1:2], labels[1:2], image_ids=ids[1:2], draws=256
    )
    assert torch.equal(whole.distance[1:2], one.distance)
    assert torch.equal(whole.high[1:2], one.high)


def test_a_majority_that_never_changes_has_no_border() -> None:
    never = FunctionModel(lambda x: np.zeros(len(x), int), classes=2)
    found = majority_border(never, Smoothing(0.1), ORIGIN, ACROSS, torch.zeros(1, dtype=torch.int64))
    assert float(found.distance) == float(found.high) == float("inf")


def test_a_strip_that_noise_hides_has_no_border() -> None:
    # at sigma = 2 at most a fifth of the answers is 1
    found = majority_border(strip(), Smoothing(2.0), ORIGIN, ACROSS, torch.zeros(1, dtype=torch.int64), confidence=SURE)
    assert float(found.distance) == float("inf")


def test_an_original_of_another_majority_has_distance_zero() -> None:
    found = majority_border(strip(), Smoothing(0.01), ACROSS, ORIGIN, torch.zeros(1, dtype=torch.int64))
    assert float(found.low) == float(found.distance) == float(found.high) == 0


def test_a_targeted_border_is_where_the_target_becomes_the_most_frequent() -> None:
    steps = FunctionModel(lambda x: (x[:, 0] > 0.3).astype(int) + (x[:, 0] > 0.6).astype(int), classes=3)
    labels, targets = torch.zeros(1, dtype=torch.int64), torch.full((1,), 2)
    any_ = majority_border(steps, Smoothing(0.02), ORIGIN, ACROSS, labels, confidence=SURE)
    two = majority_border(steps, Smoothing(0.02), ORIGIN, ACROSS, labels, targets=targets, confidence=SURE)
    assert float(any_.low) <= 0.3 <= float(any_.high) < 0.4
    assert float(two.low) <= 0.6 <= float(two.high) < 0.7


def test_a_point_that_is_not_finite_or_the_original_has_no_border() -> None:
    points = torch.tensor([[float("nan"), 0.0], [0.0, 0.0]])
    found = majority_border(strip(), Smoothing(0.01), torch.zeros(2, 2), points, torch.zeros(2, dtype=torch.int64))
    assert found.distance.isinf().all()


def test_drawn_answers_leave_the_global_generator_alone() -> None:
    state = torch.random.get_rng_state()
    majority_border(strip(), Smoothing(SIGMA), ORIGIN, ACROSS, torch.zeros(1, dtype=torch.int64), draws=64, key=Key(3))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"bisections": -1}, {"draws": 5}, {"confidence": 1.0}])
def test_a_search_that_cannot_work_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="steps must be at least 1"):
        majority_border(strip(), Smoothing(0.1), ORIGIN, ACROSS, torch.zeros(1, dtype=torch.int64), **wrong)


def test_the_mean_of_all_crops_can_be_attacked_like_any_classifier() -> None:
    model = TorchModel(mnist_model())
    images, labels = mnist_images(2)
    crops = MajorityClassifier(model, Cropping(26))
    report = evaluate(crops, images, labels, attack=HopSkipJump(iterations=2), verdict=0)
    places = [torch.from_numpy(array) for array in (images, report.points)]
    measured = majority_border(model, Cropping(26), places[0], places[1], torch.from_numpy(labels))
    assert (measured.distance.numpy() <= report.distances + 1e-4).all()
    assert np.isfinite(present(report.border_distances)).all()
