"""The adversarial classes answered at the last queried point of each image, while points are checked or confirmed."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

PHASES = frozenset({"check", "settle", "verdict"})  # phases that query one point of an image repeatedly


class AnsweredClasses:
    """Counts of the adversarial classes at the last queried point of each image."""

    def __init__(self) -> None:
        self._place: dict[int, Tensor] = {}  # row -> (d,)
        self._votes: dict[int, Counter[int]] = {}

    def note(self, points: Tensor, rows: Tensor, labels: Tensor, adversarial: Tensor) -> None:
        """Count the answers of one call: `(M, d)`, `(M,)`, `(M,)`, bool `(M,)`; a new point resets the counts."""
        said, counts = labels.cpu().tolist(), adversarial.cpu().tolist()
        for place, row in enumerate(rows.tolist()):
            if place == 0 or row != int(rows[place - 1]):
                there = points[place]
                if row not in self._place or not torch.equal(self._place[row], there):
                    self._place[row], self._votes[row] = there.clone(), Counter()
            if counts[place]:
                self._votes[row][said[place]] += 1

    def at(self, points: Tensor) -> Tensor:
        """The most frequent adversarial class at points `(B, d)`: int64 `(B,)`, -1 where none was answered there."""
        found = torch.full((len(points),), -1, dtype=torch.int64)
        for row, votes in self._votes.items():
            if votes and torch.equal(self._place[row].cpu(), points[row].cpu()):
                found[row] = votes.most_common(1)[0][0]
        return found
