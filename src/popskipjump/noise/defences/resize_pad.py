"""Random resizing and padding (Xie, Wang, Zhang, Ren and Yuille, ICLR 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from popskipjump.errors import InputError
from popskipjump.noise.checks import check_images, class_count, number, spelled
from popskipjump.noise.truth import DRAWS, KEY, MAX_CASES, LabelDistribution, exactly, frequencies, monte_carlo
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, integers


@dataclass(frozen=True)
class ResizePad:
    """The image is shrunk (bilinearly) to a random size and put at a random place of an empty image of its own size.

    The height is a whole number of pixels between `smallest` and `largest` times H, each equally likely; the width
    follows it; all places are equally likely. Xie et al. enlarge the image instead, for a network of a larger input.

    Args:
        smallest: least height as a share of H, in (0, 1].
        largest: largest, in [smallest, 1]; smallest = largest = 1 is the noiseless classifier.
        fill: the value around the image.
    """

    smallest: float
    largest: float = 1.0
    fill: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest", number("largest", self.largest, 0, 1))
        object.__setattr__(self, "smallest", number("smallest", self.smallest, 0, self.largest))
        object.__setattr__(self, "fill", number("fill", self.fill, -math.inf))
        if self.smallest == 0:
            raise InputError("smallest must be above 0: an image of no pixels cannot be classified.")

    def __str__(self) -> str:
        return spelled("resize-pad", self.smallest, self.largest, self.fill, usual=(0.0,))

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        check_images("random resizing", shape)
        self._sizes(shape)

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        self.check(model, tuple(points.shape[1:]))
        sizes = self._sizes(tuple(points.shape[1:]))
        chosen = integers(roots, 1, len(sizes)).squeeze(-1)
        labels = torch.empty_like(chosen)
        for index, size in enumerate(sizes):
            (rows,) = torch.nonzero(chosen == index, as_tuple=True)
            if len(rows):
                place = integers(roots[rows], 1, _places(points, size), start=1).squeeze(-1)
                labels[rows] = self._label_at(model, size, points[rows], place)
        return labels

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact up to `MAX_CASES` pairs of a size and a place, estimated beyond."""
        self.check(model, tuple(points.shape[1:]))
        sizes = self._sizes(tuple(points.shape[1:]))
        if sum(_places(points, size) for size in sizes) > MAX_CASES:
            return monte_carlo(self, model, points, draws, key)
        classes = class_count(model, points)

        def answer(size: tuple[int, int], inputs: Tensor, row: Tensor, place: Tensor) -> Tensor:
            return self._label_at(model, size, inputs, place)

        shares = [frequencies(partial(answer, size), points, _places(points, size), classes) for size in sizes]
        return exactly(torch.stack(shares).mean(dim=0))

    def _sizes(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Height and width of every possible size, from the smallest on."""
        height, width = shape[1:]
        # A hair's breadth, so that 0.9 of 10 pixels is 9 whatever the rounding.
        least, most = math.ceil(self.smallest * height - 1e-6), math.floor(self.largest * height + 1e-6)
        if least > most:
            raise InputError(
                f"no whole number of pixels lies between {self.smallest:g} and {self.largest:g} times a height of "
                f"{height}: widen the range of {self}."
            )
        return [(h, max(1, round(width * h / height))) for h in range(max(1, least), most + 1)]

    def _label_at(self, model: BaseModel, size: tuple[int, int], points: Tensor, place: Tensor) -> Tensor:
        """Labels `(M,)` of images `(M, C, H, W)` shrunk to one size, at their places, numbered along rows `(M,)`."""
        if size == tuple(points.shape[2:]):
            return model.labels(points).to(points.device)
        small = functional.interpolate(points, size=size, mode="bilinear", align_corners=False)  # (M, C, h, w)
        down, across = points.shape[2] - size[0] + 1, points.shape[3] - size[1] + 1
        wide = functional.pad(small, (across - 1, across - 1, down - 1, down - 1), value=self.fill)
        # A view of all windows that hold the small image, of which one is copied for each row.
        windows = wide.unfold(2, points.shape[2], 1).unfold(3, points.shape[3], 1)  # (M, C, down, across, H, W)
        images = torch.arange(len(points), device=points.device)
        return model.labels(windows[images, :, place // across, place % across]).to(points.device)


def _places(points: Tensor, size: tuple[int, int]) -> int:
    """In how many places of the images `(M, C, H, W)` a smaller one fits."""
    return (points.shape[2] - size[0] + 1) * (points.shape[3] - size[1] + 1)
