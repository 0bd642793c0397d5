"""Selection of test images that a noisy classifier labels correctly often enough (the paper's rule)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from popskipjump.errors import InputError

CHUNK = 256  # images in one call of `correct_probability`
FIRST = 16  # in the first call; each next one has twice as many

CorrectProbability = Callable[[Tensor, Tensor], Tensor]
"""From points `(M, *S)` float32 and labels `(M,)` int64 to `(M,)`, how probable the right answer is for each."""


def select_images(
    correct_probability: CorrectProbability,
    images: Tensor | ArrayLike,
    labels: Tensor | ArrayLike,
    count: int = 500,
    *,
    at_least: float = 0.75,
    seed: int = 0,
) -> NDArray[np.int64]:
    """A random subset of the images that are labelled correctly with enough probability.

    The images are visited in a random order, 16 and then ever more at a time up to 256, until enough have been found.
    How many does not depend on `count`, so a smaller one gives the beginning of what a larger one gives.

    Args:
        correct_probability: the probability of the right answer, exact or estimated; see `CorrectProbability`.
        images: `(N, *S)`.
        labels: `(N,)`.
        count: how many to choose.
        at_least: the smallest probability in [0, 1] to accept.
        seed: of the order; the same seed gives the same subset.

    Returns:
        `(count,)` indices into `images`, in the order in which they were visited.

    Raises:
        InputError: the arguments do not fit each other, or too few images qualify.
    """
    points = torch.as_tensor(images, dtype=torch.float32)
    truth = torch.as_tensor(labels, dtype=torch.int64)
    _check(points, truth, count, at_least)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(points)))
    chosen: list[int] = []
    for part in _growing(order):
        probability = _ask(correct_probability, points[part], truth[part])
        chosen += part[probability >= at_least].tolist()
        if len(chosen) >= count:
            return np.array(chosen[:count], dtype=np.int64)
    raise InputError(
        f"only {len(chosen)} of {len(points)} images are labelled correctly with probability >= {at_least}, "
        f"fewer than count={count}. Pass more images, a smaller `count` or a lower `at_least`."
    )


def _growing(order: Tensor) -> Iterator[Tensor]:
    """The order in parts: few images are found without a look at hundreds."""
    first, size = 0, FIRST
    while first < len(order):
        yield order[first : first + size]
        first, size = first + size, min(2 * size, CHUNK)


def _check(points: Tensor, truth: Tensor, count: int, at_least: float) -> None:
    if truth.ndim != 1 or points.ndim < 2 or len(points) != len(truth):
        raise InputError(
            f"images {tuple(points.shape)} and labels {tuple(truth.shape)} do not fit: "
            "pass images (N, ...) and as many labels (N,)."
        )
    if not 1 <= count <= len(points):
        raise InputError(f"count={count} of {len(points)} images cannot be chosen: pass 1 to {len(points)}.")
    if not 0.0 <= at_least <= 1.0:
        raise InputError(f"at_least={at_least} is not a probability: pass a number in [0, 1].")


def _ask(correct_probability: CorrectProbability, points: Tensor, truth: Tensor) -> Tensor:
    with torch.no_grad():
        probability = correct_probability(points, truth)
    if probability.shape != truth.shape:
        raise InputError(
            f"`correct_probability` gave shape {tuple(probability.shape)} for {len(truth)} images: "
            f"it must return one probability for each, shape {tuple(truth.shape)}."
        )
    if not bool(((probability >= 0.0) & (probability <= 1.0)).all()):  # false for NaN too
        raise InputError("`correct_probability` gave a value outside [0, 1] or NaN: it must return probabilities.")
    return probability.cpu()
