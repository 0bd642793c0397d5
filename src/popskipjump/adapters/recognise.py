"""Recognition of the user's classifier object, and its adapter; no optional package is imported for this.

A package that made the object is imported already, so its classes are known by the name of their module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import PurePath
from types import MethodType
from typing import Any

import numpy as np
from torch import Tensor, nn

from popskipjump.adapters.art import art_of
from popskipjump.adapters.estimators import EstimatorModel, estimator_of, is_estimator
from popskipjump.adapters.foolbox import foolbox_of
from popskipjump.adapters.jax import JaxModel
from popskipjump.adapters.onnx import OnnxModel
from popskipjump.errors import InputError
from popskipjump.oracles import FunctionModel, TorchModel

KINDS = (
    "a torch module, a function from a NumPy batch to labels, a scikit-learn, XGBoost or LightGBM classifier, an ONNX "
    "Runtime session, a compiled JAX function, a Foolbox model, an ART estimator, or an object with "
    "`ask(points, ticket)`"
)


def recognise(model: Any, shape: tuple[int, ...] | None = None) -> Any:
    """A model with `labels(points)`, or an oracle with `ask(points, ticket)`, for whatever is passed.

    Args:
        model: see `KINDS`.
        shape: S of the inputs `(M, *S)`, to be compared with what the model says of itself; None does not compare.

    Raises:
        InputError: it cannot be asked; the message names the nearest thing that can.
    """
    found = _found(model)
    if shape is not None and hasattr(found, "check"):
        found.check(shape)
    return found


def recognised(model: Any, labels: Any, targets: Any, starts: Any) -> tuple[Any, Any, Any, Any]:
    """The arguments of an evaluation with the model recognised, and classes that have names written as integers.

    Args:
        model: see `KINDS`.
        labels: `(B,)`: with a model whose classes have names (`classes_`), by these names.
        targets: `(B,)`, likewise, or None.
        starts: points, None, or a pool of images with their `labels`, likewise.
    """
    model = recognise(model)
    names = getattr(model, "names", None)
    if names is None:
        return model, labels, targets, starts
    if starts is not None and hasattr(starts, "images") and hasattr(starts, "labels"):
        starts = type(starts)(starts.images, names.given(starts.labels, "pool labels"))
    goal = None if targets is None else names.given(targets, "targets")
    numbered = copy.copy(model)
    numbered.names = None  # so that a second call leaves the integers alone
    return numbered, names.given(labels), goal, starts


def declared_bounds(model: Any) -> Any:
    """The smallest and largest value of an input, where the model says: numbers, or arrays; None where it does not."""
    packages = _packages(model)
    if "foolbox" in packages and hasattr(model, "bounds"):
        return tuple(model.bounds)
    clip = getattr(model, "clip_values", None) if "art" in packages else None
    if clip is None:
        return None
    low, high = (np.asarray(value, dtype=np.float64) for value in clip)
    same = bool((low == low.min()).all() and (high == high.max()).all())
    return (float(low.min()), float(high.max())) if same else (low, high)


def _found(model: Any) -> Any:
    if isinstance(model, type):
        raise InputError(f"{model.__name__} is a class: pass an object of it, {model.__name__}(...).")
    if isinstance(model, nn.Module):
        return TorchModel(model)
    if hasattr(model, "ask") or (hasattr(model, "labels") and not isinstance(model, Tensor)):
        return model
    for package in _packages(model):
        if package in _ADAPTERS and (found := _ADAPTERS[package](model)) is not None:
            return found
    if is_estimator(model):
        return EstimatorModel(model)
    if isinstance(model, MethodType) and model.__name__ == "predict" and is_estimator(model.__self__):
        return _found(model.__self__)  # with its `classes_`, which the method alone does not have
    advice = _nearest(model)
    if advice is None and callable(model):
        return FunctionModel(model)
    raise InputError(f"{type(model).__name__} is no classifier that can be asked: {advice or f'pass {KINDS}'}.")


def _packages(model: object) -> list[str]:
    """The packages that the classes of an object come from, its own first."""
    return list(dict.fromkeys(kind.__module__.partition(".")[0] for kind in type(model).__mro__))


def _session(model: Any) -> OnnxModel | None:
    return OnnxModel(model) if hasattr(model, "run") and hasattr(model, "get_inputs") else None


def _compiled(model: Any) -> JaxModel | None:
    return JaxModel(model) if callable(model) else None


_ADAPTERS: dict[str, Callable[[Any], Any]] = {
    "onnxruntime": _session,
    "foolbox": foolbox_of,
    "art": art_of,
    "jaxlib": _compiled,
    "jax": _compiled,
    "sklearn": estimator_of,
    "xgboost": estimator_of,
    "lightgbm": estimator_of,
    "catboost": estimator_of,
}


def _nearest(model: Any) -> str | None:
    """The nearest thing to an object that cannot be asked; None where nothing is known."""
    inner = getattr(model, "model", None)
    for applies, advice in (
        (isinstance(model, str | bytes | PurePath), _ADVICE["path"]),
        (isinstance(model, np.ndarray | Tensor | list | tuple), _ADVICE["array"]),
        (isinstance(model, dict) and any(isinstance(value, Tensor) for value in model.values()), _ADVICE["weights"]),
        (type(model).__name__ in _ADVICE, _ADVICE.get(type(model).__name__)),
        ("transformers" in _packages(model) and isinstance(inner, nn.Module), _ADVICE["pipeline"]),
        (not callable(model) and callable(getattr(model, "predict", None)), _ADVICE["predict"]),
        (not callable(model) and isinstance(inner, nn.Module), "pass the torch module in it, `model.model`"),
    ):
        if applies:
            return advice
    return None


_ADVICE = {
    "path": f"load what it names (`psj attack --model` does, on the command line), and pass {KINDS}",
    "array": f"the order is evaluate(model, images, labels); pass {KINDS}",
    "weights": "a state dict holds weights alone; build the module, call `load_state_dict`, and pass the module",
    "pipeline": "a pipeline prepares its own inputs, and an attack must choose them; pass its module, `pipeline.model`",
    "predict": "pass model.predict if it takes a NumPy batch and gives integers from 0, or "
    "adapters.NamedFunction(model.predict, classes=[...]) if it gives names",
    # by the name of the type: of XGBoost and LightGBM, of ONNX, of torch.export
    "Booster": "pass the XGBClassifier or LGBMClassifier, or a function that calls `predict` and returns labels, such "
    "as `lambda x: model.predict(xgboost.DMatrix(x)).argmax(axis=1)`",
    "ModelProto": "pass a session that runs it, `onnxruntime.InferenceSession(model.SerializeToString())`",
    "ExportedProgram": "pass `model.module()`",
}
