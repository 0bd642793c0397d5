"""Class labels of any type (texts, arbitrary integers, booleans), mapped to class numbers and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import InputError, OracleError

_SHOWN = 8


class Names:
    """The classes of a classifier in their order; labels are their places, 0 to K - 1."""

    def __init__(self, classes: Sequence[Any] | np.ndarray) -> None:
        array = np.asarray(classes)
        if array.ndim != 1 or len(array) < 2:
            raise InputError(f"classes must be a list of at least two names, not an array of shape {array.shape}.")
        self.names: list[Any] = array.tolist()
        self._place = {name: place for place, name in enumerate(self.names)}
        if len(self._place) < len(self.names):
            raise InputError(f"a class is named twice in {_some(self.names)}.")
        self.counted = array.dtype.kind in "iu" and self.names == list(range(len(array)))  # 0 to K - 1 already

    def __len__(self) -> int:
        return len(self.names)

    def given(self, labels: Any, what: str = "labels") -> Tensor:
        """Labels that a user wrote as classes, as places: `(B,)` -> int64 `(B,)`; raises before anything is asked."""
        values = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
        if values.ndim != 1:
            raise InputError(f"{what} must be one class for each image, not an array of shape {values.shape}.")
        places = [self._place.get(value, -1) for value in values.tolist()]
        strange = sorted({str(v) for v, place in zip(values.tolist(), places, strict=True) if place < 0})
        if strange:
            raise InputError(
                f"{what} hold {_some(strange)}, which {'are' if len(strange) > 1 else 'is'} not among the classes of "
                f"the classifier: {_some(self.names)}."
            )
        return torch.tensor(places, dtype=torch.int64)

    def answered(self, answer: Any, count: int) -> Tensor:
        """Classes that the classifier answered, as places: `(count,)` or `(count, 1)` -> int64 `(count,)`."""
        array = np.asarray(answer)
        if array.shape not in ((count,), (count, 1)):
            raise OracleError(f"the classifier was given {count} inputs and returned an array of shape {array.shape}.")
        array = array.reshape(count)
        if self.counted and array.dtype.kind in "iu":
            places = array.astype(np.int64)
            if count and not (int(places.min()) >= 0 and int(places.max()) < len(self)):
                raise self._unknown(array.tolist())
            return torch.from_numpy(places)
        try:
            found = np.fromiter(map(self._place.__getitem__, array.tolist()), np.int64, count)
            return torch.from_numpy(found)
        except (KeyError, TypeError) as error:
            raise self._unknown(array.tolist()) from error

    def _unknown(self, answers: list[Any]) -> OracleError:
        strange = sorted({str(answer) for answer in answers if answer not in self._place})
        return OracleError(f"the classifier answered {_some(strange)}, not one of its classes: {_some(self.names)}.")


def _some(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, ... ({len(names)} in all)"
