"""Compiled JAX functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from popskipjump.oracles import FunctionModel
from popskipjump.oracles.answers import opened
from popskipjump.oracles.classifier import labels_in

STEPS = 4  # sizes of batches in every doubling: at most a quarter of the rows is padding


class JaxModel(FunctionModel):
    """A function that `jax.jit` made, from a float32 batch `(M, *S)` to scores `(M, K)` or labels `(M,)`.

    The output may be inside a dict or a tuple.

    JAX compiles a function anew for every shape, and an attack asks in batches of all sizes. Batches are filled up with
    rows of zeros to one of a few sizes; the answers to these rows are dropped. A compiled function has no side
    effects, so that nobody sees them; they are no queries.
    """

    def __init__(self, function: Callable[[Any], Any], classes: int | None = None) -> None:
        super().__init__(function, classes)

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        given = points.detach().cpu().numpy()
        count = len(given)
        size = padded_size(count)
        if size == count:  # no copy: a compiled function does not change its input, and has ended when it is read
            return labels_in(np.asarray(opened(self.function(given))), count)
        batch = np.zeros((size, *given.shape[1:]), dtype=np.float32)
        batch[:count] = given
        return labels_in(np.asarray(opened(self.function(batch)))[:count], count)


def padded_size(count: int) -> int:
    """The size of the batch in which `count` rows are asked: at least `count`, and one of few."""
    unit = max(1, 1 << max(0, (count - 1).bit_length() - 1) >> STEPS.bit_length() - 1)
    return -(-count // unit) * unit
