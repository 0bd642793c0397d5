"""Dropout at inference time, as in Monte Carlo dropout (Feinman et al., 2017; Cardelli et al., 2019)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from popskipjump.errors import InputError
from popskipjump.noise.checks import number, written
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, monte_carlo, noiseless
from popskipjump.oracles.traits import SizesCalls, module_of, unfrozen
from popskipjump.rng import Key, bits, uniform

_BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_SELF_NORMALISING = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_LAYERS = (nn.Dropout, *_BY_CHANNEL, nn.AlphaDropout)
_SATURATION = -1.7580993408473766  # value of a dropped SELU activation: the limit of SELU at minus infinity


@dataclass(frozen=True)
class Dropout:
    """Keeps all dropout layers of a torch module active at query time, with one common rate alpha.

    The noise model finds the layers `nn.Dropout`, `Dropout1d`, `2d`, `3d`, `AlphaDropout` and `FeatureAlphaDropout` of
    the module. During a query, their masks come from the random stream of that query; afterwards, the layers are
    restored. Functional dropout (`torch.nn.functional.dropout` in `forward`, the `dropout=` of recurrent and attention
    layers) cannot be found and stays off: replace it by dropout layers.

    The first dimension of a layer's input must be the batch, or a multiple of it in which all entries of an image are
    adjacent (several windows of each image, for example).

    Args:
        rate: alpha in [0, 1], the probability that a unit is dropped; 0 is the noiseless classifier.
    """

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", number("dropout rate", self.rate, 0, 1))

    def __str__(self) -> str:
        return f"dropout:{written(self.rate)}"

    def check(self, model: Any, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        _layers_of(model)

    def sample(self, model: Any, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        layers = _layers_of(model)
        if any(layer.inplace for layer in layers):
            points = points.clone()  # an in-place first layer would overwrite the caller's points
        plain = unfrozen(model)  # a frozen copy has no dropout layers
        parts: list[Tensor] = []
        start = 0
        while start < len(points) or not parts:
            rows = plain.rows_of_a_call(points) if isinstance(plain, SizesCalls) else len(points)
            part = slice(start, start + max(1, rows))
            with _dropping(layers, self.rate, roots[part]):  # the masks are those of the rows of one call
                parts.append(plain.labels(points[part]))
            start = part.stop
        return torch.cat(parts).to(points.device)

    def truth(self, model: Any, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; estimated."""
        _layers_of(model)
        if self.rate == 0:
            return noiseless(model, points)
        return monte_carlo(self, model, points, draws, key)


def _layers_of(model: Any) -> list[Any]:
    """The dropout layers of a model's module, without repetition, in the order of `modules()`."""
    module = module_of(model)
    if module is None:
        raise InputError(f"dropout noise needs a torch module with dropout layers, not a {type(model).__name__}.")
    layers = [layer for layer in module.modules() if isinstance(layer, _LAYERS)]
    if not layers:
        raise InputError(
            f"{type(module).__name__} has no dropout layer (nn.Dropout, Dropout1d, 2d, 3d, AlphaDropout, "
            "FeatureAlphaDropout), so dropout noise would do nothing. Dropout called as a function inside `forward` "
            "cannot be seen: make it a layer, or choose another noise model."
        )
    return layers


@contextmanager
def _dropping(layers: list[Any], rate: float, roots: Tensor) -> Iterator[None]:
    """Context in which the layers drop units, with masks from the streams `roots` `(M,)`.

    The context replaces `forward` instead of adding a hook: the user's own hooks then see the dropped output, and a
    layer in training mode does not also draw from the global generator. On exit each `forward` is restored.
    """
    before = [vars(layer).get("forward") for layer in layers]
    uses: Counter[int] = Counter()  # a layer may be called more than once in one pass

    def forward(index: int, input: Tensor) -> Tensor:  # the layers' own argument name
        streams = bits(bits(roots, 1, start=index).squeeze(-1), 1, start=uses[index]).squeeze(-1)  # (M,)
        uses[index] += 1
        dropped = _drop(layers[index], rate, input, streams)
        return input.copy_(dropped) if layers[index].inplace else dropped

    try:
        for index, layer in enumerate(layers):
            vars(layer)["forward"] = partial(forward, index)
        yield
    finally:
        for layer, former in zip(layers, before, strict=True):
            if former is None:
                vars(layer).pop("forward", None)
            else:
                vars(layer)["forward"] = former


def _drop(layer: nn.Module, rate: float, inputs: Tensor, streams: Tensor) -> Tensor:
    """Output of a dropout layer for `inputs` `(M * n, ...)`, with one stream per image; `inputs` is not modified."""
    if rate == 0 or len(streams) == 0:
        return inputs
    if inputs.shape[0] % len(streams):
        raise InputError(
            f"a {type(layer).__name__} layer was given a tensor of shape {tuple(inputs.shape)} for {len(streams)} "
            "images: its first dimension must be the batch."
        )
    if rate == 1:
        return torch.zeros_like(inputs)
    decided = inputs.shape[:2] if isinstance(layer, _BY_CHANNEL) else inputs.shape
    numbers = uniform(streams, math.prod(decided) // len(streams))
    kept = (numbers >= rate).reshape(*decided, *(1 for _ in inputs.shape[len(decided) :]))
    if not isinstance(layer, _SELF_NORMALISING):
        return inputs * (kept.to(inputs.dtype) / (1 - rate))
    # Klambauer et al. (2017): an affine map restores mean 0 and variance 1
    scale = 1 / math.sqrt((1 - rate) * (1 + rate * _SATURATION**2))
    return torch.where(kept, inputs, _SATURATION) * scale - scale * rate * _SATURATION
