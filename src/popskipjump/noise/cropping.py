"""Random cropping: classify a random crop, resized to full size (Guo, Rana, Cisse and van der Maaten, ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from popskipjump.errors import InputError
from popskipjump.noise.checks import check_images, class_count, whole_number
from popskipjump.noise.truth import DRAWS, KEY, MAX_CASES, LabelDistribution, exactly, frequencies, monte_carlo
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, integers


@dataclass(frozen=True)
class Cropping:
    """Classifies an s x s crop at a uniformly random place of a `(C, H, W)` image, resized bilinearly to H x W.

    Args:
        size: side s of the crop in pixels, 1 to min(H, W); s = H = W is the noiseless classifier.
    """

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", whole_number("crop size", self.size, 1))

    def __str__(self) -> str:
        return f"cropping:{self.size}"

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        check_images("cropping", shape)
        if self.size > min(shape[1:]):
            raise InputError(f"crop size {self.size} exceeds an image of {shape[1]} x {shape[2]} pixels.")

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        place = integers(roots, 1, self._places(model, points)).squeeze(-1)
        return self._label_at(model, points, place)

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact if there are at most `MAX_CASES` crop positions, estimated otherwise."""
        places = self._places(model, points)
        if places > MAX_CASES:
            return monte_carlo(self, model, points, draws, key)

        def answer(inputs: Tensor, row: Tensor, place: Tensor) -> Tensor:
            return self._label_at(model, inputs, place)

        return exactly(frequencies(answer, points, places, class_count(model, points)))

    def _places(self, model: BaseModel, points: Tensor) -> int:
        """Number of crop positions in images `(M, C, H, W)`."""
        self.check(model, tuple(points.shape[1:]))
        return (points.shape[2] - self.size + 1) * (points.shape[3] - self.size + 1)

    def _label_at(self, model: BaseModel, points: Tensor, place: Tensor) -> Tensor:
        """Labels `(M,)` of one crop of each image `(M, C, H, W)`; `place` `(M,)` numbers the positions row by row."""
        across = points.shape[3] - self.size + 1
        # A view of all crops; only one per image is copied, so the cost does not grow with the number of positions.
        squares = points.unfold(2, self.size, 1).unfold(3, self.size, 1)  # (M, C, down, across, s, s)
        images = torch.arange(len(points), device=points.device)
        crops = squares[images, :, place // across, place % across]  # (M, C, s, s)
        resized = functional.interpolate(crops, size=points.shape[2:], mode="bilinear", align_corners=False)
        return model.labels(resized).to(points.device)
