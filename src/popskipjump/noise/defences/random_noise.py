"""Random noise defence, RND: every query gets a little noise (Qin, Fan, Zha and Wu, NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from popskipjump.noise.checks import number, spelled, value_range
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, monte_carlo, noiseless
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, normal


@dataclass(frozen=True)
class RandomNoise:
    """Every input value gets an independent N(0, sigma^2) and is clipped to its range: the net sees valid inputs only.

    `Smoothing` is the same without the clipping.

    Args:
        sigma: standard deviation, at least 0, in the units of the input.
        low: the least value of an input.
        high: the largest.
    """

    sigma: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", number("sigma", self.sigma, 0))
        for name, value in zip(("low", "high"), value_range(self.low, self.high), strict=True):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return spelled("rnd", self.sigma, self.low, self.high, usual=(0.0, 1.0))

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`; any model will do."""

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        if self.sigma > 0:
            noise = normal(roots, points[0].numel() if len(points) else 0).reshape(points.shape)
            points = points.add(noise.to(points.dtype), alpha=self.sigma).clamp_(self.low, self.high)
        return model.labels(points).to(points.device)

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; estimated."""
        if self.sigma == 0:
            return noiseless(model, points)
        return monte_carlo(self, model, points, draws, key)
