"""Gaussian noise on the output of a hidden layer (He, Rakin and Fan, CVPR 2019; Nguyen et al., ICLR 2024)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise.checks import number, spelled
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, monte_carlo, noiseless
from popskipjump.oracles.traits import module_of, unfrozen
from popskipjump.rng import Key, bits, normal


@dataclass(frozen=True)
class FeatureNoise:
    """Every output of one named layer gets an independent N(0, sigma^2) at query time.

    The layer's output must be a tensor whose first dimension is the batch, or the batch times something.

    Args:
        sigma: standard deviation, at least 0, in the units of the layer's output.
        layer: its name in `module.named_modules()`, such as "fc1" or "features.3".
    """

    sigma: float
    layer: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", number("sigma", self.sigma, 0))
        if not isinstance(self.layer, str) or not self.layer or "," in self.layer:
            raise InputError(f'layer must be the name of a layer, such as "fc1", not {self.layer!r}.')

    def __str__(self) -> str:
        return spelled("feature-noise", self.sigma, self.layer)

    def check(self, model: Any, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        self._layer_of(model)

    def sample(self, model: Any, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        with _noisy(self._layer_of(model), self.layer, self.sigma, roots):
            labels: Tensor = unfrozen(model).labels(points)  # a frozen copy has no layers
        return labels.to(points.device)

    def truth(self, model: Any, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; estimated."""
        self._layer_of(model)
        if self.sigma == 0:
            return noiseless(model, points)
        return monte_carlo(self, model, points, draws, key)

    def _layer_of(self, model: Any) -> nn.Module:
        module = module_of(model)
        if module is None:
            raise InputError(f"feature noise needs a torch module with layers, not a {type(model).__name__}.")
        layers: dict[str, nn.Module] = {name: layer for name, layer in module.named_modules() if name}
        if self.layer not in layers:
            raise UnknownNameError(f"layer of {type(module).__name__}", self.layer, layers or ("(it has none)",))
        return layers[self.layer]


@contextmanager
def _noisy(layer: Any, name: str, sigma: float, roots: Tensor) -> Iterator[None]:
    """Let a layer add noise from the streams `roots` (M,) to its output; it is as before on the way out.

    The layer's `forward` is replaced, not hooked, so that hooks of the user's own see the noisy features.
    """
    before, plain = vars(layer).get("forward"), layer.forward
    uses = 0  # a layer may be called more than once in one pass

    def forward(*inputs: Any, **options: Any) -> Any:
        nonlocal uses
        features = plain(*inputs, **options)
        if not isinstance(features, Tensor) or not features.ndim or not features.is_floating_point():
            raise InputError(f"the layer {name!r} does not return a tensor of features: choose another layer.")
        if sigma == 0 or len(roots) == 0:
            return features
        if features.shape[0] % len(roots):
            raise InputError(
                f"the layer {name!r} returned a tensor of shape {tuple(features.shape)} for {len(roots)} images: its "
                "first dimension must be the batch."
            )
        streams = bits(roots, 1, start=uses).squeeze(-1)  # (M,)
        uses += 1
        noise = normal(streams, math.prod(features.shape) // len(roots)).reshape(features.shape)
        return features.add(noise.to(features.dtype), alpha=sigma)

    try:
        vars(layer)["forward"] = forward
        yield
    finally:
        if before is None:
            vars(layer).pop("forward", None)
        else:
            vars(layer)["forward"] = before
