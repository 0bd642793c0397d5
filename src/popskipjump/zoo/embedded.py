"""The MNIST model and images that ship with the package, for a first run without a download."""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np
import torch
from numpy.typing import NDArray

from popskipjump.errors import InputError
from popskipjump.zoo.nets import MnistCnn
from popskipjump.zoo.readers import to_unit
from popskipjump.zoo.weights import load_weights

PACKAGE = "popskipjump.zoo"
WEIGHTS = "mnist_cnn.safetensors"
IMAGES = "mnist_test_1000.npz"


def mnist_model() -> MnistCnn:
    """The paper's MNIST network with the weights of `scripts/train_mnist.py`, in evaluation mode.

    Each call returns a new module, so that changing one (its mode, its weights) does not change another.
    """
    with torch.random.fork_rng(devices=[]):  # initialisation must not advance the global generator
        model = MnistCnn()
    with resources.as_file(resources.files(PACKAGE) / "assets" / WEIGHTS) as path:
        return load_weights(model, path).eval()


def mnist_images(count: int | None = None, start: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Some of the first 1,000 MNIST test images, in the original order.

    Args:
        count: how many; None for all from `start` on.
        start: index of the first.

    Returns:
        Images float32 `(N, 1, 28, 28)` in [0, 1] and labels int64 `(N,)`; fresh arrays at each call.

    Raises:
        InputError: the range does not lie within the 1,000.
    """
    images, labels = _stored()
    stop = len(images) if count is None else start + count
    if not 0 <= start <= stop <= len(images):
        raise InputError(
            f"images {start} to {stop} are not all embedded: there are {len(images)}, counted from 0. "
            "Read the full data set with `read_mnist(folder)`."
        )
    return to_unit(images[start:stop, np.newaxis]), labels[start:stop].astype(np.int64)


@cache
def _stored() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images `(1000, 28, 28)` and labels `(1000,)` as bytes; unpacked once, never handed out."""
    source = resources.files(PACKAGE) / "assets" / IMAGES
    with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return archive["images"], archive["labels"]
