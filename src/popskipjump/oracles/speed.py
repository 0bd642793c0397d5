"""Faster inference for torch modules, with the same predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from popskipjump.errors import InputError

_AGREEMENT = 1e-3  # relative to the largest logit: the difference allowed between float32 kernels


class FastForward:
    """A frozen, fused copy of a module's forward pass.

    The first call traces the module and compares the copy's output with the module's. The control flow of the module
    must not depend on the values of the input. If tracing fails or the outputs differ, the module itself is used;
    `state` holds the outcome. Rows that repeat the row before them, as with votes, are computed once.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.state = "not called yet"
        self.forward: Callable[[Tensor], Any] | None = None
        self._once = False  # whether equal rows have equal outputs, one row of one tensor each

    def __call__(self, points: Tensor) -> Any:
        """The module's output for a batch `(M, *S)`."""
        if self.forward is None:
            self.forward = self._made(points)
        # Votes repeat every row, so a look at the first two rows is enough for all other calls.
        if self._once and len(points) > 1 and torch.equal(points[0], points[1]):
            differs = (points[1:] != points[:-1]).flatten(1).any(dim=1)
            group = torch.cat((differs.new_zeros(1), differs)).cumsum(dim=0)  # (M,) the number of each row's point
            first = torch.cat((differs.new_ones(1), differs))
            return self.forward(points[first])[group]
        return self.forward(points)

    def _made(self, points: Tensor) -> Callable[[Tensor], Any]:
        example = points[:2].detach().clone()
        try:
            with warnings.catch_warnings():
                # Torch warns that this interface is deprecated, but offers nothing as fast without a compiler.
                warnings.simplefilter("ignore")
                with torch.no_grad():
                    frozen = torch.jit.freeze(torch.jit.trace(self.module, example, check_trace=False))  # type: ignore[no-untyped-call]
                    fast = torch.jit.optimize_for_inference(frozen)
                    plain, quick, again = self.module(points), fast(points), fast(points)
                    more = torch.cat((points[:2], points[:1]))  # a trace may hold the number of rows it was made with
                    alike = _agree(plain, quick) and _agree(self.module(more), fast(more))
        except Exception as error:
            self.state = f"plain: the module cannot be traced ({type(error).__name__})"
            return self.module
        if not alike:
            self.state = "plain: the frozen copy answers differently"
            return self.module
        self.state = "frozen"
        self._once = isinstance(quick, Tensor) and quick.shape[:1] == points.shape[:1] and torch.equal(quick, again)
        return fast


def _agree(plain: object, quick: object) -> bool:
    if not (isinstance(plain, Tensor) and isinstance(quick, Tensor) and plain.shape == quick.shape):
        return False
    if not plain.is_floating_point():
        return bool((plain == quick).all())
    scale = float(plain.abs().max())
    return bool(((plain - quick).abs() <= _AGREEMENT * scale + 1e-6).all())


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Context in which torch uses `count` threads; None changes nothing."""
    if count is None:
        yield
        return
    if isinstance(count, bool) or int(count) != count or count < 1:
        raise InputError(f"threads must be a whole number of at least 1, not {count!r}.")
    before = torch.get_num_threads()
    torch.set_num_threads(int(count))
    try:
        yield
    finally:
        torch.set_num_threads(before)
