"""When several classes share the noise: which wrong answers speak of the border nearby, and which of chance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.errors import InputError

_ENOUGH = 20  # answers, from which on their Gini index means something
SLOTS = 64  # classes are told apart by their number modulo this; those that share a slot count together


@dataclass(frozen=True)
class ClassContrast:
    """Weighs an adversarial answer by how often its class has answered, once several classes have.

    Across a border lies one class, the rival. Where others answer too (flipped answers, sampled ones), theirs tell less
    of this border, and are weighed by a_k = (N_k / N_rival)^m. Whether to do so shows in the answers themselves: m
    grows with the Gini index of the adversarial ones, 1 - sum p_k^2, which is 0 where there is a single rival.

    Args:
        power: largest m; 0 never weighs.
        few: Gini index up to which all answers count alike.
        many: Gini index from which on m is `power`.
    """

    power: float = 1.0
    few: float = 0.3
    many: float = 0.5

    def __post_init__(self) -> None:
        if self.power < 0 or not 0 <= self.few < self.many <= 1:
            raise InputError(f"power must be at least 0, and few below many, both shares: {self}.")

    def weights(self, seen: Tensor) -> Tensor:
        """Weights of the classes in [0, 1], from how often each was an adversarial answer: `(A, SLOTS)`, the same."""
        total = seen.sum(dim=1, keepdim=True)
        share = seen / total.clamp(min=1)
        gini = 1 - (share**2).sum(dim=1, keepdim=True)
        power = self.power * ((gini - self.few) / (self.many - self.few)).clamp(0, 1) * total / (total + _ENOUGH)
        relative = share / share.amax(dim=1, keepdim=True).clamp(min=1e-9)
        return torch.where(power > 0, relative**power, 1.0)
