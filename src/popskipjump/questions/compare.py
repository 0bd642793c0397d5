"""`compare`: whether a defence moves the border or only adds noise, from paired ratios of border distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump import Hooks, Pool, Report, Status, evaluate
from popskipjump.errors import InputError
from popskipjump.evaluation.inputs import Array, AttackConfig, images_of, labels_of, oracle_of, starts_of
from popskipjump.geometry import Norm, norm_of
from popskipjump.noise import describe
from popskipjump.oracles import Ledger, NoiseModel
from popskipjump.oracles.base import is_whole
from popskipjump.questions.check import check
from popskipjump.questions.comparison import (
    FEWEST,
    Comparison,
    detectable,
    images_needed,
    median_of,
    moves_of,
    verdict_of,
)
from popskipjump.questions.intervals import checked_confidence
from popskipjump.questions.probe.asking import Asker
from popskipjump.questions.probe.rays import borders_on_ray
from popskipjump.rng import Key
from popskipjump.types import Bounds

_MOST_SCALE = 10.0
_LOOKED_AT = 3  # images that `check` looks at to scale the budget
_NEARLY = 1.2  # queries are counted until the distance is within this factor of the nearest border that is known


def compare(
    base: Any, defended: Any, images: Array, labels: Array | Sequence[int], *,
    base_noise: str | NoiseModel | None = None, defended_noise: str | NoiseModel | None = None,
    attack: str | AttackConfig = "qsj", norm: str | Norm = "l2", budget: int = 2000, scale: float | None = None,
    starts: Array | Pool | None = None, margin: float = 0.1, confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0), seed: int = 0, on_queries: Callable[[int], None] | None = None,
) -> Comparison:  # fmt: skip
    """Compare the robustness of two classifiers on the same images with the same attack.

    Args:
        base: the classifier without the defence; see `evaluate`.
        defended: the other one; it may be `base` again, with `defended_noise` as the defence.
        images: `(B, *S)`, inputs of both.
        labels: `(B,)` true classes, from 0.
        base_noise: noise to put on the base classifier's answers.
        defended_noise: noise to put on the defended classifier's answers.
        attack: see `evaluate`.
        norm: "l2" or "linf"; the norm that a defence was trained for shows it best.
        budget: queries of the attack for each image on the base classifier.
        scale: how many times that for the defended one; None lets `check` look at 3 images and choose, as noise that
            only makes an attack slower is no defence.
        starts: see `evaluate`; points that are adversarial for both, or a pool of images.
        margin: ratios within 1 / (1 + margin) and 1 + margin count as equal.
        confidence: of the intervals.
        bounds: smallest and largest value of an input coordinate.
        seed: of all randomness.
        on_queries: called with the number of queries after every call to a classifier.

    Raises:
        InputError: something was passed that cannot be used, such as two classifiers with inputs of different shapes.
    """
    box = Bounds.of(bounds)
    batch = images_of(images, box)
    truth = labels_of(labels, len(batch))
    starts_of(starts, batch, box)
    level, size = _checked(len(batch), budget, scale, margin, confidence), norm_of(norm)
    sides = ((base, base_noise, seed), (defended, defended_noise, seed + 1))
    askers = [
        _asker(side, batch, box, on_queries, name) for side, name in zip(sides, ("base", "defended"), strict=True)
    ]
    if scale is None:
        some = slice(0, _LOOKED_AT)
        scale = _scale_for(defended, defended_noise, batch[some], truth[some], bounds, seed)
    budgets = (int(budget), math.ceil(budget * scale))
    reports = [
        evaluate(model, batch, truth, attack, noise, size, starts=starts, budget=most, bounds=bounds, seed=own,
                 verdict=0, keep_trace=False, hooks=Hooks(on_queries=on_queries))
        for (model, noise, own), most in zip(sides, budgets, strict=True)
    ]  # fmt: skip
    both = _measured(reports[0]) & _measured(reports[1])
    # Every distance is an upper bound: each classifier is measured on the rays of both attacks, and the nearer counts.
    rays = np.array([[_borders(asker, report, both, size) for report in reports] for asker in askers])
    own = rays.mean(axis=2).min(axis=1)  # (classifier, image)
    needed = [_queries_needed(report, far) for report, far in zip(reports, own, strict=True)]
    asked = [
        int(report.queries.sum()) + int(asker.ledger.total.sum()) for report, asker in zip(reports, askers, strict=True)
    ]
    titles = (f"base, noise {describe(base_noise)}", f"defended, noise {describe(defended_noise)}")
    numbers = (own[0], own[1], (asked[0], asked[1]), budgets, size.name, titles)
    cost = _ratio(needed[1], np.where(np.isinf(needed[0]), np.nan, needed[0]))
    return _judged(rays, own, cost, margin, level, Key(seed).child("compare"), numbers)


def _scale_for(
    defended: Any,
    noise: str | NoiseModel | None,
    images: Tensor,
    labels: Tensor,
    bounds: tuple[float, float],
    seed: int,
) -> float:
    """How many times the base classifier's budget the noise of the defended one calls for, by `check`."""
    seen = check(defended, images, labels, noise=noise, bounds=bounds, seed=seed)
    return float(min(max(seen.forecasts[0].multiplier.value, 1.0), _MOST_SCALE))


def _judged(
    rays: np.ndarray, own: np.ndarray, more: np.ndarray, margin: float, level: float, key: Key, numbers: Any
) -> Comparison:
    """The verdict, from borders `(classifier, ray, measurement, B)` and the nearer one of each `(classifier, B)`."""
    ratios, apart = _ratio(own[1], own[0]), _ratio(rays[1], rays[0])  # (B,), (ray, measurement, B)
    moves = np.exp(np.log(moves_of(apart[:, 0], apart[:, 1])).mean(axis=0))
    ratio, moved = median_of(ratios, key.child("ratio"), level), median_of(moves, key.child("moved"), level)
    border_moved = moved.low > 1 + margin / 2
    open_ = verdict_of(ratio, margin) == "undecided"
    return Comparison(
        verdict_of(ratio, margin, border_moved),
        border_moved,
        margin,
        level,
        ratio,
        moved,
        median_of(more, key.child("queries"), level),
        images_needed(ratios, ratio, margin, level) if open_ else None,
        detectable(ratios, margin, level),
        ratios,
        apart[1].mean(axis=0),
        moves,
        *numbers,
    )


def _checked(count: int, budget: int, scale: float | None, margin: float, confidence: float) -> float:
    if count < FEWEST:
        raise InputError(f"a comparison needs at least {FEWEST} images, not {count}.")
    if not is_whole(budget) or budget < 1:
        raise InputError(f"budget must be a whole number of queries of at least 1, not {budget!r}.")
    for name, value, least in (("scale", 1.0 if scale is None else scale, 0.0), ("margin", margin, 0.0)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not least < value < math.inf:
            raise InputError(f"{name} must be a positive number, not {value!r}.")
    return checked_confidence(confidence)


def _asker(side: Any, batch: Tensor, box: Bounds, on_queries: Callable[[int], None] | None, name: str) -> Asker:
    """Whom to ask about one of the classifiers; one that cannot take the images is refused here."""
    model, noise, seed = side
    oracle, _ = oracle_of(model, noise, seed + 2, tuple(batch.shape[1:]))
    asker = Asker(oracle, Ledger(len(batch)), box, torch.arange(len(batch)), on_queries)
    first = asker.labels(batch[:1], torch.zeros(1, dtype=torch.int64), "border")
    if int(first[0]) < 0:
        raise InputError(
            f"the {name} classifier does not take these images of shape {tuple(batch.shape[1:])} "
            f"({next(iter(asker.errors), 'no answer')}): both classifiers must have the same inputs."
        )
    return asker


def _measured(report: Report) -> np.ndarray:
    """Images with a point of their own: bool `(B,)`."""
    return np.array([status.has_point and status is not Status.MISCLASSIFIED for status in report.status])


def _borders(asker: Asker, rays: Report, both: np.ndarray, norm: Norm) -> np.ndarray:
    """Border distances of the asker's classifier on the rays that an attack found, measured twice: `(2, B)`.

    Inf where there is no border on the ray, and nan for images that are not in `both`.
    """
    found = np.full((2, len(rays.status)), np.nan)
    for row in np.flatnonzero(both):
        image, point = (torch.from_numpy(values[row]) for values in (rays.images, rays.points))
        found[:, row] = borders_on_ray(asker, int(row), image, point, int(rays.labels[row]), norm)
    return found


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Ratios `(B,)`; nan where both are infinite or one is 0."""
    usable = (above > 0) & (below > 0) & ~(np.isinf(above) & np.isinf(below))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(usable, above / below, np.nan)


def _queries_needed(report: Report, nearest: np.ndarray) -> np.ndarray:
    """Queries until each image's border was nearly the nearest one known `(B,)`: `(B,)`, inf if it never was."""
    near = report.trace.distance.numpy() <= _NEARLY * nearest
    need = report.trace.queries.numpy()[near.argmax(axis=0), np.arange(near.shape[1])].astype(np.float64)
    need[~near.any(axis=0)] = np.inf
    return np.where(_measured(report) & (need > 0), need, np.nan)
