"""Norms as values, and the few moves that depend on them.

Everywhere in the attacks a batch of inputs is flat, `(B, d)`; `per_row` is the one way to let a number of each
image act on its row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.types import Bounds

REGISTER = 16  # float32 numbers that the widest processors take at once


def per_row(values: Tensor) -> Tensor:
    """One number for each image, ready to act on rows: `(B,)` -> `(B, 1)`."""
    return values.unsqueeze(-1)


def clip(points: Tensor, bounds: Bounds) -> Tensor:
    """The nearest points within the bounds: any shape."""
    return points.clamp(bounds.low, bounds.high)


def l2_size(vectors: Tensor) -> Tensor:
    """Euclidean length of each row: `(..., d)` -> `(...)`."""
    size: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return size


def row_sums(values: Tensor) -> Tensor:
    """`(B, d)` -> `(B,)`, whatever the number of rows and threads, to the last digit."""
    # Several threads add up a row that is alone in another order than one of many.
    return values.expand(2, -1).sum(dim=1)[:1] if values.shape[0] == 1 else values.sum(dim=1)


def inner(vectors: Tensor, others: Tensor) -> Tensor:
    """Inner product of each row with its partner: `(B, d)`, `(B, d)` or `(d,)` -> `(B,)`."""
    return row_sums(vectors * others)


def unit(vectors: Tensor) -> Tensor:
    """Each row in its direction, of length 1: `(B, d)` -> `(B, d)`; 0 stays 0."""
    size = per_row(l2_size(vectors))
    return vectors / torch.where(size > 0, size, torch.ones_like(size))


def across(vectors: Tensor, direction: Tensor) -> Tensor:
    """The part of each row at right angles to a direction of length 1: `(B, d)`, `(B, d)` -> `(B, d)`."""
    return torch.addcmul(vectors, direction, per_row(inner(vectors, direction)), value=-1)


class Norm(Protocol):
    """How distance is measured, and how one moves in that geometry."""

    name: str
    judges_steps: bool  # whether the distance after a single step tells how good its direction was
    follows_signs: bool  # whether a step follows the sign of every value, so that small values count as well
    has_tangent: bool  # whether a ball of this norm has a tangent plane everywhere, so that a ray can be turned

    def bisection_tolerance(self, dimension: int) -> float:
        """HSJ's published theta for inputs of `dimension` values, as a part of the line."""

    def size(self, vectors: Tensor) -> Tensor:
        """Norm of each row: `(B, d)` -> `(B,)`."""

    def dual_size(self, vectors: Tensor) -> Tensor:
        """Dual norm of each row, by which heights over a plane become distances: `(..., d)` -> `(...)`."""

    def blend(self, outer: Tensor, original: Tensor, position: Tensor) -> Tensor:
        """The point at `position` between two ends (0: outer, 1: original): `(B, d)`, `(B, d)`, `(B,)` -> `(B, d)`."""

    def between(self, outer: Tensor, original: Tensor) -> Callable[[Tensor], Tensor]:
        """`blend` for many positions: `(B, d)`, `(B, d)` -> a function from `(B,)` to `(B, d)`."""

    def ascent(self, gradient: Tensor) -> Tensor:
        """The direction of norm one that climbs fastest along each gradient: `(B, d)` -> `(B, d)`; 0 stays 0."""

    def turn(self, change: Tensor, gradient: Tensor, angle: Tensor) -> Tensor:
        """Turn a change from the original towards a gradient, as a border across that gradient allows.

        Args:
            change: `(B, d)` from the originals to border points.
            gradient: `(B, d)` towards the adversarial side.
            angle: `(B,)` how far, in radians.

        Returns:
            `(B, d)` the new change; in L2 the border's nearest point, if the angle is that of its normal.
        """


class _L2:
    name = "l2"
    judges_steps = True
    follows_signs = False
    has_tangent = True

    def bisection_tolerance(self, dimension: int) -> float:
        return float(dimension**-1.5)

    def size(self, vectors: Tensor) -> Tensor:
        return l2_size(vectors)

    def dual_size(self, vectors: Tensor) -> Tensor:
        return l2_size(vectors)

    def blend(self, outer: Tensor, original: Tensor, position: Tensor) -> Tensor:
        return self.between(outer, original)(position)

    def between(self, outer: Tensor, original: Tensor) -> Callable[[Tensor], Tensor]:
        change = original - outer
        # addcmul keeps position 0 and 1 exact where the bounds are.
        return lambda position: torch.addcmul(outer, change, per_row(position))

    def ascent(self, gradient: Tensor) -> Tensor:
        return unit(gradient)

    def turn(self, change: Tensor, gradient: Tensor, angle: Tensor) -> Tensor:
        # Thales: the feet of the perpendiculars on all planes through the point lie on this circle.
        side = unit(across(gradient, unit(change))) * per_row(self.size(change))
        cos, sin = per_row(torch.cos(angle)), per_row(torch.sin(angle))
        return cos * (cos * change + sin * side)


class _Linf:
    name = "linf"
    judges_steps = False
    follows_signs = True
    has_tangent = False

    def bisection_tolerance(self, dimension: int) -> float:
        return float(dimension**-2.0)

    def size(self, vectors: Tensor) -> Tensor:
        return vectors.abs().amax(dim=-1)

    def dual_size(self, vectors: Tensor) -> Tensor:
        return vectors.abs().sum(dim=-1)

    def blend(self, outer: Tensor, original: Tensor, position: Tensor) -> Tensor:
        return self.between(outer, original)(position)

    def between(self, outer: Tensor, original: Tensor) -> Callable[[Tensor], Tensor]:
        # In this geometry one approaches the original by cutting the largest changes first.
        change = outer - original
        size = self.size(change)

        def at(position: Tensor) -> Tensor:
            reach = per_row((1 - position) * size)
            return original + torch.minimum(torch.maximum(change, -reach), reach)

        return at

    def ascent(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def turn(self, change: Tensor, gradient: Tensor, angle: Tensor) -> Tensor:
        # A cube has no circle: step along the gradient's signs, and cut the largest changes by as much as on a circle.
        size = per_row(self.size(change))
        ahead = change + size * per_row(torch.tan(angle)) * self.ascent(gradient)
        reach = size * per_row(torch.cos(angle))
        return torch.minimum(torch.maximum(ahead, -reach), reach)


L2: Norm = _L2()
LINF: Norm = _Linf()
_NORMS = {norm.name: norm for norm in (L2, LINF)}


def norm_of(value: str | Norm) -> Norm:
    """A norm from its name, "l2" or "linf"."""
    if not isinstance(value, str):
        if not callable(getattr(value, "blend", None)):
            raise InputError(
                f"norm must be {' or '.join(map(repr, _NORMS))}, or an object such as `L2`, not {value!r}."
            )
        return value
    name = value.lower().replace("-", "").replace("_", "")
    if name not in _NORMS:
        raise UnknownNameError("norm", value, _NORMS)
    return _NORMS[name]
