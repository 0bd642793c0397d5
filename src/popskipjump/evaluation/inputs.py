"""From what a user passes to what an attack works on; whatever can be wrong is found here, before the first query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump.attacks import ATTACKS, Attack, Pool
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise import noise_of
from popskipjump.oracles import Classifier, FunctionModel, NoiseModel, Oracle, TorchModel, WhiteBox
from popskipjump.oracles.base import is_whole
from popskipjump.types import Bounds

Array = np.ndarray | Tensor


class AttackConfig(Protocol):
    """A frozen description of an attack, such as `PopSkipJump(...)`."""

    @property
    def iterations(self) -> int:
        """How many."""

    def build(self, dimension: int) -> Attack:
        """The attack for inputs of d values."""


def images_of(images: Array, bounds: Bounds, what: str = "images") -> Tensor:
    """Check images and return them as float32 `(B, *S)` on the CPU."""
    try:
        batch = torch.as_tensor(np.asarray(images) if not isinstance(images, Tensor) else images.detach())
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be one array of numbers, shape (images, ...): {error}.") from error
    if batch.ndim < 2 or not batch.numel():
        raise InputError(
            f"{what} must have the shape (images, ...) with at least one image, not {tuple(batch.shape)}; "
            "a single image needs a leading 1."
        )
    if batch.is_complex() or batch.dtype == torch.bool:
        raise InputError(f"{what} must be real numbers, not {batch.dtype}.")
    batch = batch.to("cpu", torch.float32)
    flat = batch.flatten(1)
    for bad, why in (
        (~torch.isfinite(flat), "hold values that are not finite"),
        ((flat < bounds.low) | (flat > bounds.high), f"leave the bounds ({bounds.low:g}, {bounds.high:g})"),
    ):
        rows = bad.any(dim=1).nonzero().flatten().tolist()
        if rows:
            raise InputError(
                f"{len(rows)} of {len(flat)} {what} {why} (rows {_some(rows)}): scale them, or pass other `bounds`."
            )
    return batch


def labels_of(labels: Array | Sequence[int], count: int, what: str = "labels") -> Tensor:
    """Check labels and return them as int64 `(B,)`."""
    try:
        values = torch.as_tensor(np.asarray(labels) if not isinstance(labels, Tensor) else labels.detach().cpu())
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be one array of integers: {error}.") from error
    if values.shape != (count,):
        raise InputError(f"{what} must be one integer for each of the {count} images, not shape {tuple(values.shape)}.")
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InputError(f"{what} must be integers, not {values.dtype}.")
    values = values.to(torch.int64)
    if int(values.min()) < 0:
        raise InputError(f"{what} must be 0 or more; row {int(values.argmin())} has {int(values.min())}.")
    return values


def _some(rows: list[int]) -> str:
    """The first few rows, for a message."""
    shown = ", ".join(map(str, rows[:8]))
    return shown if len(rows) <= 8 else f"{shown}, ..."


def oracle_of(
    model: Any, noise: str | NoiseModel | None, seed: int, shape: tuple[int, ...]
) -> tuple[Oracle, WhiteBox | None]:
    """The oracle of a model for inputs `(M, *shape)`, and its white box where there is one."""
    noise = noise_of(noise)
    if isinstance(model, nn.Module):
        model = TorchModel(model)
    elif not hasattr(model, "ask") and not hasattr(model, "labels"):
        if not callable(model):
            raise InputError(
                f"the model is {type(model).__name__}: pass a torch module, a function from a NumPy batch to integer "
                "labels, or an object with `ask(points, ticket)`."
            )
        model = FunctionModel(model)
    if hasattr(model, "ask"):
        if noise is not None:
            raise InputError("an oracle has its own noise: pass the model below it, or noise=None.")
        inner = getattr(model, "model", None)
        return model, inner if _is_white(inner) else None
    if noise is not None and hasattr(noise, "check"):
        noise.check(model, shape)
    return Classifier(model, noise, seed), model if _is_white(model) else None


def _is_white(model: Any) -> bool:
    return isinstance(model, WhiteBox) and getattr(model, "output", "logits") == "logits"


def attack_of(attack: str | AttackConfig, iterations: int | None) -> AttackConfig:
    """An attack's configuration from its name or itself."""
    if isinstance(attack, str):
        if attack not in ATTACKS:
            raise UnknownNameError("attack", attack, ATTACKS)
        config: Any = ATTACKS[attack]()
    else:
        config = attack
    if not hasattr(config, "build"):
        raise InputError(f"attack must be a name or a configuration such as PopSkipJump(), not {attack!r}.")
    if iterations is not None:
        if not is_whole(iterations) or iterations < 0:
            raise InputError(f"iterations must be a whole number of at least 0, not {iterations!r}.")
        config = replace(config, iterations=int(iterations))
    checked: AttackConfig = config
    return checked


def within_budget(config: AttackConfig, iterations: int | None, budget: int | None) -> tuple[AttackConfig, bool]:
    """Let an attack whose measure is a budget go on until that is spent: its configuration, and whether it does."""
    allowed = getattr(config, "iterations_within", None)
    if iterations is not None or budget is None or allowed is None:
        return config, False
    return attack_of(config, allowed(int(budget))), True


def starts_of(starts: Array | Pool | None, images: Tensor, bounds: Bounds) -> Tensor | Pool | None:
    """Check starting points: one for each image, or a pool to draw from."""
    if starts is None:
        return None
    if isinstance(starts, Pool):
        pool = images_of(starts.images, bounds, "pool images")
        if pool.shape[1:] != images.shape[1:]:
            raise InputError(f"pool images have the shape {tuple(pool.shape[1:])}, images {tuple(images.shape[1:])}.")
        return Pool(pool, labels_of(starts.labels, len(pool), "pool labels"))
    points = images_of(starts, bounds, "starts")
    if points.shape != images.shape:
        raise InputError(f"starts must have the shape of the images, {tuple(images.shape)}, not {tuple(points.shape)}.")
    return points
