"""Conversion between noise models and their text form, such as "flip:0.1"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise.cropping import Cropping
from popskipjump.noise.defences import BitDepth, BoundaryDefence, FeatureNoise, Jpeg, RandomNoise, ResizePad
from popskipjump.noise.dropout import Dropout
from popskipjump.noise.flip import Flip
from popskipjump.noise.logit_sampling import LogitSampling
from popskipjump.noise.smoothing import Smoothing
from popskipjump.oracles.classifier import NoiseModel

NONE = "none"
Value = float | str


def _whole(text: str) -> Value:
    """Read an integer; other numbers stay floats, because the noise model's own error message is clearer."""
    value = float(text)
    return int(value) if math.isfinite(value) and value % 1 == 0 else value


class _Spelling(NamedTuple):
    """Text format of a noise model: comma-separated values, of which the last `optional` ones may be omitted."""

    make: Callable[..., NoiseModel]
    example: str
    kinds: tuple[Callable[[str], Value], ...] = (float,)
    optional: int = 0

    def values(self, spec: str, text: str) -> list[Value]:
        """Parse the values of `text`, or raise an error that shows the expected format."""
        parts = [part.strip() for part in text.split(",")]
        most = len(self.kinds)
        if not most - self.optional <= len(parts) <= most or not all(parts):
            raise self._wrong(spec)
        try:
            return [kind(part) for kind, part in zip(self.kinds, parts, strict=False)]
        except ValueError as error:
            raise self._wrong(spec) from error

    def _wrong(self, spec: str) -> InputError:
        most = len(self.kinds)
        count = f"{most - self.optional} to {most}" if self.optional else str(most)
        needed = "a number" if most == 1 else f"{count} values with commas between them"
        return InputError(f'noise {spec!r} needs {needed} after the colon, as in "{self.example}".')


_FLIP = _Spelling(Flip, "flip:0.1")
_LOGIT = _Spelling(LogitSampling, "logit:1")
_CROPPING = _Spelling(Cropping, "cropping:24", (_whole,))
_SPELLINGS = {
    "flip": _FLIP,
    "logit": _LOGIT,
    "logit-sampling": _LOGIT,
    "dropout": _Spelling(Dropout, "dropout:0.5"),
    "smoothing": _Spelling(Smoothing, "smoothing:0.1"),
    "cropping": _CROPPING,
    "crop": _CROPPING,
    "rnd": _Spelling(RandomNoise, "rnd:0.1", (float, float, float), optional=2),
    "boundary-defence": _Spelling(BoundaryDefence, "boundary-defence:0.9,2", (float, float)),
    "feature-noise": _Spelling(FeatureNoise, "feature-noise:0.5,fc1", (float, str)),
    "resize-pad": _Spelling(ResizePad, "resize-pad:0.8,1", (float, float, float), optional=1),
    "bit-depth": _Spelling(BitDepth, "bit-depth:1,4", (_whole, _whole, float, float), optional=2),
    "jpeg": _Spelling(Jpeg, "jpeg:5,50", (_whole, _whole, float, float), optional=2),
}


def noise_of(spec: str | NoiseModel | None) -> NoiseModel | None:
    """Noise model from its text form; a noise model is returned unchanged; None and "none" mean no noise.

    Text forms: "flip:0.1", "logit:1" (or "logit-sampling:1"), "dropout:0.5", "smoothing:0.1", "cropping:24" (or
    "crop:24"), and defences with several values, such as "resize-pad:0.8,1". `psj noises` lists all of them. An
    `Ensemble` has no text form, because its members are models: construct it in code.
    """
    if spec is None:
        return None
    if not isinstance(spec, str):
        if not hasattr(spec, "sample"):
            raise InputError(f'noise must be a spelling such as "flip:0.1", a noise model or None, not {spec!r}.')
        return spec
    name, _, text = spec.partition(":")
    name = name.strip().lower().replace("_", "-")
    if name == NONE and not text:
        return None
    if name not in _SPELLINGS:
        raise UnknownNameError("noise model", spec, {NONE, *(s.example for s in _SPELLINGS.values())})
    spelling = _SPELLINGS[name]
    return spelling.make(*spelling.values(spec, text))


def describe(noise: str | NoiseModel | None) -> str:
    """Text form of a noise model, "flip:0.1"; `noise_of` inverts it, except for ensembles and the classes of `Flip`."""
    model = noise_of(noise)
    return NONE if model is None else str(model)
