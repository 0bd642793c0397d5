"""Dropout that stays on when the classifier is asked (Feinman et al., 2017; Cardelli et al., 2019)."""

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
from popskipjump.noise.truth import DRAWS, KEY, Truth, monte_carlo, noiseless
from popskipjump.rng import Key, bits, uniform

_BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_SELF_NORMALISING = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_LAYERS = (nn.Dropout, *_BY_CHANNEL, nn.AlphaDropout)
_SATURATION = -1.7580993408473766  # what a dropped SELU becomes: the limit of SELU at minus infinity


@dataclass(frozen=True)
class Dropout:
    """All dropout layers of a torch module drop with one rate (alpha) at query time.

    The layers `nn.Dropout`, `Dropout1d`, `2d`, `3d`, `AlphaDropout` and `FeatureAlphaDropout` are found inside the
    module; for the length of a call they take their masks from the answer's own stream, and are then as they were.
    Dropout written as a function (`torch.nn.functional.dropout` in `forward`, the `dropout=` of recurrent and
    attention layers) cannot be seen from outside and stays off: such a module needs dropout layers instead.

    The first dimension of what reaches a layer must be the batch, or the batch times something (several windows of
    each image, one image after another).

    Args:
        rate: alpha in [0, 1], the probability of being dropped; 0 is the noiseless classifier.
    """

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", number("dropout rate", self.rate, 0, 1))

    def __str__(self) -> str:
        return f"dropout:{written(self.rate)}"

    def check(self, model: Any, shape: tuple[int, ...]) -> None:
        """See `TrueNoise`."""
        _layers_of(model)

    def sample(self, model: Any, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        layers = _layers_of(model)
        if any(layer.inplace for layer in layers):
            points = points.clone()  # an in-place layer may come first, and the points are not ours
        with _dropping(layers, self.rate, roots):
            labels: Tensor = getattr(model, "plain", model).labels(points)  # a frozen copy has no layers
        return labels.to(points.device)

    def truth(self, model: Any, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> Truth:
        """See `TrueNoise`; estimated."""
        _layers_of(model)
        if self.rate == 0:
            return noiseless(model, points)
        return monte_carlo(self, model, points, draws, key)


def _layers_of(model: Any) -> list[Any]:
    """The dropout layers of a model's module, each once, in their fixed order."""
    module = getattr(model, "module", None)
    if not isinstance(module, nn.Module):
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
    """Let the layers drop, with masks from the streams `roots` (M,); they are as before on the way out.

    The layers' `forward` is replaced, not hooked, so that hooks of the user's own see what was dropped, and a layer
    in training mode does not draw from the global generator as well.
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
    """What a layer makes of `inputs` (M * n, ...), with one stream for each of M rows; `inputs` stays as it is."""
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
