"""What the noise models ask of their parameters and of the models below them."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from torch import Tensor, nn

from popskipjump.errors import InputError, OracleError
from popskipjump.oracles.classifier import BaseModel, FunctionModel, TorchModel


def number(name: str, value: object, low: float, high: float = math.inf) -> float:
    """A finite parameter in `[low, high]`, or an error that names it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {value!r}.")
    if not (math.isfinite(value) and low <= float(value) <= high):
        allowed = f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"finite and at least {low:g}"
        raise InputError(f"{name} must be {allowed}, not {value!r}.")
    return float(value)


def whole_number(name: str, value: object, low: int) -> int:
    """A whole parameter of at least `low`, or an error that names it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral) or int(value) < low:
        raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}.")
    return int(value)


def written(value: float) -> str:
    """A number as one would type it, without loss: 0.1 -> "0.1", 1.0 -> "1"."""
    return repr(float(value)).removesuffix(".0")


def as_model(value: Any) -> BaseModel:
    """A model as it is, a torch module or a callable wrapped into one."""
    if isinstance(value, nn.Module):
        return TorchModel(value)
    if hasattr(value, "labels"):
        model: BaseModel = value
        return model
    if callable(value):
        return FunctionModel(value)
    raise InputError(f"{type(value).__name__} is no classifier: pass a torch module, a model, or a function to labels.")


def gives_logits(model: object) -> bool:
    """Whether a model can say more than a label."""
    return getattr(model, "output", "logits") == "logits" and (hasattr(model, "logits") or hasattr(model, "log_probs"))


def class_count(model: BaseModel, points: Tensor) -> int:
    """K, which a torch model knows only once it was called.

    Args:
        model: the noiseless classifier.
        points: `(M, *S)`; the first is put to the model if need be.
    """
    if model.classes is None:
        model.labels(points[:1])
    if model.classes is None:
        raise InputError(
            f"the number of classes of this {type(model).__name__} is not known: give it where the model is made, "
            "FunctionModel(function, classes=10), or let the module return logits."
        )
    return model.classes


def labels_below(labels: Tensor, classes: int) -> Tensor:
    """The labels `(M,)` themselves, if they all are below `classes`."""
    if labels.numel() and int(labels.max()) >= classes:
        raise OracleError(
            f"the classifier returned the label {int(labels.max())}, but it is said to have {classes} classes (0 to "
            f"{classes - 1}): correct `classes=`."
        )
    return labels
