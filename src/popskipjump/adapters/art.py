"""Classifiers of the Adversarial Robustness Toolbox (ART), the label-only `BlackBoxClassifier` included."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.oracles import FunctionModel
from popskipjump.oracles.answers import own_array
from popskipjump.oracles.classifier import labels_in


class ArtModel(FunctionModel):
    """An estimator of ART whose `predict` gives scores `(M, K)`; its defences and preprocessing stay in place."""

    def __init__(self, estimator: Any) -> None:
        super().__init__(estimator.predict, int(estimator.nb_classes))
        self.estimator = estimator

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise unless inputs `(M, *shape)` have the shape that the estimator was made for."""
        wanted = getattr(self.estimator, "input_shape", None)
        if isinstance(wanted, tuple) and all(isinstance(size, int) for size in wanted) and wanted != shape:
            raise InputError(
                f"this {type(self.estimator).__name__} is for inputs of the shape {wanted}, and these have {shape}."
            )

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        batch = own_array(points)
        return labels_in(self.estimator.predict(batch, batch_size=max(1, len(batch))), len(batch))


def art_of(model: Any) -> ArtModel | None:
    """The adapter of an object of ART; None if it is no classifier."""
    if callable(getattr(model, "predict", None)) and getattr(model, "nb_classes", None):
        return ArtModel(model)
    if hasattr(model, "generate") and hasattr(model, "estimator"):
        raise InputError(f"{type(model).__name__} is an attack of ART, not a classifier: pass its `estimator`.")
    return None
