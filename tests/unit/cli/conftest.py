"""A model file of a user's own, and the command as a user calls it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from popskipjump.cli import app

Psj = Callable[..., Result]

MODELS = """
import numpy as np
import torch
from popskipjump import Plane


def _labels(batch):
    return (batch.reshape(len(batch), -1).sum(axis=1) > 2.0).astype(np.int64)


def function():
    return _labels


def module():
    linear = torch.nn.Linear(4, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[0.0] * 4, [1.0] * 4]))
        linear.bias.copy_(torch.tensor([2.0, 0.0]))
    return torch.nn.Sequential(torch.nn.Flatten(), linear)


class _Oracle:
    def ask(self, points, ticket):
        return Plane(torch.ones(4), 2.0).labels(points)


def oracle():
    return _Oracle()


def stopped():
    calls = []

    def labels(batch):
        calls.append(len(batch))
        if sum(calls) > 300:
            raise KeyboardInterrupt
        return _labels(batch)

    return labels


def stopped_at_once():
    def labels(batch):
        raise KeyboardInterrupt

    return labels


def broken():
    raise RuntimeError("no such service")


def needy(address):
    return address


def forgotten():
    module()


made = module()
number = 3
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """A model file may bring its folder along."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("psj_model_"):
            del sys.modules[name]


@pytest.fixture
def psj() -> Psj:
    """Call the command with some words."""

    def call(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200", "TERM": "dumb"})

    return call


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A file with factories; all tell apart points whose values sum to more or less than 2."""
    path = tmp_path / "models.py"
    path.write_text(MODELS, encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four images (1, 2, 2), two of each class, and targets."""
    images = np.array([[0.1] * 4, [0.9] * 4, [0.2] * 4, [0.7] * 4], dtype=np.float32).reshape(4, 1, 2, 2)
    path = tmp_path / "data.npz"
    np.savez(path, images=images, labels=np.array([0, 1, 0, 1]), targets=np.array([1, 0, 1, 0]))
    return path
