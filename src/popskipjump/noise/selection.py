"""Probability of the correct answer under noise: the paper's rule for selecting images."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from popskipjump.noise.truth import DRAWS, KEY, KnownNoise, LabelDistribution, monte_carlo, noiseless
from popskipjump.oracles.classifier import BaseModel, NoiseModel
from popskipjump.rng import Key


def truth_of(
    noise: NoiseModel | None, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY
) -> LabelDistribution:
    """Class probabilities of an answer under any noise model, or without noise (None); see `KnownNoise.truth`."""
    if noise is None:
        return noiseless(model, points)
    if isinstance(noise, KnownNoise):
        return noise.truth(model, points, draws, key)
    return monte_carlo(noise, model, points, draws, key)


def correct_probability(
    noise: NoiseModel | None, model: BaseModel, draws: int = DRAWS, key: Key = KEY
) -> Callable[[Tensor, Tensor], Tensor]:
    """A function from images `(M, *S)` and true labels `(M,)` to the probabilities `(M,)` of a correct answer.

    The paper selects the images whose probability is at least 0.75 under `Cropping(22)` (section 4).
    """

    def probability(points: Tensor, labels: Tensor) -> Tensor:
        shares = truth_of(noise, model, points, draws, key).probabilities
        return shares.gather(1, labels.to(shares.device).unsqueeze(1)).squeeze(1)

    return probability
