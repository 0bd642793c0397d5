"""Pool of Gaussian directions, which is cheaper than drawing every direction anew.

A pool of Gaussian rows is drawn once. An image's directions are consecutive rows of the pool, from a random offset,
multiplied by a vector of random signs. They are exactly Gaussian, and independent within a block. Every block has a new
vector of signs, so that a row used again is uncorrelated with its earlier use.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.geometry import l2_size, per_row
from popskipjump.rng import Key, integers, normal, signs

BLOCK = 256
_POOL_BYTES = 32 << 20
_MOST_BLOCKS = 8  # a larger pool would cost a single image more than it gains, because reused rows get new signs
_BLOCK_BYTES = 16 << 20
_SIGN_BYTES = 2 << 20


def block_rows(dimension: int) -> int:
    """Rows of one block: depends on the input's size only, so that results do not depend on the batch."""
    return max(1, min(BLOCK, _BLOCK_BYTES // (4 * dimension)))


def blocks_at_once(dimension: int) -> int:
    """Number of blocks to draw in one call: more are cheaper, but the signs of each take the memory of an input."""
    return max(1, _SIGN_BYTES // (4 * dimension))


class DirectionPool:
    """Addressable directions for the images of a problem."""

    def __init__(self, key: Key, dimension: int, image_id: Tensor, device: torch.device, sphere: bool) -> None:
        streams = key.child("directions")
        self._place, self._signs = streams.child("place"), streams.child("signs")
        self._rows = block_rows(dimension)
        self._blocks = max(2, min(_MOST_BLOCKS, _POOL_BYTES // (4 * dimension * self._rows)))
        self._image_id = image_id
        numbers = torch.arange(self._blocks * self._rows, device=device)
        self._pool = torch.empty(len(numbers), dimension, device=device)
        # Drawing block by block bounds the memory of the integer arithmetic.
        for block, n in zip(torch.split(self._pool, self._rows), torch.split(numbers, self._rows), strict=True):
            block.copy_(normal(streams.child("pool").roots(n), dimension))
        if sphere:
            self._pool *= dimension**0.5 / per_row(l2_size(self._pool))

    @classmethod
    def of(cls, problem: Problem, sphere: bool) -> DirectionPool:
        """The pool of a problem, drawn at its first use."""
        return problem.kept(
            cls, sphere, lambda: cls(problem.key, problem.dimension, problem.image_id, problem.device, sphere)
        )

    def draw(
        self, rows: Tensor, iteration: int, numbers: Tensor, parts: Iterable[tuple[int, int]] | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """The directions of some blocks, as two factors.

        Args:
            rows: `(k,)` int64, on the CPU: the image row of each block.
            iteration: t.
            numbers: `(k,)` int64, on the CPU: index of each block within its image.
            parts: for each of the k blocks, its first row and the row after its last; None for the whole block.

        Returns:
            k views of the pool `(rows, d)`, each coordinate of variance 1, and `(k, d)` the signs to multiply with.
        """
        image = self._image_id.index_select(0, rows)
        time = torch.full_like(image, iteration)
        begin = integers(self._place.roots(image, time), 1, self._blocks).squeeze(1)
        places = ((begin + numbers) % self._blocks * self._rows).tolist()
        roots = self._signs.roots(image, time, numbers).to(self._pool.device, non_blocking=True)
        parts = repeat((0, self._rows), len(places)) if parts is None else parts
        views = [self._pool[place + first : place + last] for place, (first, last) in zip(places, parts, strict=True)]
        return views, signs(roots, self._pool.shape[1])
