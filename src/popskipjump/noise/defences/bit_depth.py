"""Random bit-depth reduction (Xu, Evans and Qi, NDSS 2018; with random depths: Raff et al., CVPR 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from popskipjump.noise.checks import class_count, per_row, spelled, value_range, whole_number
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, exactly, frequencies
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, integers

MOST_BITS = 16


@dataclass(frozen=True)
class BitDepth:
    """Every input value is rounded to 2^b evenly spaced ones, with a number of bits b drawn anew for each answer.

    Args:
        fewest: least b, at least 1.
        most: largest b, at most 16; each whole number from `fewest` to `most` is equally likely.
        low: the least value of an input.
        high: the largest.
    """

    fewest: int
    most: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", whole_number("most bits", self.most, 1, MOST_BITS))
        object.__setattr__(self, "fewest", whole_number("fewest bits", self.fewest, 1, self.most))
        for name, value in zip(("low", "high"), value_range(self.low, self.high), strict=True):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return spelled("bit-depth", self.fewest, self.most, self.low, self.high, usual=(0.0, 1.0))

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`; any model will do."""

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        return self._label_at(model, points, integers(roots, 1, self._depths).squeeze(-1))

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact: every depth is tried."""

        def answer(inputs: Tensor, row: Tensor, depth: Tensor) -> Tensor:
            return self._label_at(model, inputs, depth)

        return exactly(frequencies(answer, points, self._depths, class_count(model, points)))

    @property
    def _depths(self) -> int:
        return self.most - self.fewest + 1

    def _label_at(self, model: BaseModel, points: Tensor, depth: Tensor) -> Tensor:
        """Labels `(M,)` of inputs `(M, *S)` rounded to `fewest + depth` bits, `(M,)`."""
        steps = per_row(2.0 ** (depth + self.fewest).to(points.dtype) - 1, points)  # (M, 1, ...)
        share = ((points - self.low) / (self.high - self.low)).clamp_(0, 1)
        return model.labels((share * steps).round_() / steps * (self.high - self.low) + self.low).to(points.device)
