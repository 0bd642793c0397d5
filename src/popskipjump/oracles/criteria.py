"""Attack criteria, untargeted and targeted: they map labels to decisions. True means adversarial, everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Criterion(Protocol):
    """Decides which answers are adversarial."""

    @property
    def targeted(self) -> bool:
        """Whether only one class is adversarial; random inputs then hardly ever are."""

    def decide(self, labels: Tensor, rows: Tensor) -> Tensor:
        """Whether each label is adversarial: labels int64 `(M,)`, their image rows `(M,)` -> bool `(M,)`."""


@dataclass(frozen=True)
class Untargeted:
    """Every label other than the true one is adversarial."""

    truth: Tensor  # (B,) int64

    @property
    def targeted(self) -> bool:
        """See `Criterion`."""
        return False

    def decide(self, labels: Tensor, rows: Tensor) -> Tensor:
        """See `Criterion`."""
        return labels != self.truth.index_select(0, rows)


@dataclass(frozen=True)
class Targeted:
    """Only the target label is adversarial."""

    targets: Tensor  # (B,) int64

    @property
    def targeted(self) -> bool:
        """See `Criterion`."""
        return True

    def decide(self, labels: Tensor, rows: Tensor) -> Tensor:
        """See `Criterion`."""
        return labels == self.targets.index_select(0, rows)
