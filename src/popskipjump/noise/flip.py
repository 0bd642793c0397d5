"""Label flips: a noisy channel that replaces some labels by another class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.noise.checks import gives_logits, labels_below, number, whole_number, written
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, exactly, in_chunks, one_hot
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, as_integers, below, bits


@dataclass(frozen=True)
class Flip:
    """Replaces the label, with probability `rate` (nu), by one of the OTHER K - 1 labels, drawn uniformly (section 2).

    The noiseless label then has probability 1 - nu and each other label nu / (K - 1): the two floors differ (errata
    E9).

    Args:
        rate: nu in [0, 1].
        classes: K, required if the model does not know its number of classes.
    """

    rate: float
    classes: int | None = None
    checked: ClassVar[bool] = True  # valid labels stay valid labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", number("flip rate", self.rate, 0, 1))
        if self.classes is not None:
            object.__setattr__(self, "classes", whole_number("classes", self.classes, 2))

    def __str__(self) -> str:
        return f"flip:{written(self.rate)}"

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        if self.classes is None and model.classes is None and not gives_logits(model):
            raise self._unknown()

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        labels, classes = self._labels(model, points)
        whether, which = bits(roots, 2).unbind(-1)
        flipped = below(whether, self.rate)
        if roots.device.type == "cpu":
            rows = torch.from_numpy(np.flatnonzero(flipped.numpy()))
            if rows.numel():
                others = self._others(labels.index_select(0, rows), which.index_select(0, rows), classes)
                labels = labels.index_copy(0, rows, others)
            return labels
        # Both branches are computed: selecting the flipped rows first would synchronise with the device.
        return torch.where(flipped, self._others(labels, which, classes), labels)

    @staticmethod
    def _others(labels: Tensor, raw: Tensor, classes: int) -> Tensor:
        """A uniformly random other class for each label, from random bits: `(M,)`, `(M,)` -> `(M,)`."""
        return as_integers(raw, classes - 1).add_(1).add_(labels).remainder_(classes)

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact."""
        labels, classes = self._labels(model, points)
        other = self.rate / (classes - 1)
        return exactly(other + (1 - self.rate - other) * one_hot(labels, classes))

    def _labels(self, model: BaseModel, points: Tensor) -> tuple[Tensor, int]:
        """Noiseless labels `(M,)` and the number of classes K; a torch model knows K only after its first call."""
        labels = in_chunks(model.labels, points)
        classes = self.classes if self.classes is not None else model.classes
        if classes is None:
            raise self._unknown()
        if classes < 2:
            raise InputError(f"labels can only be flipped between 2 or more classes; this model has {classes}.")
        # The argmax of K logits is always below K; labels from other models must be checked.
        known = self.classes is None and gives_logits(model)
        return labels if known else labels_below(labels, classes), classes

    def _unknown(self) -> InputError:
        return InputError(
            "flip noise must know the number of classes, and this model does not say: pass `classes=`, as in "
            f"Flip({written(self.rate)}, classes=10)."
        )
