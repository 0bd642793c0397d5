"""Randomised smoothing: Gaussian noise on the input of every query (Cohen, Rosenfeld and Kolter, ICML 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from popskipjump.noise.checks import number, written
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, monte_carlo, noiseless
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, normal


@dataclass(frozen=True)
class Smoothing:
    """Adds independent N(0, sigma^2) noise to every input coordinate; the noisy input is not clipped to the bounds.

    Args:
        sigma: standard deviation, at least 0, in the units of the input.
    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", number("sigma", self.sigma, 0))

    def __str__(self) -> str:
        return f"smoothing:{written(self.sigma)}"

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`; every model is accepted."""

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        if self.sigma > 0:
            noise = normal(roots, points[0].numel() if len(points) else 0).reshape(points.shape)
            points = points.add(noise.to(points.dtype), alpha=self.sigma)
        return model.labels(points).to(points.device)

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; estimated."""
        if self.sigma == 0:
            return noiseless(model, points)
        return monte_carlo(self, model, points, draws, key)
