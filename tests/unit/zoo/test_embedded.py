from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from popskipjump.errors import InputError
from popskipjump.zoo import mnist_images, mnist_model, read_mnist


def test_the_embedded_model_is_right_on_985_of_1000_embedded_images() -> None:
    images, labels = mnist_images()
    with torch.no_grad():
        predicted = mnist_model()(torch.from_numpy(images)).argmax(1).numpy()
    assert len(images) == 1000
    assert (predicted == labels).mean() >= 0.985


def test_the_embedded_model_reaches_its_accuracy_on_the_whole_test_set(data_folder: Path) -> None:
    images, labels = read_mnist(data_folder / "mnist")
    with torch.no_grad():
        predicted = mnist_model()(torch.from_numpy(images)).argmax(1).numpy()
    assert (predicted == labels).mean() >= 0.988


def test_each_call_gives_a_new_model_in_evaluation_mode() -> None:
    first, second = mnist_model(), mnist_model()
    assert first is not second
    assert not first.training
    first.train()
    assert not second.training


def test_loading_the_model_leaves_the_global_random_stream_alone() -> None:
    before = torch.random.get_rng_state()
    mnist_model()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_images_have_the_documented_types_and_range() -> None:
    images, labels = mnist_images(5)
    assert images.shape == (5, 1, 28, 28)
    assert labels.shape == (5,)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert images.min() == 0.0
    assert images.max() == 1.0
    assert labels.tolist() == [7, 2, 1, 0, 4]


def test_start_and_count_cut_the_same_sequence() -> None:
    images, labels = mnist_images()
    some, their_labels = mnist_images(3, start=10)
    np.testing.assert_array_equal(some, images[10:13])
    np.testing.assert_array_equal(their_labels, labels[10:13])
    assert len(mnist_images(start=990)[0]) == 10


def test_changing_the_returned_arrays_does_not_change_the_next_ones() -> None:
    images, labels = mnist_images(1)
    images[:] = 9.0
    labels[:] = -1
    again, labels_again = mnist_images(1)
    assert again.max() <= 1.0
    assert labels_again[0] == 7


@pytest.mark.parametrize(("count", "start"), [(1001, 0), (1, 1000), (-1, 0), (1, -1), (None, 1001)])
def test_a_range_outside_the_embedded_images_is_refused(count: int | None, start: int) -> None:
    with pytest.raises(InputError, match="there are 1000"):
        mnist_images(count, start)


def test_the_embedded_images_are_the_first_of_the_test_set(data_folder: Path) -> None:
    images, labels = mnist_images()
    full_images, full_labels = read_mnist(data_folder / "mnist", "test")
    np.testing.assert_array_equal(images, full_images[:1000])
    np.testing.assert_array_equal(labels, full_labels[:1000])
