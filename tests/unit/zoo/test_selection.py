from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.zoo import select_images
from popskipjump.zoo.selection import CHUNK, FIRST

LABELS = np.arange(1000) % 10
IMAGES = np.linspace(0, 1, 1000, dtype=np.float32).reshape(1000, 1, 1, 1)  # each image is its own probability


def own_value(points: Tensor, labels: Tensor) -> Tensor:
    return points.flatten()


def test_only_images_with_enough_probability_are_chosen() -> None:
    chosen = select_images(own_value, IMAGES, LABELS, count=200)
    assert chosen.shape == (200,)
    assert chosen.dtype == np.int64
    assert len(set(chosen.tolist())) == 200
    assert (IMAGES[chosen] >= 0.75).all()


def test_the_threshold_itself_is_enough() -> None:
    half = np.full((10, 2), 0.75, dtype=np.float32)
    assert len(select_images(lambda p, _: p[:, 0], half, np.zeros(10), count=10)) == 10


def test_the_same_seed_gives_the_same_images_and_another_seed_others() -> None:
    first = select_images(own_value, IMAGES, LABELS, count=50, seed=1)
    np.testing.assert_array_equal(first, select_images(own_value, IMAGES, LABELS, count=50, seed=1))
    assert not np.array_equal(first, select_images(own_value, IMAGES, LABELS, count=50, seed=2))


def test_a_smaller_count_is_the_beginning_of_a_larger_one() -> None:
    many = select_images(own_value, IMAGES, LABELS, count=240)
    np.testing.assert_array_equal(select_images(own_value, IMAGES, LABELS, count=7), many[:7])


def test_no_call_gets_more_than_a_chunk_and_each_image_its_own_label() -> None:
    sizes = []

    def spy(points: Tensor, labels: Tensor) -> Tensor:
        sizes.append(len(points))
        index = (points.flatten() * 999).round().long()
        assert torch.equal(labels, index % 10)
        return torch.ones(len(points))

    select_images(spy, torch.from_numpy(IMAGES), torch.from_numpy(LABELS), count=1000)
    assert max(sizes) <= CHUNK
    assert sum(sizes) == 1000
    sizes.clear()
    select_images(spy, torch.from_numpy(IMAGES), torch.from_numpy(LABELS), count=3)
    assert sizes == [FIRST], "few images need few looks"


def test_too_few_good_images_are_counted_in_the_error() -> None:
    with pytest.raises(InputError, match=r"only 250 of 1000 images .* count=500"):
        select_images(own_value, IMAGES, LABELS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": LABELS[:3]}, "do not fit"),
        ({"count": 0}, "count=0"),
        ({"count": 1001}, "pass 1 to 1000"),
        ({"at_least": 1.5}, "not a probability"),
        ({"correct_probability": lambda p, _: p}, "one probability for each"),
        ({"correct_probability": lambda p, _: p.flatten() + 0.5}, r"outside \[0, 1\]"),
        ({"correct_probability": lambda p, _: p.flatten() * float("nan")}, "NaN"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "correct_probability": own_value,
        "images": IMAGES,
        "labels": LABELS,
        "count": 10,
    } | changes
    with pytest.raises(InputError, match=message):
        select_images(**arguments)
