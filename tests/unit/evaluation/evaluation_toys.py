"""A plane across the unit square, images on its lower side, and oracles that misbehave; imported by the tests here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from popskipjump import Plane
from popskipjump.oracles import Ticket
from popskipjump.rng import Key, uniform

D = 6
PLANE = Plane(torch.ones(D), 3.0)  # class 1 where the mean exceeds 1/2


def images_of(count: int = 3) -> torch.Tensor:
    """Images of class 0, 0.1 to 0.4 bright: `(B, 1, 2, 3)`."""
    return (0.1 + 0.3 * uniform(Key(2).roots(torch.arange(count)), D)).reshape(count, 1, 2, 3)


def zeros(count: int = 3) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int64)


class Asked:
    """A function that counts how many labels it was asked for."""

    def __init__(self, classify: Callable[[np.ndarray], object] | None = None) -> None:
        self.count = 0
        self.classify = classify or (lambda batch: (batch.reshape(len(batch), -1).sum(axis=1) > 3).astype(np.int64))

    def __call__(self, batch: np.ndarray) -> object:
        self.count += len(batch)
        return self.classify(batch)


class Troubled:
    """The plane as an oracle, with something happening before every call; and a count for each image."""

    def __init__(self, trouble: Callable[[Troubled, torch.Tensor], None]) -> None:
        self.trouble, self.model = trouble, PLANE
        self.count: Counter[int] = Counter()
        self.calls = 0

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.calls += 1
        self.count.update(ticket.image.tolist())
        self.trouble(self, ticket.image)
        return PLANE.labels(points)
