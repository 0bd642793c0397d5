"""Batching: the directions of many images are packed into calls of the classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.directions.pool import BLOCK, DirectionPool, block_rows, blocks_at_once
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import REGISTER

CHUNK = 512  # rows of one classifier call: large enough for full speed, small enough for the processor's cache
STRETCH = 128  # directions summed in one operation, independently of the chunks


def capacity_of(dimension: int) -> int:
    """Largest number of rows of one classifier call."""
    block = block_rows(dimension)
    return CHUNK if block == BLOCK else block


def empty_sums(images: int, dimension: int, device: torch.device) -> Tensor:
    """Zeros `(A, 2, d)` for two sums per image, each aligned to a vector register.

    On some processors, the last digit of a product depends on the alignment of the memory it is added to.
    """
    return torch.zeros(images, 2, dimension + -dimension % REGISTER, device=device)[..., :dimension]


class Piece(NamedTuple):
    """Directions of one block of one image."""

    image: int
    number: int  # index of the block
    size: int
    first: int = 0  # first row within the block


def chunks_of(counts: list[int], block: int, capacity: int, stretch: int | None = None) -> Iterator[list[Piece]]:
    """Pack blocks into chunks of at most `capacity` rows.

    A block is split between chunks only at multiples of `stretch` rows, and never if `stretch` is None. Sums taken
    stretch by stretch are then equal to the last digit for any chunking.
    """
    chunk: list[Piece] = []
    free = capacity
    for image, count in enumerate(counts):
        for number, start in enumerate(range(0, count, block)):
            size = min(block, count - start)
            first = 0
            while first < size:
                rest = size - first
                fits = rest if rest <= free else free // stretch * stretch if stretch else 0
                if fits:
                    chunk.append(Piece(image, number, fits, first))
                    first, free = first + fits, free - fits
                if first < size:
                    yield chunk
                    chunk, free = [], capacity
    if chunk:
        yield chunk


def stretches(pieces: list[Piece]) -> tuple[list[int], list[int]]:
    """The images and sizes of the stretches of a chunk."""
    images, sizes = [], []
    for piece in pieces:
        whole, rest = divmod(piece.size, STRETCH)
        parts = [STRETCH] * whole + [rest] * (rest > 0)
        images += [piece.image] * len(parts)
        sizes += parts
    return images, sizes


class Chunk(NamedTuple):
    """The queries of one classifier call, M rows."""

    pieces: list[Piece]
    blocks: list[Tensor]  # `(size, d)` for each piece
    scales: tuple[Tensor, ...]  # `(d,)` for each piece: factors on its block
    images: Tensor  # (M,) int64, on the device: index among the A images of this estimate
    rows: Tensor  # (M,) int64, on the CPU: row of the problem


def drawn(
    problem: Problem,
    pool: DirectionPool,
    chunks: Iterator[list[Piece]],
    rows: Tensor,
    scale: Tensor,
    iteration: int,
    first: int = 0,
) -> Iterator[Chunk]:
    """Draw the directions of the chunks, for many chunks at a time, which costs little more than for one.

    Args:
        problem: the images.
        pool: source of the directions.
        chunks: lists of pieces, see `chunks_of`.
        rows: `(A,)` int64, on the CPU: the row of the problem of each image of the pieces.
        scale: `(A, 1)` or `(A, d)`, on the device: standard deviation of the directions' coordinates.
        iteration: t, part of the key of the random directions.
        first: index of the first block, also part of the key.
    """
    at_once = blocks_at_once(problem.dimension)
    while ahead := _take(chunks, at_once):
        pieces = [piece for chunk in ahead for piece in chunk]
        images = torch.tensor([piece.image for piece in pieces])
        numbers = torch.tensor([first + piece.number for piece in pieces])
        parts = [(piece.first, piece.first + piece.size) for piece in pieces]
        blocks, signs = pool.draw(rows.index_select(0, images), iteration, numbers, parts)
        scales = signs.mul_(scale.index_select(0, problem.index(images))).unbind(0)
        image_of_row = images.repeat_interleave(torch.tensor([piece.size for piece in pieces]))
        sizes = [sum(piece.size for piece in chunk) for chunk in ahead]
        split_images = torch.split(problem.index(image_of_row), sizes)
        split_rows = torch.split(rows.index_select(0, image_of_row), sizes)
        start = 0
        for chunk, mine, theirs in zip(ahead, split_images, split_rows, strict=True):
            part = slice(start, start + len(chunk))
            yield Chunk(chunk, blocks[part], scales[part], mine, theirs)
            start += len(chunk)


def _take(chunks: Iterator[list[Piece]], pieces: int) -> list[list[Piece]]:
    """The next chunks, until they hold `pieces` pieces."""
    taken: list[list[Piece]] = []
    while sum(map(len, taken)) < pieces and (chunk := next(chunks, None)) is not None:
        taken.append(chunk)
    return taken
