"""Selection and replacement of rows (images) in nested NamedTuples of tensors."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
from torch import Tensor

S = TypeVar("S")  # a tensor whose first axis counts images, None, or a NamedTuple of these


def select_rows(state: S, chosen: Tensor) -> S:
    """The state of some images: an index or a mask `(A,)` on the CPU."""
    index = chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen
    return cast(S, _selected(state, index))


def _selected(value: Any, index: Tensor) -> Any:
    if value is None:
        return None
    if isinstance(value, Tensor):
        return value.index_select(0, index.to(value.device))
    return type(value)(*(_selected(field, index) for field in value)) if value else value


def replace_rows(state: S, index: Tensor, new: S) -> S:
    """The state with some images replaced: index `(k,)` on the CPU, `new` of k images.

    A field that either side lacks (None) stays as it is in `state`.
    """
    return cast(S, _replaced(state, index, new))


def _replaced(value: Any, index: Tensor, new: Any) -> Any:
    if value is None or new is None:
        return value
    if isinstance(value, Tensor):
        return value.index_copy(0, index.to(value.device), new)
    return (
        type(value)(*(_replaced(old, index, fresh) for old, fresh in zip(value, new, strict=True))) if value else value
    )
