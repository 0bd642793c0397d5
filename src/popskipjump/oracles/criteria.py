"""From labels to decisions. True means adversarial, everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Criterion(Protocol):
    """Decides which answers are adversarial."""

    def decide(self, labels: Tensor, rows: Tensor) -> Tensor:
        """Whether each answer is adversarial: int64 `(M,)`, image row of each `(M,)` -> bool `(M,)`."""


@dataclass(frozen=True)
class Untargeted:
    """Adversarial is every label but the true one."""

    truth: Tensor  # (B,) int64

    def decide(self, labels: Tensor, rows: Tensor) -> Tensor:
        """See `Criterion`."""
        return labels != self.truth.index_select(0, rows)


@dataclass(frozen=True)
class Targeted:
    """Adversarial is the target label alone."""

    targets: Tensor  # (B,) int64

    def decide(self, labels: Tensor, rows: Tensor) -> Tensor:
        """See `Criterion`."""
        return labels == self.targets.index_select(0, rows)
