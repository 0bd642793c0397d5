"""What the parts of a walk hand to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.sigmoid import Estimate


class Border(NamedTuple):
    """A point on the estimated border for each of A images, and what is known of the search line it lies on."""

    rows: Tensor  # (A,) int64, on the CPU
    outer: Tensor  # (A, d) the adversarial end of the line; the other end is the original
    point: Tensor  # (A, d) where the border was found
    position: Tensor  # (A,) of the point on the line, 0 = outer
    safe: Tensor  # (A,) the position nearest to the original that is adversarial with confidence
    distance: Tensor  # (A,) of the point from the original, in the norm of the problem
    gap: Tensor  # (A,) L2 length of the line
    effort: Tensor  # (A,) how many times the noiseless number of directions this noise needs
    searched: Tensor  # (A,) int64, decisions asked in the search
    settled: Tensor  # (A,) bool, False where the budget or a cap cut the search short
    estimate: Estimate | None = None  # (A,) of the sigmoid along the line; None for a search without noise
    probes: Tensor | None = None  # (A, 2, P) int64, how often each place was asked, and was adversarial; None likewise

    def select(self, chosen: Tensor) -> Border:
        """Some of the images: an index or a mask `(A,)` on the CPU."""
        index = chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen

        def some(values: Tensor) -> Tensor:
            return values.index_select(0, index.to(values.device))

        tensors: dict[str, Any] = {name: some(values) for name, values in self._tensors().items()}
        estimate = None if self.estimate is None else Estimate(*map(some, self.estimate))
        return self._replace(estimate=estimate)._replace(**tensors)

    def _tensors(self) -> dict[str, Tensor]:
        """All but the estimate."""
        return {name: value for name, value in self._asdict().items() if isinstance(value, Tensor)}


def merge(take: Tensor, new: Border, old: Border) -> Border:
    """Row by row, the new border where `take` is true, else the old one: bool `(A,)` on the CPU."""
    stay = (~take).nonzero().flatten()
    return replace_rows(new, stay, old.select(stay)) if len(stay) else new


def replace_rows(border: Border, index: Tensor, new: Border) -> Border:
    """A border in which some images have another: index `(k,)` on the CPU, new of k images."""

    def put(old: Tensor, fresh: Tensor) -> Tensor:
        return old.index_copy(0, index.to(old.device), fresh)

    fresh = new._tensors()
    tensors: dict[str, Any] = {name: put(old, fresh[name]) for name, old in border._tensors().items()}
    if border.estimate is None or new.estimate is None:
        return border._replace(**tensors)
    estimate = Estimate(*(put(old, value) for old, value in zip(border.estimate, new.estimate, strict=True)))
    return border._replace(estimate=estimate)._replace(**tensors)


class Locate(Protocol):
    """Finds the border on a line."""

    def __call__(
        self, problem: Problem, rows: Tensor, outer: Tensor, iteration: int, previous: Border | None
    ) -> Border:
        """Search between `outer` `(A, d)` and the originals; `previous` is the border of the iteration before."""


class NearerStart(Protocol):
    """Looks for a nearer border to begin at."""

    def __call__(self, problem: Problem, rows: Tensor, start: Tensor, locate: Locate) -> Border:
        """A near border for each image, from adversarial points `(A, d)`; `locate` finds it on a line."""

    def anew(self, problem: Problem, border: Border, locate: Locate) -> Border:
        """Begin elsewhere with the images whose line has no border at all; the others as they are."""


class Direction(Protocol):
    """Estimates the border's normal, towards the adversarial side."""

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        """`(A, d)`, of any length; 0 where nothing was learned."""


class Advance(Protocol):
    """Steps along a direction to the outer end of the next search line."""

    def __call__(self, problem: Problem, border: Border, gradient: Tensor, iteration: int) -> Tensor:
        """`(A, d)` within the bounds."""


class Accept(Protocol):
    """Chooses between the border just found and the one before."""

    def __call__(self, problem: Problem, found: Border, before: Border) -> Tensor:
        """Which images go on from the new one: bool `(A,)` on the CPU."""


Schedule = Callable[[int], float]
