from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from popskipjump.errors import InputError
from popskipjump.oracles import Oracle, PlanarSigmoid, Plane, Sphere, Targeted, Untargeted, WhiteBox, device_of
from popskipjump.oracles.classifier import Classifier
from popskipjump.rng import Key, normal

PLANE = Plane(torch.tensor([3.0, 4.0]), offset=5.0)
SPHERE = Sphere(torch.tensor([1.0, 0.0]), radius=2.0)


@pytest.mark.parametrize("shape", [PLANE, SPHERE], ids=["plane", "sphere"])
def test_an_analytic_classifier_is_a_white_box(shape: Any) -> None:
    assert isinstance(shape, WhiteBox)


def test_a_classifier_is_an_oracle() -> None:
    assert isinstance(Classifier(PLANE), Oracle)


def test_an_oracle_that_does_not_say_computes_on_the_cpu() -> None:
    assert device_of(object()) == torch.device("cpu")


def test_the_height_over_a_plane_is_the_signed_distance() -> None:
    assert PLANE.height(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist() == [4.0, -1.0]


def test_the_linf_distance_to_a_plane_is_reached_along_the_signs() -> None:
    point = torch.tensor([[0.0, 0.0]])
    distance = PLANE.distance(point, "linf")
    assert float(PLANE.height(point + distance)) == pytest.approx(0.0, abs=1e-6)


def test_the_border_of_a_sphere_is_at_its_radius() -> None:
    assert SPHERE.labels(torch.tensor([[2.9, 0.0], [3.1, 0.0]])).tolist() == [0, 1]
    assert SPHERE.distance(torch.tensor([[1.0, 1.5]])).tolist() == [0.5]


@pytest.mark.parametrize("shape", [PLANE, SPHERE], ids=["plane", "sphere"])
def test_the_margin_gradient_points_across_the_border(shape: Any) -> None:
    points = normal(Key(0).roots(torch.arange(40)), 2) * 3
    labels = shape.labels(points)
    across = points + shape.margin_gradient(points, labels) * (shape.distance(points) + 1e-3).unsqueeze(1)
    assert (shape.labels(across) != labels).all()


@pytest.mark.parametrize("shape", [PLANE, SPHERE], ids=["plane", "sphere"])
def test_log_probabilities_are_certain(shape: Any) -> None:
    points = normal(Key(0).roots(torch.arange(40)), 2) * 3
    probabilities = shape.log_probs(points).exp()
    assert torch.equal(probabilities.argmax(dim=1), shape.labels(points))
    assert torch.equal(probabilities.amax(dim=1), torch.ones(40))


def test_a_planar_sigmoid_has_the_given_slope_at_its_centre() -> None:
    sigmoid = PlanarSigmoid(Plane(torch.tensor([1.0])), slope=2.0)
    low, high = sigmoid.probability(torch.tensor([[-0.001], [0.001]])).tolist()
    assert (high - low) / 0.002 == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("slope", [1.0, 100.0, math.inf])
def test_a_planar_sigmoid_answers_as_often_as_its_probability(slope: float) -> None:
    plane = Plane(torch.tensor([1.0]))
    noise = PlanarSigmoid(plane, slope=slope, floor=0.1)
    for height in (-2.0, 0.0, 0.1, 2.0):
        points = torch.full((5000, 1), height)
        share = float(noise.sample(plane, points, Key(1).roots(torch.arange(5000))).double().mean())
        probability = float(noise.probability(points[:1]))
        assert abs(share - probability) < 5 * math.sqrt(probability * (1 - probability) / 5000)


@pytest.mark.parametrize(("slope", "floor"), [(0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0), (1.0, 0.5), (1.0, -0.1)])
def test_a_sigmoid_out_of_range_is_an_error(slope: float, floor: float) -> None:
    with pytest.raises(InputError, match="slope must be positive"):
        PlanarSigmoid(PLANE, slope, floor)


def test_every_label_but_the_true_one_is_adversarial() -> None:
    criterion = Untargeted(torch.tensor([3, 5]))
    decided = criterion.decide(torch.tensor([3, 5, 5, 0]), torch.tensor([0, 0, 1, 1]))
    assert decided.tolist() == [False, True, False, True]


def test_the_target_alone_is_adversarial() -> None:
    criterion = Targeted(torch.tensor([3, 5]))
    decided = criterion.decide(torch.tensor([3, 5, 5, 0]), torch.tensor([0, 0, 1, 1]))
    assert decided.tolist() == [True, False, True, False]
