from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.metrics import adversarial_accuracy

DISTANCES = torch.tensor([0.0, 1.0, 2.0, math.inf])
ETAS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 1e9])


def test_the_accuracy_is_the_share_of_images_further_than_eta() -> None:
    assert adversarial_accuracy(DISTANCES, ETAS).tolist() == [0.75, 0.75, 0.5, 0.5, 0.25, 0.25]


def test_below_its_distance_an_image_counts_its_clean_probability_and_from_there_on_the_adversarial_one() -> None:
    accuracy = adversarial_accuracy(
        torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.9, 0.8]), torch.tensor([0.5, 0.4])
    )
    torch.testing.assert_close(accuracy, torch.tensor([0.85, 0.65, 0.45]))


def test_an_adversarial_point_that_is_answered_better_than_the_image_does_not_help() -> None:
    accuracy = adversarial_accuracy(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([0.6]), torch.tensor([0.9]))
    torch.testing.assert_close(accuracy, torch.tensor([0.6]))


def test_the_accuracy_never_rises_with_eta() -> None:
    generator = torch.Generator().manual_seed(0)
    distances, clean, fooled = (torch.rand(50, generator=generator) for _ in range(3))
    curve = adversarial_accuracy(distances, torch.linspace(0, 1, 30), clean, fooled)
    assert (curve.diff() <= 1e-6).all()


@pytest.mark.parametrize("distances", [torch.tensor([math.nan]), torch.tensor([1.0, -1.0])])
def test_distances_that_are_none_are_an_error(distances: Tensor) -> None:
    with pytest.raises(InputError, match="negative or not numbers"):
        adversarial_accuracy(distances, ETAS)


@pytest.mark.parametrize("distances", [torch.zeros(0), torch.zeros(2, 2)])
def test_a_wrong_shape_is_an_error(distances: Tensor) -> None:
    with pytest.raises(InputError, match=r"one shape \(B,\)"):
        adversarial_accuracy(distances, ETAS)


def test_probabilities_for_other_images_are_an_error() -> None:
    with pytest.raises(InputError, match=r"one shape \(B,\)"):
        adversarial_accuracy(DISTANCES, ETAS, torch.ones(3))


@pytest.mark.parametrize("bad", [1.5, -0.1, math.nan])
def test_probabilities_out_of_range_are_an_error(bad: float) -> None:
    with pytest.raises(InputError, match=r"p_true_adversarial must hold probabilities"):
        adversarial_accuracy(DISTANCES, ETAS, None, torch.full((4,), bad))
