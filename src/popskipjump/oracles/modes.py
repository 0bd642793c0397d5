"""Evaluation mode of a torch module: in training mode, dropout and batch normalisation behave differently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from popskipjump.oracles.traits import module_of


@contextmanager
def evaluation_mode(model: object) -> Iterator[None]:
    """Context in which a torch module, or a model's module, is in evaluation mode; each layer's mode is restored."""
    module = module_of(model)
    if module is None:
        yield
        return
    modes = [(layer, layer.training) for layer in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training
