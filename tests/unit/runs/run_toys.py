"""A small classifier with noise, an oracle around it that logs what it is asked, and a source of both."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from present import present
from torch import Tensor

from popskipjump import Classifier, Ticket
from popskipjump.noise import Flip
from popskipjump.rng import Key, normal, uniform
from popskipjump.runs.collect import Place, RunData, Source
from popskipjump.storage import RunSpec

SHAPE = (1, 4, 5)
IMAGES = 9


class Linear:
    """Three classes by the largest of three linear logits, each computed on its row alone."""

    classes = 3
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.weights = normal(Key(0).child("linear").roots(torch.arange(3)), 20) / 20**0.5
        self.offset = -self.weights.sum(dim=1) / 2

    def logits(self, points: Tensor) -> Tensor:
        flat = points.flatten(1)
        return torch.stack([(flat * w).sum(dim=1) + b for w, b in zip(self.weights, self.offset, strict=True)], dim=1)

    def labels(self, points: Tensor) -> Tensor:
        return self.logits(points).argmax(dim=1)

    def log_probs(self, points: Tensor) -> Tensor:
        return self.logits(points).log_softmax(dim=1)

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        raise NotImplementedError


class Logging:
    """An oracle that writes a line for each call before it answers: the process, and (image, number) of all queries."""

    def __init__(self, log: Path | None = None, flip: float = 0.05, seconds: float = 0.0) -> None:
        self.model = Linear()
        self._oracle = Classifier(self.model, Flip(flip), seed=4)
        self._file = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._seconds = seconds
        self.count = 0

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.count += len(points)
        if self._file is not None:
            numbers = list(zip(ticket.image.tolist(), present(ticket.serial).tolist(), strict=True))
            os.write(self._file, (json.dumps([os.getpid(), numbers]) + "\n").encode())
        time.sleep(self._seconds)
        return self._oracle.ask(points, ticket)


def source_with(model: object) -> Source:
    """Nine random images that the linear classifier gets right."""
    values = uniform(Key(5).child("images").roots(torch.arange(IMAGES)), 20).reshape(-1, *SHAPE)
    labels = Linear().labels(values).numpy()
    place = Place("file", None, None, None)
    return Source("file", "toy", "toy.py:make", "toy", values.numpy(), labels, model, 3, place)


def spec_of(source: Source, **choices: Any) -> RunSpec:
    return source.spec(**({"iterations": 2, "verdict": 5, "attack": "psj"} | choices))


def everything(data: RunData) -> dict[str, bytes]:
    """All that is known of the images, but for the time it took, as bytes."""
    values = {name: value for name, value in vars(data).items() if isinstance(value, np.ndarray)}
    values |= {f"phase {name}": value for name, value in data.queries_by_phase.items()}
    values |= {f"sigmoid {name}": value for name, value in data.trace_sigmoid.items()}
    del values["seconds"]
    found = {name: np.ascontiguousarray(value).tobytes() for name, value in values.items()}
    return found | {"status": repr(data.status).encode(), "messages": repr(data.messages).encode()}
