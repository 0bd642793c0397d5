"""Logit sampling: labels are drawn from the softmax of the logits at a temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from popskipjump.errors import InputError, OracleError
from popskipjump.noise.checks import gives_logits, number, written
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, exactly, in_chunks, one_hot
from popskipjump.oracles.traits import HasLogits
from popskipjump.rng import Key, uniform


@dataclass(frozen=True)
class LogitSampling:
    """Draws each label from softmax(logits / T).

    Args:
        temperature: T >= 0; 0 is the noiseless classifier, 1 samples from the classifier's own softmax.
    """

    temperature: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", number("temperature", self.temperature, 0))

    def __str__(self) -> str:
        return f"logit:{written(self.temperature)}"

    def check(self, model: Any, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        if not gives_logits(model):
            raise InputError(
                f"logit sampling needs logits, and this {type(model).__name__} gives labels only: pass a torch module "
                "that returns logits, or another noise model."
            )

    def sample(self, model: Any, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        cumulative = self._probabilities(model, points).cumsum(dim=1)
        # Scaling by the last cumulative sum prevents a draw beyond the last class when the sum rounds below 1.
        mark = uniform(roots, 1) * cumulative[:, -1:]
        return (cumulative < mark).sum(dim=1)

    def truth(self, model: Any, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact."""
        return exactly(self._probabilities(model, points))

    def _probabilities(self, model: Any, points: Tensor) -> Tensor:
        """`(M, *S)` -> float32 `(M, K)`."""
        self.check(model, tuple(points.shape[1:]))
        logits = in_chunks(model.logits if isinstance(model, HasLogits) else model.log_probs, points).to(torch.float32)
        below = logits - logits.amax(dim=1, keepdim=True)  # 0 for the best class at every temperature
        bad = int(below.isnan().any(dim=1).sum())
        if bad:
            raise OracleError(f"the model's logits are not numbers at {bad} of {len(points)} inputs.")
        if self.temperature < torch.finfo(torch.float32).tiny:
            return one_hot(logits.argmax(dim=1), logits.shape[1])
        return (below / self.temperature).softmax(dim=1)
