"""Checks on the parameters of noise models and on the classifiers below them."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from torch import Tensor

from popskipjump.adapters import recognise
from popskipjump.errors import InputError, OracleError
from popskipjump.oracles.classifier import BaseModel
from popskipjump.oracles.traits import HasLogits, HasLogProbs, outputs_logits


def number(name: str, value: object, low: float, high: float = math.inf) -> float:
    """Return `value` as a float if it is finite and in `[low, high]`; otherwise raise an error with `name`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {value!r}.")
    if not (math.isfinite(value) and low <= float(value) <= high):
        allowed = f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"finite and at least {low:g}"
        allowed = "finite" if math.isinf(low) else allowed
        raise InputError(f"{name} must be {allowed}, not {value!r}.")
    return float(value)


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` if it is an integer in `[low, high]` (None: no upper limit); else raise an error with `name`."""
    fits = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not fits or int(value) < low or (high is not None and int(value) > high):  # type: ignore[call-overload]
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{name} must be a whole number {allowed}, not {value!r}.")
    return int(value)  # type: ignore[call-overload,no-any-return]


def written(value: float) -> str:
    """The shortest text that `float` reads back without loss: 0.1 -> "0.1", 1.0 -> "1"."""
    return repr(float(value)).removesuffix(".0")


def value_range(low: object, high: object) -> tuple[float, float]:
    """Return (low, high), the range of input values, or raise an error unless low < high."""
    least, most = number("the least input value", low, -math.inf), number("the largest input value", high, -math.inf)
    if not least < most:
        raise InputError(f"the range of the input must go from a smaller to a larger value, not from {low} to {high}.")
    return least, most


def spelled(name: str, *values: float | str, usual: tuple[float, ...] = ()) -> str:
    """The text of a noise model, such as "resize-pad:0.9,1"; trailing values equal to the defaults are omitted.

    Args:
        name: of the noise model.
        values: its parameters, in order.
        usual: default values of the last parameters.
    """
    if usual and values[-len(usual) :] == usual:
        values = values[: -len(usual)]
    return f"{name}:{','.join(v if isinstance(v, str) else written(v) for v in values)}"


def check_images(what: str, shape: tuple[int, ...]) -> None:
    """Raise an error unless one input has the shape `(C, H, W)` of an image."""
    if len(shape) != 3:
        raise InputError(f"{what} needs images of shape (C, H, W), not {shape}.")


def per_row(values: Tensor, points: Tensor) -> Tensor:
    """Reshape per-row values so that they broadcast against `points`: `(M, ...)` -> `(M, 1, ..., 1, ...)`."""
    return values.reshape(len(values), *(1 for _ in range(points.ndim - values.ndim)), *values.shape[1:])


def as_model(value: Any) -> BaseModel:
    """Return a model unchanged; wrap anything else that `adapters.recognise` knows into a model."""
    model: BaseModel = recognise(value)
    if not hasattr(model, "labels"):
        raise InputError(f"{type(value).__name__} is an oracle: a member must be a model, with `labels(points)`.")
    return model


def gives_logits(model: object) -> bool:
    """Whether a model returns logits, and not only labels."""
    return outputs_logits(model) and isinstance(model, HasLogits | HasLogProbs)


def class_count(model: BaseModel, points: Tensor) -> int:
    """The number of classes K; a torch model knows it only after its first call.

    Args:
        model: the noiseless classifier.
        points: `(M, *S)`; the model is called on the first one if K is still unknown.
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
    """Return `labels` `(M,)`, or raise an error if one of them is not below `classes`."""
    if labels.numel() and int(labels.max()) >= classes:
        raise OracleError(
            f"the classifier returned the label {int(labels.max())}, but it is said to have {classes} classes (0 to "
            f"{classes - 1}): correct `classes=`."
        )
    return labels
