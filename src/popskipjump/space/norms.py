"""A norm of changes in scaled units."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from popskipjump.geometry import Norm


class ScaledNorm:
    """A norm of changes that are divided by a scale first: the same geometry, seen from the inputs.

    Args:
        norm: of scaled changes.
        scale: `(D,)`.
    """

    def __init__(self, norm: Norm, scale: Tensor) -> None:
        self._norm, self._scale = norm, scale
        self.name = norm.name
        self.judges_steps, self.follows_signs, self.has_tangent = (
            norm.judges_steps,
            norm.follows_signs,
            norm.has_tangent,
        )

    def _of(self, vectors: Tensor) -> Tensor:
        return self._scale.to(vectors)

    def bisection_tolerance(self, dimension: int) -> float:
        """See `Norm`."""
        return self._norm.bisection_tolerance(dimension)

    def dual_size(self, vectors: Tensor) -> Tensor:
        """See `Norm`."""
        return self._norm.dual_size(vectors * self._of(vectors))

    def size(self, vectors: Tensor) -> Tensor:
        """See `Norm`."""
        return self._norm.size(vectors / self._of(vectors))

    def blend(self, outer: Tensor, original: Tensor, position: Tensor) -> Tensor:
        """See `Norm`."""
        return self.between(outer, original)(position)

    def between(self, outer: Tensor, original: Tensor) -> Callable[[Tensor], Tensor]:
        """See `Norm`."""
        scale = self._of(outer)
        at = self._norm.between(outer / scale, original / scale)
        return lambda position: at(position) * scale

    def ascent(self, gradient: Tensor) -> Tensor:
        """See `Norm`."""
        return self._norm.ascent(gradient * self._of(gradient)) * self._of(gradient)

    def turn(self, change: Tensor, gradient: Tensor, angle: Tensor) -> Tensor:
        """See `Norm`."""
        scale = self._of(change)
        return self._norm.turn(change / scale, gradient * scale, angle) * scale
