"""Two attacks on equal terms: distances at equal queries, queries at equal distance, and how sure both are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Centre = Callable[..., np.ndarray]  # of log-distances over the images: np.median, or np.mean for a geometric mean
PLACES = 300
RESAMPLES = 1000


class Track(NamedTuple):
    """What an attack had reached on each of B images after so many queries."""

    asked: np.ndarray  # (T, B) queries so far
    log_distance: np.ndarray  # (T, B) of the border on the ray; finite everywhere
    nothing: float  # log-distance of an image that has no point yet

    def at(self, queries: np.ndarray | float) -> np.ndarray:
        """Log-distance of each image after equally many queries: `(Q,)` -> `(Q, B)`."""
        places = np.atleast_1d(queries)
        paid = (self.asked[None] <= places[:, None, None] + 0.5).sum(axis=1)  # (Q, B) how many steps by then
        reached = np.take_along_axis(self.log_distance, np.maximum(paid - 1, 0), axis=0)
        return np.where(paid > 0, reached, self.nothing)

    def places(self) -> np.ndarray:
        """Numbers of queries at which to look: `(Q,)`, in even ratios."""
        first, last = max(self.asked[0].min(), 1), self.asked[-1].max()
        return np.geomspace(first, max(last, first + 1), PLACES)


class Mark(NamedTuple):
    """A place on the reference's curve: after an iteration, or after a number of queries."""

    iteration: int | None = None
    queries: int | None = None

    def __str__(self) -> str:
        return f"t={self.iteration}" if self.iteration is not None else f"{self.queries:,} queries"

    def of(self, track: Track) -> tuple[np.ndarray, np.ndarray]:
        """Queries and log-distances of all images there: `(B,)`, `(B,)`."""
        if self.iteration is not None:
            t = min(self.iteration, len(track.asked) - 1)
            return track.asked[t].astype(float), track.log_distance[t]
        count = float(self.queries or 0)
        return np.full(track.asked.shape[1], count), track.at(count)[0]


class Ratio(NamedTuple):
    """Queries of the reference over those of another attack, at equal distance."""

    value: float  # nan where the other never came as near
    low: float  # bootstrap over the images, 95%
    high: float
    queries: float  # of the reference
    distance: float  # of the reference
    needed: float  # queries of the other; inf where it never came as near
    difference: float  # mean log-distance, other minus reference, at the reference's queries
    error: float  # standard error of that mean over the images
    curves: float  # queries at equal distance from the curves of both: where images end an iteration after very
    # different numbers of queries, the reference's curve comes to its distance later than after their median


def _needed(places: np.ndarray, table: np.ndarray, goal: float, centre: Centre) -> float:
    """The fewest queries from which on the centre of a table `(Q, B)` is at most the goal; inf if it never is."""
    near = centre(table, axis=1) <= goal + 1e-12
    return float(places[near.argmax()]) if near.any() else np.inf


def compare(reference: Track, other: Track, mark: Mark, centre: Centre, seed: int = 0) -> Ratio:
    """Queries at equal distance and distances at equal queries, on the same images."""
    asked, logs = mark.of(reference)
    places = other.places()
    table = other.at(places)

    def ratio(images: np.ndarray) -> float:
        needed = _needed(places, table[:, images], float(centre(logs[images])), centre)
        return float(np.median(asked[images])) / needed  # 0 if never

    images = np.arange(len(logs))
    draws = np.random.default_rng(seed).integers(len(images), size=(RESAMPLES, len(images)))
    low, high = np.percentile([ratio(chosen) for chosen in draws], (2.5, 97.5))
    count, goal = float(np.median(asked)), float(centre(logs))
    needed = _needed(places, table, goal, centre)
    own = _needed(reference.places(), reference.at(reference.places()), goal, centre)
    pairs = other.at(count)[0] - logs
    error = float(pairs.std(ddof=1) / np.sqrt(len(pairs))) if len(pairs) > 1 else np.nan
    return Ratio(
        count / needed if np.isfinite(needed) else np.nan,
        float(low),
        float(high),
        count,
        float(np.exp(goal)),
        needed,
        float(pairs.mean()),
        error,
        own / needed if np.isfinite(needed) else np.nan,
    )


def paired(reference: Track, other: Track, queries: float) -> tuple[float, float]:
    """Mean log-distance of the other minus the reference after equally many queries, and its standard error."""
    pairs = (other.at(queries) - reference.at(queries))[0]
    return float(pairs.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs))) if len(pairs) > 1 else np.nan
