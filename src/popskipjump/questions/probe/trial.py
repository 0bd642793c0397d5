"""A trial attack on the images of `check`, to test its forecast."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from popskipjump import Hooks, evaluate
from popskipjump.questions.intervals import middle
from popskipjump.questions.probe.forecast import NEARLY, Forecast
from popskipjump.questions.probe.probing import Probed


class Trial(NamedTuple):
    """What an attack needed."""

    attack: str
    budget: int  # queries for each image
    needed: np.ndarray  # (n,) queries of each image until the goal; inf where it was not reached
    distances: np.ndarray  # (n,) L2 distances at the end
    queries: int  # of the run
    distance: float | None  # the goal; None: `NEARLY` times the last distance

    @property
    def median(self) -> float:
        """Queries that the median image needed; inf if half of the images did not get there."""
        return middle(self.needed)

    def agrees(self, predicted: Forecast) -> bool | None:
        """Whether the run lies within the predicted interval; None if it was too short to tell."""
        value, low, high = predicted.queries
        if math.isinf(self.median):
            return None if high > self.budget else False
        if self.distance is None and self.budget < value:
            return None  # the last distance may be far from the nearest
        return bool(low <= self.median <= high)


def try_out(
    model: Any,
    noise: Any,
    found: list[Probed],
    images: torch.Tensor,
    labels: torch.Tensor,
    attack: str,
    budget: int,
    distance: float | None,
    bounds: tuple[float, float],
    seed: int,
    hooks: Hooks,
) -> Trial | None:
    """Attack the images from the other ends of their lines; None if there is no such image.

    Args:
        model: see `evaluate`.
        noise: see `evaluate`.
        found: what `check` found out about each image.
        images: `(B, *S)`.
        labels: `(B,)`.
        attack: name of the attack.
        budget: queries for each image.
        distance: the goal; None counts queries until the distance is nearly the last one.
        bounds: smallest and largest value of an input coordinate.
        seed: of the run.
        hooks: of the run.
    """
    rows = [row for row, probed in enumerate(found) if probed.line is not None]
    if not rows:
        return None
    ends = torch.stack([end for probed in found if (end := probed.line) is not None])
    report = evaluate(
        model, images[rows], labels[rows], attack, noise, starts=ends, budget=budget, bounds=bounds, seed=seed,
        verdict=0, keep_trace=False, hooks=hooks,
    )  # fmt: skip
    far = report.trace.distance.numpy()
    goal = np.full(len(rows), distance) if distance is not None else NEARLY * far[-1]
    usable = np.array([status.has_point for status in report.status])
    near = (far <= goal) & usable
    asked = report.trace.queries.numpy()[near.argmax(axis=0), np.arange(len(rows))]
    needed = np.where(near.any(axis=0), asked, np.inf).astype(np.float64)
    return Trial(attack, budget, needed, np.asarray(report.distances), int(report.queries.sum()), distance)
