"""Models of Foolbox, with their own preprocessing, called with the arrays of their framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump.errors import InputError
from popskipjump.oracles import FunctionModel, TorchModel
from popskipjump.oracles.classifier import labels_in

_WRAPPERS = 8  # models within models, at most


class FoolboxModel(FunctionModel):
    """A model that wants arrays of its own framework, such as `foolbox.JAXModel` or `foolbox.NumPyModel`."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.model = model
        self._dummy = _dummy_of(model)  # an empty array of the framework; None for models that take any

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        batch = points.detach().cpu().clone()
        if self._dummy is None:
            return labels_in(self.model(batch), len(batch))
        native = self._dummy.from_numpy(batch.numpy()).raw
        return labels_in(np.asarray(self.model(native)), len(batch))


class _Forward(nn.Module):
    """The forward pass of a `foolbox.PyTorchModel`, its preprocessing included; it stays in the mode it is in."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model  # not an nn.Module: nothing is registered

    def forward(self, points: Tensor) -> Any:
        """`(M, *S)` -> logits `(M, K)`."""
        return self.model(points)


def foolbox_of(model: Any) -> TorchModel | FoolboxModel | None:
    """The adapter of an object of Foolbox; a `PyTorchModel` is a white box, too; None if it is no model."""
    if not callable(model) or not hasattr(model, "bounds"):
        if hasattr(model, "run"):
            raise InputError(
                f"{type(model).__name__} is an attack of Foolbox, not a classifier: pass the model that it attacks."
            )
        return None
    dummy = _dummy_of(model)
    if dummy is not None and isinstance(dummy.raw, Tensor):
        return TorchModel(_Forward(model), device=torch.device(dummy.raw.device))
    return FoolboxModel(model)


def _dummy_of(model: Any) -> Any:
    """The empty array that says which framework a model, or the model within it, works in."""
    inner = model
    for _ in range(_WRAPPERS):
        if inner is None or hasattr(inner, "dummy"):
            break
        inner = getattr(inner, "_model", None)
    return getattr(inner, "dummy", None)
