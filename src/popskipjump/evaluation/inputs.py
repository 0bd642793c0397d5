"""Validation and conversion of the user's inputs into a `Problem`, before the first query."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from popskipjump.adapters import recognise
from popskipjump.attacks import ATTACKS, Attack, CheckedPool, Pool, Retry, Settle
from popskipjump.attacks.base import MOST_ITERATIONS
from popskipjump.attacks.protocols import PlansIterations
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise import noise_of
from popskipjump.oracles import Classifier, NoiseModel, Oracle, WhiteBox
from popskipjump.oracles.base import is_whole
from popskipjump.oracles.ledger import MOST_QUERIES
from popskipjump.oracles.traits import model_of, outputs_logits
from popskipjump.types import Bounds

Array = np.ndarray | Tensor

DEFAULT_ATTACK = "qsj"
DEFAULT_BUDGET = 1000  # queries per image, for attacks that are measured by a budget: seconds on a small network


class AttackConfig(Protocol):
    """A frozen description of an attack, such as `PopSkipJump(...)`."""

    @property
    def iterations(self) -> int:
        """Number of iterations."""

    def build(self, dimension: int) -> Attack:
        """The attack for inputs of d values."""


def _scaling(values: Tensor, bounds: Bounds) -> str:
    """The way out for values that leave the bounds."""
    is_unit, low, high = (bounds.low, bounds.high) == (0, 1), float(values.min()), float(values.max())
    if is_unit and low >= 0 and 2 < high <= 255 and float((values > 1).float().mean()) > 0.1:
        return "they look like 8-bit pixels: pass `images / 255`, or `bounds=(0, 255)` if the model takes them so"
    return "scale them, or pass other `bounds`"


def check_order(images: Any, labels: Any) -> None:
    """Raise an error where images and labels were given in each other's place."""
    if getattr(images, "ndim", 2) == 1 and getattr(labels, "ndim", 1) > 1:
        shapes = f"images have the shape {tuple(images.shape)}, labels {tuple(labels.shape)}"
        raise InputError(f"images and labels look exchanged: {shapes}; the order is evaluate(model, images, labels).")


def images_of(images: Array, bounds: Bounds, what: str = "images") -> Tensor:
    """Check images and return them as float32 `(B, *S)` on the CPU."""
    try:
        batch = torch.as_tensor(np.array(images) if not isinstance(images, Tensor) else images.detach())
    except (TypeError, ValueError) as error:
        advice = "pass a Pool of images as `starts=`" if isinstance(images, Pool) else "stack inputs of one size"
        kind = type(images).__name__
        raise InputError(f"{what} must be one array of numbers, shape (images, ...), not {kind}: {advice}.") from error
    if batch.ndim < 2 or not batch.numel():
        raise InputError(
            f"{what} must have the shape (images, ...) with at least one image, not {tuple(batch.shape)}; "
            "a single image needs a leading 1."
        )
    if batch.is_complex() or batch.dtype == torch.bool:
        raise InputError(f"{what} must be real numbers, not {batch.dtype}.")
    batch = batch.to("cpu", torch.float32)
    flat = batch.flatten(1)
    for bad, why, way_out in (
        (
            ~torch.isfinite(flat),
            "hold values that are not finite",
            "leave these out, or replace NaN and infinity, as with numpy.nan_to_num",
        ),
        (
            (flat < bounds.low) | (flat > bounds.high),
            f"leave the bounds ({bounds.low:g}, {bounds.high:g})",
            _scaling(flat, bounds),
        ),
    ):
        rows = bad.any(dim=1).nonzero().flatten().tolist()
        if rows:
            raise InputError(f"{len(rows)} of {len(flat)} {what} {why} (rows {_some(rows)}): {way_out}.")
    return batch


def labels_of(labels: Array | Sequence[int], count: int, what: str = "labels") -> Tensor:
    """Check labels and return them as int64 `(B,)`."""
    try:
        values = torch.as_tensor(np.array(labels) if not isinstance(labels, Tensor) else labels.detach().cpu())
    except (TypeError, ValueError) as error:
        if np.asarray(labels).dtype.kind in "USO":
            raise InputError(
                f"{what} must be one array of integers, not of names: number the classes in the classifier's order, as "
                "`numpy.unique(names, return_inverse=True)[1]` or scikit-learn's LabelEncoder do."
            ) from error
        raise InputError(f"{what} must be one array of integers: {error}.") from error
    if values.shape != (count,):
        raise InputError(
            f"{what} must be one integer for each of the {count} images, not shape {tuple(values.shape)}"
            f"{_way_out(tuple(values.shape), count)}."
        )
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InputError(f"{what} must be integers, not {values.dtype}.")
    values = values.to(torch.int64)
    if int(values.min()) < 0:
        raise InputError(f"{what} must be 0 or more; row {int(values.argmin())} has {int(values.min())}.")
    return values


def _way_out(shape: tuple[int, ...], count: int) -> str:
    """Advice for labels of a wrong shape: what they most likely are, and what to do."""
    if len(shape) == 2 and shape[0] == count and shape[1] > 1:
        return ": they look one-hot, so pass `labels.argmax(1)`"
    if len(shape) == 2 and shape == (count, 1):
        return ": pass `labels[:, 0]`"
    if shape in ((), (1,)):
        return ": the first axis counts images, so pass a single image as `images[None]` and its label as `[label]`"
    return ""


def _some(rows: list[int]) -> str:
    """The first few rows, for a message."""
    shown = ", ".join(map(str, rows[:8]))
    return shown if len(rows) <= 8 else f"{shown}, ..."


def oracle_of(
    model: Any, noise: str | NoiseModel | None, seed: int, shape: tuple[int, ...]
) -> tuple[Oracle, WhiteBox | None]:
    """The oracle of a model for inputs `(M, *shape)`, and its white box where there is one."""
    if isinstance(noise, type):
        raise InputError(f"noise is the class {noise.__name__}: pass an object of it, such as {noise.__name__}(0.1).")
    noise = noise_of(noise)
    model = recognise(model, shape)
    if isinstance(model, Oracle):
        if noise is not None:
            raise InputError("an oracle has its own noise: pass the model below it, or noise=None.")
        inner = model_of(model)
        return model, inner if _is_white(inner) else None
    if noise is not None and hasattr(noise, "check"):
        noise.check(model, shape)
    return Classifier(model, noise, seed), model if _is_white(model) else None


def _is_white(model: Any) -> bool:
    return isinstance(model, WhiteBox) and outputs_logits(model)


def attack_of(attack: str | AttackConfig, iterations: int | None) -> AttackConfig:
    """The configuration of an attack, from its name or from a configuration."""
    if isinstance(attack, str):
        if attack not in ATTACKS:
            raise UnknownNameError("attack", attack, ATTACKS)
        config: Any = ATTACKS[attack]()
    else:
        config = attack
    if isinstance(config, type):
        raise InputError(f"attack is the class {config.__name__}: pass an object of it, {config.__name__}().")
    if not hasattr(config, "build"):
        raise InputError(f"attack must be a name or a configuration such as PopSkipJump(), not {attack!r}.")
    if iterations is not None:
        if not is_whole(iterations) or iterations < 0:
            raise InputError(f"iterations must be a whole number of at least 0, not {iterations!r}.")
        config = replace(config, iterations=int(iterations))
    if config.iterations > MOST_ITERATIONS:
        raise InputError(f"iterations must be at most {MOST_ITERATIONS:,}, not {config.iterations:,}; see `budget`.")
    checked: AttackConfig = config
    return checked


def check_objects(settle: object, retry: object) -> None:
    """Raise an error where `settle` or `retry` is no object of its class."""
    for name, value, kind in (("settle", settle, Settle), ("retry", retry, Retry)):
        if value is not None and not isinstance(value, kind):
            raise InputError(
                f"{name} must be an object such as `{kind.__name__}()`, not {value!r}; None is the default."
            )


def check_numbers(verdict: object, stop_distance: object) -> None:
    """Raise an error for invalid values of `verdict` or `stop_distance`."""
    if not is_whole(verdict) or not 0 <= float(cast(Any, verdict)) <= MOST_QUERIES:
        raise InputError(f"verdict must be a whole number of queries of at least 0, not {verdict!r}.")
    if stop_distance is None:
        return
    number = isinstance(stop_distance, Real) and not isinstance(stop_distance, bool)
    if not number or not 0 <= float(cast(Any, stop_distance)) < math.inf:
        raise InputError(f"stop_distance must be a distance of at least 0, not {stop_distance!r}; None does not stop.")


def seed_of(seed: object) -> int:
    """Check a seed."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InputError(f"seed must be an integer, not {seed!r}.")
    return int(seed)


def ids_of(image_ids: Sequence[int] | Array | None, count: int) -> Tensor:
    """Check the image ids and return them as int64 `(B,)`; all must differ."""
    if image_ids is None:
        return torch.arange(count)
    ids = labels_of(image_ids, count, "image_ids")
    times = Counter(ids.tolist())
    if len(times) < count:
        twice = [name for name, often in times.items() if often > 1]
        raise InputError(
            f"image_ids must differ, or images would share their random streams: {_some(twice)} came more than once."
        )
    return ids


def within_budget(config: AttackConfig, iterations: int | None, budget: int | None) -> tuple[AttackConfig, bool]:
    """The configuration that runs until the budget is spent, if the attack supports this; and whether it does."""
    if iterations is not None or budget is None or not isinstance(config, PlansIterations):
        return config, False
    return attack_of(config, config.iterations_within(int(budget))), True


def budget_of(attack: str | AttackConfig, iterations: int | None, budget: int | None) -> int | None:
    """The budget of a call: `DEFAULT_BUDGET` for "qsj" if neither a budget nor a number of iterations is given."""
    if budget is not None or iterations is not None:
        return budget
    config = attack_of(attack, None)
    # A configuration with an explicit number of iterations, such as QuickSkipJump(iterations=20), gets no default.
    plain = isinstance(config, PlansIterations) and config.iterations == type(config)().iterations
    return DEFAULT_BUDGET if plain else None


def checked_pool(pool: Pool, bounds: Bounds) -> CheckedPool:
    """Check a pool of starting images, unless that was done before."""
    if isinstance(pool, CheckedPool) and pool.bounds == bounds:
        return pool
    images = images_of(pool.images, bounds, "pool images")
    return CheckedPool(images, labels_of(pool.labels, len(images), "pool labels"), bounds)


def starts_of(starts: Array | Pool | None, images: Tensor, bounds: Bounds) -> Tensor | Pool | None:
    """Check starting points: one for each image, or a pool to draw from."""
    if starts is None:
        return None
    if isinstance(starts, Pool):
        pool = checked_pool(starts, bounds)
        if pool.images.shape[1:] != images.shape[1:]:
            shapes = tuple(pool.images.shape[1:]), tuple(images.shape[1:])
            raise InputError(f"pool images have the shape {shapes[0]}, images {shapes[1]}.")
        return pool
    given: Any = starts
    axes = [getattr(part, "ndim", 0) for part in given] if isinstance(given, tuple) else []
    if isinstance(given, type) or (len(axes) == 2 and axes[0] > axes[1]):
        raise InputError("starts are one point for each image, or a pool: pass psj.Pool(images, labels) as `starts=`.")
    points = images_of(starts, bounds, "starts")
    if points.shape != images.shape:
        raise InputError(f"starts must have the shape of the images, {tuple(images.shape)}, not {tuple(points.shape)}.")
    return points
