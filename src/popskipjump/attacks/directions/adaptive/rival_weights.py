"""Weights of the adversarial classes: the class across the boundary has weight 1, classes from noise have less."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.elementwise import power as raised
from popskipjump.errors import InputError

_ENOUGH = 20  # adversarial answers needed for a meaningful Gini index
_RARE = 1e-30  # below any share
SLOTS = 64  # classes are counted by their number modulo this; classes that share a slot are counted together


@dataclass(frozen=True)
class RivalWeights:
    """Weights each adversarial answer by the frequency of its class among the adversarial answers so far.

    One class, the rival, is on the other side of the boundary. Answers of other classes (flipped or sampled ones) carry
    less information about this boundary, and get the weight a_k = (N_k / N_rival)^m. The exponent m grows with the Gini
    index of the adversarial answers, 1 - sum p_k^2, which is 0 if there is a single rival.

    Args:
        power: largest m; 0 gives all classes the same weight.
        few: Gini index up to which m is 0.
        many: Gini index from which on m is `power`.
    """

    power: float = 1.0
    few: float = 0.3
    many: float = 0.5

    def __post_init__(self) -> None:
        check_types(self)
        if self.power < 0 or not 0 <= self.few < self.many <= 1:
            raise InputError(f"power must be at least 0, and few below many, both shares: {self}.")

    def weights(self, seen: Tensor) -> Tensor:
        """Weights of the classes in [0, 1], from their counts: `(A, SLOTS)` -> `(A, SLOTS)`."""
        total = seen.sum(dim=1, keepdim=True)
        share = seen / total.clamp(min=1)
        gini = 1 - (share**2).sum(dim=1, keepdim=True)
        power = self.power * ((gini - self.few) / (self.many - self.few)).clamp(0, 1) * total / (total + _ENOUGH)
        relative = share / share.amax(dim=1, keepdim=True).clamp(min=1e-9)
        # The logarithm of 0 is slow: a class without answers gets its 0 from the sign.
        weights = raised(relative.clamp(min=_RARE), power).mul_(relative.sign())
        return torch.where(power > 0, weights, 1.0)
