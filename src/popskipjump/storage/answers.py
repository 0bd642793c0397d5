"""Sparse store of an image's answers by query number; gaps take no memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


class Answers:
    """The answers of one image, in stretches of consecutive queries; a later answer replaces an earlier one."""

    def __init__(self) -> None:
        self._added: list[tuple[int, np.ndarray]] = []
        self._first = np.zeros(0, dtype=np.int64)  # (K,) where each stretch begins, in order
        self._labels: list[np.ndarray] = []  # of each stretch

    def add(self, first: int, labels: np.ndarray) -> None:
        """Add the answers to queries `first`, `first + 1`, ...: int64 `(count,)`."""
        self._added.append((first, _small(labels)))

    def drop(self, first: int, count: int) -> None:
        """Forget the answers to queries `first` to `first + count - 1`."""
        self._settle()
        left = []
        for begin, labels in zip(self._first.tolist(), self._labels, strict=True):
            head, tail = max(first - begin, 0), max(first + count - begin, 0)
            left += [(begin, labels[:head]), (begin + tail, labels[tail:])] if tail else [(begin, labels)]
        self._first, self._labels = np.zeros(0, dtype=np.int64), []
        self._added = [(begin, labels) for begin, labels in left if len(labels)]

    def of(self, serial: np.ndarray) -> np.ndarray:
        """The answers to some queries: int64 `(M,)` -> int64 `(M,)`, -1 where there is none."""
        self._settle()
        found = np.full(len(serial), -1, dtype=np.int64)
        if not self._labels:
            return found
        stretch = np.searchsorted(self._first, serial, "right") - 1
        for k in np.unique(stretch[stretch >= 0]).tolist():
            place = serial - self._first[k]
            here = (stretch == k) & (place < len(self._labels[k]))
            found[here] = self._labels[k][place[here]]
        return found

    def __len__(self) -> int:
        self._settle()
        return sum(map(len, self._labels))

    def stretches(self) -> list[tuple[int, np.ndarray]]:
        """The number of the first query of each stretch, in order, with the stretch's answers."""
        self._settle()
        return list(zip(self._first.tolist(), self._labels, strict=True))

    @property
    def end(self) -> int:
        """The number after the last answered query."""
        self._settle()
        return int(self._first[-1]) + len(self._labels[-1]) if self._labels else 0

    def gaps(self) -> list[tuple[int, int]]:
        """Queries without an answer before answered ones: where each stretch of them begins, and where it ends."""
        self._settle()
        found, end = [], 0
        for first, labels in zip(self._first.tolist(), self._labels, strict=True):
            if first > end:
                found.append((end, first))
            end = first + len(labels)
        return found

    def after(self, first: int) -> int:
        """How many answers there are from query `first` on."""
        self._settle()
        ends = zip(self._first.tolist(), self._labels, strict=True)
        return sum(max(0, begin + len(labels) - max(begin, first)) for begin, labels in ends)

    def _settle(self) -> None:
        """Merge the added answers into the stretches."""
        if not self._added:
            return
        parts = [*zip(self._first.tolist(), self._labels, strict=True), *self._added]
        self._added = []
        ordered = sorted(parts, key=lambda part: part[0])
        if any(a + len(x) > b for (a, x), (b, _) in pairwise(ordered)):
            ordered = _without_overlap(parts)
        groups: list[tuple[int, list[np.ndarray]]] = []
        end = -1
        for first, labels in ordered:
            if first == end:
                groups[-1][1].append(labels)
            else:
                groups.append((first, [labels]))
            end = first + len(labels)
        self._first = np.array([first for first, _ in groups], dtype=np.int64)
        self._labels = [labels[0] if len(labels) == 1 else np.concatenate(labels) for _, labels in groups]


def _without_overlap(parts: list[tuple[int, np.ndarray]]) -> list[tuple[int, np.ndarray]]:
    """Disjoint stretches; of two answers to one query, the one added later is kept."""
    serial = np.concatenate([first + np.arange(len(labels)) for first, labels in parts])
    labels = np.concatenate([labels for _, labels in parts])
    order = np.argsort(serial, kind="stable")
    serial, labels = serial[order], labels[order]
    last = np.append(serial[1:] != serial[:-1], True)
    serial, labels = serial[last], labels[last]
    cuts = np.flatnonzero(np.diff(serial) != 1) + 1
    pieces = zip(np.split(serial, cuts), np.split(labels, cuts), strict=True)
    return [(int(numbers[0]), part) for numbers, part in pieces]


def _small(labels: np.ndarray) -> np.ndarray:
    """Labels in the smallest type that holds them: a million queries are a megabyte, not eight."""
    largest = int(labels.max(initial=0))
    return labels.astype(
        next(kind for kind in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max)
    )
