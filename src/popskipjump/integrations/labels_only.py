"""Shared code of our attacks as parts of other libraries: label access only, and a complete query count."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from popskipjump.adapters import recognise
from popskipjump.evaluation import Report


class LabelsOnly:
    """A model without its white box: no border distance is computed, so that every call to the model is a query."""

    def __init__(self, model: Any) -> None:
        self._model = recognise(model)
        self.device: torch.device = self._model.device

    @property
    def classes(self) -> int | None:
        """K, as far as the model knows it."""
        known: int | None = self._model.classes
        return known

    def check(self, shape: tuple[int, ...]) -> None:
        """See `recognise`."""
        if hasattr(self._model, "check"):
            self._model.check(shape)

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        labels: Tensor = self._model.labels(points)
        return labels


def warn_of_failures(report: Report) -> None:
    """Say which inputs have no adversarial point and why; they are returned as they were."""
    failed = Counter(status for status in report.status if not status.has_point)
    if failed:
        reasons = "; ".join(f"{count} {status.name}: {status.value}" for status, count in failed.most_common())
        warnings.warn(
            f"{failed.total()} of {len(report.status)} inputs are returned unchanged ({reasons}).", stacklevel=3
        )
