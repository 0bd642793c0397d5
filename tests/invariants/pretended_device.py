"""A pretended device: memory of the CPU that says it lies elsewhere, and counts what is carried to and fro.

As on a real device, an operation on tensors of both sides is refused, but for indices and single numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("meta")
aten = torch.ops.aten
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default}


class Remote(torch.Tensor):
    """A tensor elsewhere."""

    @staticmethod
    def __new__(cls, held: Tensor) -> Remote:
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=ELSEWHERE,
        )  # fmt: skip

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]  # torch declares its default as a function
        raise RuntimeError(f"{func} outside of the pretence")


class Elsewhere(TorchDispatchMode):
    """Inside, `ELSEWHERE` is a device. `down` counts the times that something came back from it, or was waited for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.down = self.up = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        there = [isinstance(x, Remote) for x in tensors]
        target = kwargs.get("device")
        to_cpu = target is not None and torch.device(target).type == "cpu"
        self._count(func, tensors, there, target)
        if target is not None:
            kwargs["device"] = "cpu"
        result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        if func is aten._local_scalar_dense.default or (to_cpu and any(there)):
            return result
        if not (any(there) or (target is not None and not to_cpu)):
            return result
        return _same_or_wrapped(result, tensors)

    def _count(self, func: Any, tensors: Any, there: Any, target: Any) -> None:
        carried = func in {aten._to_copy.default, aten.copy_.default}
        if func is aten._local_scalar_dense.default:
            self.down += any(there)
        elif func is aten.nonzero.default or (any(x.dtype == torch.bool for x in tensors[1:]) and func in INDEXING):
            self.down += any(there)  # the size of the result has to be known
        elif func is aten.copy_.default:
            self.down += there == [False, True]
            self.up += there == [True, False]
        elif func is aten._to_copy.default and target is not None:
            self.down += there[0] and torch.device(target).type == "cpu"
            self.up += not there[0] and torch.device(target).type != "cpu"
        mixed = any(there) and any(not t and x.ndim for t, x in zip(there, tensors, strict=True))
        if mixed and not carried and not (func in INDEXING and there[0]):
            raise RuntimeError(f"{func}: tensors on two devices")


def _held(x: Any) -> Tensor:
    return x.held if isinstance(x, Remote) else x


def _same_or_wrapped(result: Any, tensors: Any) -> Any:
    """Results that are an argument itself stay that argument; others are new tensors elsewhere."""
    own = {id(_held(x)): x for x in tensors}

    def wrapped(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return own[id(x)] if id(x) in own else Remote(x)

    return tree_map(wrapped, result)
