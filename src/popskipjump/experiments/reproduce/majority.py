"""The classifier that most of a noisy classifier's answers make up (the paper's remark on adversarial accuracy)."""

from __future__ import annotations

import torch
from torch import Tensor

from popskipjump import TorchModel
from popskipjump.metrics import border_distance
from popskipjump.noise import noise_of
from popskipjump.noise.selection import truth_of

DRAWS = 100  # answers for each place where the probabilities have no closed form


class Majority:
    """The most frequent answer as a classifier of its own; only its labels are known."""

    def __init__(self, model: TorchModel, noise: str) -> None:
        self.device, self.model, self.noise = model.device, model, noise_of(noise)

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        return truth_of(self.noise, self.model, points, DRAWS).probabilities.argmax(dim=1)

    def log_probs(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> `(M, K)`, of the noisy answers."""
        return truth_of(self.noise, self.model, points, DRAWS).probabilities.log()

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """A majority has no gradient."""
        raise NotImplementedError("a majority of answers has no gradient.")


def majority_distance(model: TorchModel, noise: str, originals: Tensor, points: Tensor, labels: Tensor) -> Tensor:
    """Border distances `(B,)` on the rays through points `(B, *S)`, on the majority of the noisy answers."""
    with torch.no_grad():
        return border_distance(Majority(model, noise), originals, points, labels, steps=32, bisections=6)
