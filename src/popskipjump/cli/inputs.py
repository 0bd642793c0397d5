"""Conversion of command-line arguments to a model and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from popskipjump import Pool, zoo
from popskipjump.cli.endpoint import is_address, remote_model
from popskipjump.errors import InputError
from popskipjump.oracles import TorchModel
from popskipjump.oracles.traits import module_of
from popskipjump.runs.user_model import made_by_user
from popskipjump.zoo.readers import read_targets


class Selection(NamedTuple):
    """The images to attack, and where to start."""

    images: np.ndarray  # (B, *S) float32
    labels: np.ndarray  # (B,) int64
    targets: np.ndarray | None  # (B,) int64
    image_ids: np.ndarray  # (B,) int64, places in the file
    pool: Pool | None  # all images of the file; None to start from noise


def load_model(place: str | None, weights: Path | None, *, optimize: bool = True) -> Any:
    """The embedded network, a server's oracle, or what `file.py:factory` returns, with weights if there are any.

    Torch modules answer through a frozen, fused copy, unless `optimize` is false.
    """
    if place is not None and is_address(place):
        return remote_model(place)
    model = zoo.mnist_model() if place is None else made_by_user(place)
    if weights is not None:
        module = module_of(model)
        if module is None:
            raise InputError(f"--weights fill torch modules, and {place} returned {type(model).__name__}.")
        zoo.load_weights(module, weights)
    return TorchModel(model, optimize=True) if optimize and isinstance(model, torch.nn.Module) else model


def load_images(
    data: Path | None, count: int, first: int, *, targeted: bool, from_noise: bool, bounds: tuple[float, float] | None
) -> Selection:
    """Some embedded images, or some of an npz file; starts are drawn from all of them.

    Without bounds, the values of the file are taken as they are.
    """
    if data is None:
        images, labels = zoo.mnist_images()
    else:
        images, labels = zoo.read_rows(data) if bounds is None else zoo.read_npz(data, bounds)
    chosen = np.arange(first, min(first + count, len(images)))
    if not len(chosen):
        raise InputError(f"--start-index {first} is beyond the last of {len(images)} images, counted from 0.")
    targets = _targets(data, len(images))[chosen] if targeted else None
    pool = None
    if not from_noise:
        if len(np.unique(labels)) < 2:
            raise InputError("all images are of one class, so none can be the start of another: pass --starts noise.")
        pool = Pool(torch.from_numpy(images), torch.from_numpy(labels))
    return Selection(images[chosen], labels[chosen], targets, chosen, pool)


def _targets(data: Path | None, count: int) -> np.ndarray:
    """The array `targets` of an npz file: integers `(N,)`."""
    if data is None:
        raise InputError("--targeted needs --data with an array `targets`: the embedded images have none.")
    return read_targets(data, count)
