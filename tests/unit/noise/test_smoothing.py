from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from listening import listening
from noise_toys import roots

from popskipjump.errors import InputError
from popskipjump.noise import Smoothing
from popskipjump.oracles import FunctionModel, Plane


def test_every_coordinate_gets_its_own_normal_of_the_given_spread() -> None:
    seen: list[np.ndarray] = []
    model = listening(seen.append)
    Smoothing(0.2).sample(model, torch.full((5000, 2, 3), 0.5), roots(5000))
    noise = torch.from_numpy(seen[0]).flatten(1).double() - 0.5
    assert float(noise.mean(dim=0).abs().max()) < 5 * 0.2 / math.sqrt(5000)
    covariance = torch.cov(noise.T) / 0.04 - torch.eye(6)
    assert float(covariance.abs().max()) < 5 * math.sqrt(2 / 5000)


def test_the_truth_at_a_plane_is_the_normal_distribution_of_the_height() -> None:
    plane = Plane(torch.tensor([3.0, 4.0]), offset=1.0)
    points = torch.tensor([[0.5, 0.5], [0.1, 0.1], [0.2, 0.1]])
    truth = Smoothing(0.3).truth(plane, points, draws=5000)
    expected = torch.special.ndtr(plane.height(points) / 0.3)
    assert ((truth.probabilities[:, 1] - expected).abs() < 5 * truth.standard_error[:, 1]).all()


def test_the_noisy_input_is_not_clipped() -> None:
    seen: list[np.ndarray] = []
    model = listening(seen.append)
    Smoothing(1.0).sample(model, torch.zeros(100, 1), roots(100))
    assert seen[0].min() < -1 and seen[0].max() > 1  # noqa: PT018


def test_a_model_that_does_not_know_its_classes_has_no_truth() -> None:
    model = FunctionModel(lambda x: np.zeros(len(x), int))
    with pytest.raises(InputError, match=r"FunctionModel\(function, classes=10\)"):
        Smoothing(0.1).truth(model, torch.zeros(2, 1))


def test_draws_must_be_at_least_one() -> None:
    with pytest.raises(InputError, match="draws must be a whole number of at least 1"):
        Smoothing(0.1).truth(Plane(torch.ones(1)), torch.zeros(2, 1), draws=0)


@pytest.mark.parametrize("sigma", [-0.1, float("nan"), float("inf")])
def test_a_sigma_out_of_range_is_an_error(sigma: float) -> None:
    with pytest.raises(InputError, match="sigma must be finite and at least 0"):
        Smoothing(sigma)
