"""Noise models from their spelling, "flip:0.1", and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise.cropping import Cropping
from popskipjump.noise.dropout import Dropout
from popskipjump.noise.flip import Flip
from popskipjump.noise.logit_sampling import LogitSampling
from popskipjump.noise.smoothing import Smoothing
from popskipjump.oracles.classifier import NoiseModel

NONE = "none"


class _Spelling(NamedTuple):
    make: Callable[[float], NoiseModel]
    example: str


def _cropping(size: float) -> NoiseModel:
    return Cropping(int(size) if size % 1 == 0 else size)  # type: ignore[arg-type]  # the model's own error is better


_FLIP = _Spelling(Flip, "flip:0.1")
_LOGIT = _Spelling(LogitSampling, "logit:1")
_CROPPING = _Spelling(_cropping, "cropping:24")
_SPELLINGS = {
    "flip": _FLIP,
    "logit": _LOGIT,
    "logit-sampling": _LOGIT,
    "dropout": _Spelling(Dropout, "dropout:0.5"),
    "smoothing": _Spelling(Smoothing, "smoothing:0.1"),
    "cropping": _CROPPING,
    "crop": _CROPPING,
}


def noise_of(spec: str | NoiseModel | None) -> NoiseModel | None:
    """A noise model from its spelling; a model as it is; None (or "none") for no noise.

    Spellings: "flip:0.1", "logit:1" (or "logit-sampling:1"), "dropout:0.5", "smoothing:0.1", "cropping:24" (or
    "crop:24"). An `Ensemble` has members that no text can hold: make it in code.
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
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f'noise {spec!r} needs a number after the colon, as in "{spelling.example}".') from error
    return spelling.make(value)


def describe(noise: str | NoiseModel | None) -> str:
    """How a noise model is spelled, "flip:0.1"; `noise_of` reads it back, but for an ensemble and `Flip`'s classes."""
    model = noise_of(noise)
    return NONE if model is None else str(model)
