"""Number of inputs per call of a module, from the memory that its layers need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

FIRST_BYTES = 4 << 20  # of inputs in the first call, which measures
LAYER_BYTES = 256 << 20  # what the widest layer of a call may read and write together


class CallSize:
    """How many rows a call of a module may have, by the memory of its widest layer, which the first call measures.

    It follows from the module alone, not from times: a run that is repeated asks in the same calls, and gets the same
    last digits.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.rows: int | None = None  # None before the first call

    def limit(self, points: Tensor) -> int:
        """Rows of the next call."""
        if self.rows is not None:
            return self.rows
        return max(1, FIRST_BYTES // max(4 * points[:1].numel(), 1))

    def measured(self, call: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
        """What a call answers; the first one is measured."""
        if self.rows is not None or not len(points):
            return call(points)
        rows, widest = len(points), 4.0 * points[:1].numel()

        def count(_: nn.Module, given: tuple[Any, ...]) -> None:
            nonlocal rows  # a frozen copy is compared with the module on other numbers of rows
            rows = len(given[0]) if given and isinstance(given[0], Tensor) and given[0].ndim else rows

        def look(_: nn.Module, given: tuple[Any, ...], answer: object) -> None:
            nonlocal widest
            if not torch._C._is_tracing():  # the public name has no types
                tensors = [value for value in (*given, answer) if isinstance(value, Tensor)]
                widest = max(widest, sum(value.numel() * value.element_size() for value in tensors) / max(rows, 1))

        leaves = [part for part in self._module.modules() if not any(True for _ in part.children())]
        hooks = [self._module.register_forward_pre_hook(count)]
        hooks += [part.register_forward_hook(look) for part in leaves]
        try:
            answer = call(points)
        finally:
            for hook in hooks:
                hook.remove()
        self.rows = max(1, int(LAYER_BYTES / widest))
        return answer


def in_calls(size: CallSize, answer: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """Answers about points, as many at a time as their memory allows: `(M, *S)` -> `(M, ...)`."""
    parts, start, count = [], 0, points.shape[0]  # faster than len() of a tensor
    if size.rows is not None and 0 < count <= size.rows:  # nearly every call
        return answer(points)
    while start < count:
        rows = size.limit(points)
        if not start and count <= rows:
            return size.measured(answer, points)
        parts.append(size.measured(answer, points[start : start + rows]))
        start += rows
    return torch.cat(parts) if parts else answer(points)
