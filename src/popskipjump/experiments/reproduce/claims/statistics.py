"""Statistics of runs on the same images, prepared for resampling."""

from __future__ import annotations

import math

import numpy as np

from popskipjump.experiments.reproduce.claims.rules import Comparison, Statistic
from popskipjump.experiments.reproduce.numbers import ratio
from popskipjump.runs.data import RunData


def middle(values: np.ndarray) -> float:
    """The median, inf if most values are."""
    ordered = np.sort(values)
    below, above = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float(below if below == above else (below + above) / 2)


def medians(values: np.ndarray, reference: np.ndarray) -> Statistic:
    """The ratio of two medians, both `(B,)` of the same images."""
    return lambda images: ratio(middle(values[images]), middle(reference[images]))


def at_most(name: str, values: np.ndarray, reference: np.ndarray, limit: float) -> Comparison:
    """The median of values `(B,)` is at most `limit` times that of a reference `(B,)`."""
    return Comparison(name, len(values), medians(values, reference), limit)


def at_least(name: str, values: np.ndarray, reference: np.ndarray, limit: float) -> Comparison:
    """The median of values `(B,)` is at least `limit` times that of a reference `(B,)`."""
    return Comparison(name, len(values), medians(values, reference), limit, at_most=False)


def mean_at_least(name: str, values: np.ndarray, limit: float) -> Comparison:
    """The mean of values `(B,)` is at least `limit`."""
    return Comparison(name, len(values), lambda images: float(values[images].mean()), limit, at_most=False)


def mean_at_most(name: str, values: np.ndarray, limit: float) -> Comparison:
    """The mean of values `(B,)` is at most `limit`."""
    return Comparison(name, len(values), lambda images: float(values[images].mean()), limit)


def reached(run: RunData, asked: np.ndarray) -> np.ndarray:
    """Border distance of each image after `asked` `(B,)` queries; inf before its first: `(B,)`."""
    within = run.trace_queries <= asked  # (T + 1, B)
    last = np.maximum(within.sum(axis=0) - 1, 0)
    found: np.ndarray = np.where(within.any(axis=0), run.trace_border[last, np.arange(len(last))], np.inf)
    return found


def risk_area(distances: np.ndarray, clean: np.ndarray, fooled: np.ndarray, etas: np.ndarray) -> np.ndarray:
    """Each image's accuracy, averaged over the sizes of the attack: `(B,)`; see `adversarial_accuracy`."""
    far = distances[:, None] > etas[None, :]
    area: np.ndarray = np.where(far, clean[:, None], np.minimum(clean, fooled)[:, None]).mean(axis=1)
    return area


def price_of_votes(psj: RunData, tried: list[RunData], limit: float) -> Statistic:
    """Queries of HSJ-r over PSJ's, with the fewest votes that come as close; `tried` in growing order of votes.

    Where none does, the most votes give a lower bound: enough above the limit, nothing below it.
    """

    def price(images: np.ndarray) -> float:
        goal, paid = middle(psj.border_distances[images]), middle(psj.attack_queries[images])
        for run in tried:
            if middle(run.border_distances[images]) <= goal:
                return ratio(middle(run.attack_queries[images]), paid)
        bound = ratio(middle(tried[-1].attack_queries[images]), paid)
        return bound if bound >= limit else math.nan

    return price
