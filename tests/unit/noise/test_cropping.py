from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from listening import listening
from noise_toys import roots
from torch import Tensor
from torch.nn import functional

from popskipjump.errors import InputError
from popskipjump.noise import Cropping
from popskipjump.oracles import FunctionModel
from popskipjump.rng import Key, uniform


def spied(noise: Cropping, points: torch.Tensor, count: int) -> torch.Tensor:
    """What the model is shown in `count` queries of the one image."""
    seen: list[np.ndarray] = []
    noise.sample(listening(seen.append), points.expand(count, *points.shape[1:]), roots(count))
    return torch.from_numpy(seen[0])


@pytest.fixture
def image() -> torch.Tensor:
    return uniform(Key(1).root(), 2 * 7 * 5).reshape(1, 2, 7, 5)


def test_the_model_sees_resized_squares_of_the_image_each_equally_often(image: Tensor) -> None:
    shown = spied(Cropping(4), image, 4000)
    squares = torch.cat([image[:, :, top : top + 4, left : left + 4] for top in range(4) for left in range(2)])
    expected = functional.interpolate(squares, size=(7, 5), mode="bilinear", align_corners=False)
    same = (shown.unsqueeze(1) - expected).flatten(2).abs().amax(dim=2) < 1e-6  # (4000, 8)
    assert (same.sum(dim=1) == 1).all()
    counts = same.sum(dim=0).double()
    assert float(((counts - 500) ** 2 / 500).sum()) < 7 + 5 * 14**0.5  # chi-square, 7 degrees of freedom


def test_a_square_as_large_as_the_image_shows_the_image() -> None:
    image = uniform(Key(1).root(), 36).reshape(1, 1, 6, 6)
    assert torch.equal(spied(Cropping(6), image, 3), image.expand(3, 1, 6, 6))


def test_the_truth_counts_every_place_once() -> None:
    image = torch.zeros(1, 1, 5, 5)
    image[0, 0, 0, 0] = 1.0  # seen by one of the nine squares of side 3
    model = FunctionModel(lambda x: (x.reshape(len(x), -1).max(axis=1) > 0).astype(int), classes=2)
    truth = Cropping(3).truth(model, image)
    assert truth.exact
    torch.testing.assert_close(truth.probabilities, torch.tensor([[8 / 9, 1 / 9]]))


def test_the_truth_is_estimated_where_places_are_many() -> None:
    image = torch.zeros(1, 1, 20, 20)
    image[..., :10] = 1.0
    model = FunctionModel(lambda x: (x[:, 0, 0, 0] > 0).astype(int), classes=2)
    truth = Cropping(5).truth(model, image, draws=2000)
    assert not truth.exact
    assert abs(float(truth.probabilities[0, 1]) - 10 / 16) < 5 * float(truth.standard_error[0, 1])


def test_many_places_are_drawn_uniformly() -> None:
    ramp = torch.arange(40.0).reshape(1, 1, 1, 40).expand(1, 1, 40, 40)
    left = spied(Cropping(1), ramp, 8000)[:, 0, 0, 0].double()
    assert abs(float(left.mean()) - 19.5) < 5 * (1599 / 12 / 8000) ** 0.5


@pytest.mark.parametrize("shape", [(3,), (5, 5), (1, 1, 5, 5)])
def test_inputs_that_are_no_images_are_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"images of shape \(C, H, W\)"):
        Cropping(3).check(FunctionModel(len), shape)


def test_a_square_larger_than_the_image_is_an_error() -> None:
    with pytest.raises(InputError, match="crop size 6 exceeds an image of 7 x 5 pixels"):
        Cropping(6).sample(FunctionModel(len), torch.zeros(1, 2, 7, 5), roots(1))


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3", float("nan")])
def test_a_size_that_is_no_positive_whole_number_is_an_error(size: Any) -> None:
    with pytest.raises(InputError, match="crop size must be a whole number of at least 1"):
        Cropping(size)
