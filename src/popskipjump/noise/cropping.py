"""A random part of the image, resized to the whole (Guo, Rana, Cisse and van der Maaten, ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from popskipjump.errors import InputError
from popskipjump.noise.checks import class_count, whole_number
from popskipjump.noise.truth import DRAWS, KEY, Truth, exactly, frequencies, monte_carlo
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, integers

MAX_PLACES = 200  # up to here the truth is found by asking at every place


@dataclass(frozen=True)
class Cropping:
    """A square of `size` pixels at a uniformly random place of a `(C, H, W)` image, resized bilinearly to H x W.

    Args:
        size: side s of the square, 1 to min(H, W); H = W = s is the noiseless classifier.
    """

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", whole_number("crop size", self.size, 1))

    def __str__(self) -> str:
        return f"cropping:{self.size}"

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `TrueNoise`."""
        if len(shape) != 3:
            raise InputError(f"cropping needs images of shape (C, H, W), not {shape}.")
        if self.size > min(shape[1:]):
            raise InputError(f"crop size {self.size} exceeds an image of {shape[1]} x {shape[2]} pixels.")

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        place = integers(roots, 1, self._places(model, points)).squeeze(-1)
        return self._label_at(model, points, place)

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> Truth:
        """See `TrueNoise`; exact up to `MAX_PLACES` places, estimated beyond."""
        places = self._places(model, points)
        if places > MAX_PLACES:
            return monte_carlo(self, model, points, draws, key)

        def answer(inputs: Tensor, row: Tensor, place: Tensor) -> Tensor:
            return self._label_at(model, inputs, place)

        return exactly(frequencies(answer, points, places, class_count(model, points)))

    def _places(self, model: BaseModel, points: Tensor) -> int:
        """In how many places of the images `(M, C, H, W)` the square fits."""
        self.check(model, tuple(points.shape[1:]))
        return (points.shape[2] - self.size + 1) * (points.shape[3] - self.size + 1)

    def _label_at(self, model: BaseModel, points: Tensor, place: Tensor) -> Tensor:
        """Labels `(M,)` of the images `(M, C, H, W)` seen through their squares, numbered along rows `(M,)`."""
        across = points.shape[3] - self.size + 1
        # A view of all squares, of which one is copied for each image: the time does not grow with the places.
        squares = points.unfold(2, self.size, 1).unfold(3, self.size, 1)  # (M, C, down, across, s, s)
        images = torch.arange(len(points), device=points.device)
        crops = squares[images, :, place // across, place % across]  # (M, C, s, s)
        resized = functional.interpolate(crops, size=points.shape[2:], mode="bilinear", align_corners=False)
        return model.labels(resized).to(points.device)
