"""Estimators with `predict`: scikit-learn, its pipelines, XGBoost, LightGBM, and others with the same interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np
from torch import Tensor

from popskipjump.adapters.classes import Names
from popskipjump.errors import InputError, MissingExtraError
from popskipjump.oracles import FunctionModel
from popskipjump.oracles.answers import own_array


class NamedFunction(FunctionModel):
    """A function from a float32 NumPy batch `(M, *S)` to the names of classes `(M,)`.

    Args:
        function: gives one of `classes` for each input.
        classes: the names in their order; `labels=` of an evaluation are written with them, too.
    """

    def __init__(self, function: Callable[[np.ndarray], Any], classes: Sequence[Any] | np.ndarray) -> None:
        self._answers = Names(classes)
        self.names: Names | None = self._answers  # those that labels are written with; None for integers
        super().__init__(function, len(self._answers))

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`, places in `classes`; the function gets a copy of its own."""
        return self._answers.answered(self.function(own_array(points)), len(points))


class EstimatorModel(NamedFunction):
    """A fitted classifier with `predict` and `classes_`; inputs are flattened to rows `(M, features)`.

    Args:
        estimator: fitted. If it was fitted on a pandas frame, it is asked with frames of the same columns.
        classes: its classes; None takes `classes_`.
    """

    def __init__(self, estimator: Any, classes: Sequence[Any] | np.ndarray | None = None) -> None:
        super().__init__(estimator.predict, _classes_of(estimator) if classes is None else classes)
        self.estimator = estimator
        columns = getattr(estimator, "feature_names_in_", None)
        self._columns = None if columns is None else list(columns)
        self._frame = None if columns is None else _frame_type()

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise unless inputs `(M, *shape)` have as many values as the estimator has features."""
        features = getattr(self.estimator, "n_features_in_", None)
        if features is not None and prod(shape) != int(features):
            raise InputError(
                f"{type(self.estimator).__name__} was fitted on {features} features, and an input of the shape {shape} "
                f"has {prod(shape)} values."
            )

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`, places in `classes_`."""
        rows = own_array(points).reshape(len(points), -1)
        asked = rows if self._frame is None else self._frame(rows, columns=self._columns)
        return self._answers.answered(self.function(asked), len(points))


def is_estimator(model: object) -> bool:
    """Whether a model follows the conventions of a fitted scikit-learn classifier."""
    return callable(getattr(model, "predict", None)) and hasattr(model, "classes_")


def estimator_of(model: Any) -> EstimatorModel | None:
    """The adapter of an object of scikit-learn or its relatives; an error that says what is missing; None if no fit."""
    if is_estimator(model):
        return EstimatorModel(model)
    if not callable(getattr(model, "predict", None)):
        return None
    name = type(model).__name__
    kind = _kind_of(model)
    if kind == "classifier":
        raise InputError(f"this {name} is not fitted: it has no `classes_`. Call `fit` first.")
    if kind == "regressor":
        raise InputError(
            f"{name} predicts numbers, and an attack needs classes: pass a function that says on which side "
            "of a threshold a prediction is, such as `lambda x: (model.predict(x) > 0.5).astype(int)`."
        )
    return None


def _kind_of(model: Any) -> str | None:
    """What scikit-learn calls the kind of an estimator: "classifier", "regressor", ..."""
    try:
        kind = model.__sklearn_tags__().estimator_type
    except AttributeError:  # before scikit-learn 1.6
        kind = getattr(model, "_estimator_type", None)
    return None if kind is None else str(kind)


def _classes_of(estimator: Any) -> np.ndarray:
    classes = estimator.classes_
    if isinstance(classes, list) and classes and isinstance(classes[0], np.ndarray):
        raise InputError(
            f"this {type(estimator).__name__} predicts several labels at once: pass a function that gives one of them."
        )
    return np.asarray(classes)


def _frame_type() -> Any:
    """The frame of pandas: an estimator with column names was fitted on one."""
    if find_spec("pandas") is None:
        raise MissingExtraError("pandas", "pandas")
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    return pd.DataFrame
