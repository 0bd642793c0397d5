"""Weights and streams for small models; imported by the tests beside it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from popskipjump.rng import Key, normal

CLASSES = 4
IMAGE = (2, 6, 6)


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module with weights from an addressable stream, so that no global generator is involved."""
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            values = normal(Key(seed).child(index).root(), parameter.numel()).reshape(parameter.shape)
            parameter.copy_(values / max(1, parameter[0].numel()) ** 0.5)
    return module


def roots(count: int, seed: int = 0) -> Tensor:
    """One stream for each of `count` answers."""
    return Key(seed).child("test").roots(torch.arange(count))
