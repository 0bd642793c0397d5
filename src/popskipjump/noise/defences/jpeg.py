"""JPEG-like compression with a random quality (Guo et al., ICLR 2018; at random: Raff et al., CVPR 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from popskipjump.noise.checks import check_images, class_count, per_row, spelled, value_range, whole_number
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, exactly, frequencies
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, integers

SIDE = 8  # of a block
# Quantisation of the luminance at quality 50 (ITU-T T.81, table K.1): vertical frequencies downwards.
_TABLE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)


@dataclass(frozen=True)
class Jpeg:
    """What JPEG loses: the cosine transform of 8 x 8 blocks, rounded to multiples that a quality sets.

    Every channel is treated as luminance is; there is no change of colour space and no rounding to 8 bits. An image
    whose sides are no multiples of 8 is continued by its last row and column, as encoders do.

    Args:
        lowest: least quality, 1 to 100.
        highest: largest; each whole number from `lowest` to `highest` is equally likely.
        low: the least value of an input.
        high: the largest.
    """

    lowest: int
    highest: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "highest", whole_number("highest quality", self.highest, 1, 100))
        object.__setattr__(self, "lowest", whole_number("lowest quality", self.lowest, 1, self.highest))
        for name, value in zip(("low", "high"), value_range(self.low, self.high), strict=True):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return spelled("jpeg", self.lowest, self.highest, self.low, self.high, usual=(0.0, 1.0))

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        check_images("compression", shape)

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        self.check(model, tuple(points.shape[1:]))
        quality = integers(roots, 1, self._qualities).squeeze(-1) + self.lowest
        return model.labels(self.compressed(points, quality)).to(points.device)

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact: every quality is tried."""
        self.check(model, tuple(points.shape[1:]))

        def answer(inputs: Tensor, row: Tensor, number: Tensor) -> Tensor:
            return model.labels(self.compressed(inputs, number + self.lowest)).to(inputs.device)

        return exactly(frequencies(answer, points, self._qualities, class_count(model, points)))

    @property
    def _qualities(self) -> int:
        return self.highest - self.lowest + 1

    def compressed(self, points: Tensor, quality: Tensor) -> Tensor:
        """Images `(M, C, H, W)` as they come out of a compression of quality 1 to 100, `(M,)`."""
        if not len(points):
            return points
        # In float64, so that the size of a batch (and its last digits) does not decide how a coefficient is rounded.
        exact = points.dtype if points.device.type == "mps" else torch.float64
        height, width = points.shape[2:]
        scale = 255 / (self.high - self.low)
        pixels = ((points.to(exact) - self.low) * scale).clamp_(0, 255).sub_(128)
        pixels = functional.pad(pixels, (0, -width % SIDE, 0, -height % SIDE), mode="replicate")
        blocks = pixels.unfold(2, SIDE, SIDE).unfold(3, SIDE, SIDE)  # (M, C, down, across, 8, 8)
        cosines = _cosines().to(blocks)
        steps = per_row(_steps(quality).to(blocks), blocks)  # (M, 1, 1, 1, 8, 8)
        rounded = (cosines @ blocks @ cosines.T / steps).round_() * steps
        restored = (cosines.T @ rounded @ cosines).permute(0, 1, 2, 4, 3, 5).reshape(pixels.shape)
        return (restored[..., :height, :width].add(128).clamp_(0, 255) / scale + self.low).to(points.dtype)


@cache
def _cosines() -> Tensor:
    """The orthonormal cosine transform of 8 values, float64 `(8, 8)`."""
    place = torch.arange(SIDE, dtype=torch.float64)
    waves = torch.cos(math.pi / SIDE * (place + 0.5) * place.unsqueeze(1)) * math.sqrt(2 / SIDE)
    waves[0] *= math.sqrt(0.5)
    return waves


def _steps(quality: Tensor) -> Tensor:
    """Quantisation steps by the rule of the Independent JPEG Group: `(M,)` -> float64 `(M, 8, 8)`."""
    q = quality.to(torch.float64)
    percent = torch.where(q < 50, (5000 / q).floor(), 200 - 2 * q).reshape(-1, 1, 1)
    table = torch.tensor(_TABLE, dtype=torch.float64, device=quality.device)
    return ((table * percent + 50) / 100).floor().clamp_(1, 255)
