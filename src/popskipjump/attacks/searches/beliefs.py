"""Posteriors of a Bayesian search, and a cache of the decisions that follow from them.

From a uniform prior, equal answers lead to the same next query, the same stopping decision and the same result. The
cache stores these by history of answers, for all images and iterations of a run. While an image's answers match a
cached history, no posterior is needed. At the first uncached answer, the posterior is rebuilt by replaying the answers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.sigmoid import (
    Grid,
    SampleSize,
    SigmoidPosterior,
    expected_sample_size,
    floor_cost,
    information,
    ratio_table,
    sample_ratio,
    shared_grid,
)

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Answers = bytes  # of one image, 1 = adversarial

_MOST_KEPT = 50_000  # cached histories; without noise a run has about 3,000, with noise most never occur again
_ENCODED = (b"\0", b"\1")
_SHARP_CHECKS = 3  # evaluations of the stopping rule after which most searches without noise have ended


@dataclass(frozen=True)
class Inference:
    """Settings of a search's inference; see `BayesianSearch` for the arguments."""

    grid: Grid
    spread: float
    acquisition: Literal["information", "sample-size"]
    estimate: Literal["mean", "map"]
    sample_size: SampleSize
    at_least: float
    check_every: int
    confidence: float


class NextQuery(NamedTuple):
    """The next query after a history of answers."""

    place: int  # askable position of the grid
    rescaled: bool  # whether the weights were rescaled before


class Summary(NamedTuple):
    """The estimate after a history of answers, for the stopping rule."""

    centre: float
    log_slope: float
    low: float
    high: float
    sample_ratio: float


class Outcome(NamedTuple):
    """The rest of a search's result, if the search ends after a history of answers."""

    safe: float
    deviation: float  # of the centre
    least_ratio: float  # lower limit of the sample ratio


class AnswerCache:
    """Next queries, summaries and outcomes by history of answers, for searches of one kind from a uniform prior."""

    def __init__(self) -> None:
        self.queries: dict[Answers, NextQuery] = {}
        self.summaries: dict[Answers, Summary] = {}
        self.outcomes: dict[Answers, Outcome] = {}
        self.precomputed = False  # whether `precompute_sharp` was considered already

    @property
    def full(self) -> bool:
        """Whether the cache has reached its size limit."""
        return len(self.queries) + len(self.summaries) + len(self.outcomes) >= _MOST_KEPT


class Beliefs:
    """Posteriors of the images of a search; images are numbered 0 .. A - 1, and renumbered when some leave.

    Args:
        config: settings of the inference.
        prior: a prior for each image; None for the uniform prior.
        images: A.
        cache: read and extended if the prior is uniform.
    """

    def __init__(self, config: Inference, prior: SigmoidPosterior | None, images: int, cache: AnswerCache) -> None:
        self._config, self._cache = config, cache
        self._grid = shared_grid(config.grid)
        self._answers: list[Answers] = [b""] * images
        self._uniform = prior is None
        self._learning = [] if prior is None else list(range(images))  # images with a posterior, in its order
        self._buffer = torch.empty(0) if prior is None else prior.weights  # (A, n, C), made when it is needed
        self.posterior = SigmoidPosterior(self._grid, self._buffer) if prior is None else prior

    def values(self) -> Floats:
        """Acquisition value of each position, for images with their own priors: `(A, n - 1)`."""
        return self._values()[0]

    def places(self) -> list[int]:
        """The best query position of each image."""
        known = self._cache.queries
        self._recall(range(len(self._answers)), known)
        places = [-1] * len(self._answers)
        if self._learning:
            value, small = self._values()
            keep = self._uniform and not self._cache.full
            for image, place, rescaled in zip(self._learning, value.argmax(axis=1).tolist(), small, strict=True):
                places[image] = place
                if keep:
                    known[self._answers[image]] = NextQuery(place, rescaled)
        if len(self._learning) < len(places):
            for image, place in enumerate(places):
                if place < 0:
                    places[image] = known[self._answers[image]].place
        return places

    def learn(self, places: list[int], answers: list[bool]) -> None:
        """Update with one answer for each image."""
        if self._learning:
            self.posterior.update([places[i] for i in self._learning], [answers[i] for i in self._learning])
        self._answers = [before + _ENCODED[now] for before, now in zip(self._answers, answers, strict=True)]

    def summaries(self) -> list[Summary]:
        """The estimate for each image, for the stopping rule."""
        known = self._cache.summaries if self._uniform else {}
        self._recall(range(len(self._answers)), known)
        fresh = {}
        if self._learning:
            belief = self.posterior.marginals()
            estimate = belief.mean() if self._config.estimate == "mean" else self.posterior.mode()
            ratio = sample_ratio(self._config.sample_size, self.posterior, belief, estimate, self._config.spread)
            numbers = zip(*(values.tolist() for values in (*estimate, ratio)), strict=True)
            fresh = {image: Summary(*row) for image, row in zip(self._learning, numbers, strict=True)}
            if self._uniform and not self._cache.full:
                known |= {self._answers[image]: summary for image, summary in fresh.items()}
        return [fresh[i] if i in fresh else known[answers] for i, answers in enumerate(self._answers)]

    def outcomes(self, images: list[int]) -> list[Outcome]:
        """The rest of the result for a subset of the images."""
        known = self._cache.outcomes if self._uniform else {}
        missing = [image for image in images if self._answers[image] not in known]
        fresh = {}
        if missing:
            self._recall(missing, known)
            rows = torch.tensor([self._learning.index(image) for image in missing])
            belief = self.posterior.select(rows).marginals()
            safe = belief.centre_quantile(1 - self._config.confidence)
            least = self._config.at_least * floor_cost(belief.likely_floors().sum(dim=1))
            numbers = (values.tolist() for values in (safe, belief.centre_moments()[1], least))
            fresh = {image: Outcome(*row) for image, *row in zip(missing, *numbers, strict=True)}
            if self._uniform and not self._cache.full:
                known |= {self._answers[image]: outcome for image, outcome in fresh.items()}
        return [fresh[image] if image in fresh else known[self._answers[image]] for image in images]

    def select(self, stays: list[int]) -> None:
        """Keep only a subset of the images."""
        number = {image: new for new, image in enumerate(stays)}
        rows = [row for row, image in enumerate(self._learning) if image in number]
        if len(rows) < len(self._learning):
            self._buffer[: len(rows)] = self.posterior.weights[torch.tensor(rows, dtype=torch.int64)]
            self.posterior.weights = self._buffer[: len(rows)]
        self._learning = [number[image] for image in self._learning if image in number]
        self._answers = [self._answers[image] for image in stays]

    def _values(self) -> tuple[Floats, list[bool]]:
        """Acquisition values `(L, n - 1)` by row of the posterior, and for each row whether it was rescaled."""
        if self._config.acquisition == "information":
            value, total = information(self.posterior)
            small = self.posterior.rescale(total)
        else:
            small = self.posterior.rescale(self.posterior.weights.sum(dim=(1, 2)))
            sizes = expected_sample_size(self.posterior, ratio_table(self._grid, self._config.spread))
            value = -sizes.to(torch.float32).numpy()
        return value, small.tolist()

    def _recall(self, images: Iterable[int], known: Container[Answers]) -> None:
        """Rebuild the posteriors of images that have none and whose history of answers is not cached."""
        if len(self._learning) == len(self._answers):
            return
        have = set(self._learning)
        missing = [i for i in images if self._answers[i] not in known and i not in have]
        if not missing:
            return
        answered = len(self._answers[0])  # all images have the same number of answers
        count = len(self._learning)
        if len(self._buffer) < len(self._answers):
            self._buffer = SigmoidPosterior.uniform(self._grid, len(self._answers)).weights
        for row, image in enumerate(missing, start=count):
            self._replay(self._buffer[row : row + 1], self._answers[image])
        self._learning += missing
        self.posterior = SigmoidPosterior(self._grid, self._buffer[: len(self._learning)], answered)

    def _replay(self, weights: Tensor, answers: Answers) -> None:
        """Replay answers on the weights of one image `(1, n, C)`."""
        weights.copy_(SigmoidPosterior.uniform(self._grid, 1).weights)
        posterior = SigmoidPosterior(self._grid, weights)
        for number, said in enumerate(answers):
            query = self._cache.queries[answers[:number]]
            if query.rescaled:
                posterior.rescale(np.zeros(1, dtype=np.float32))
            posterior.update([query.place], [bool(said)])


def precompute_sharp(config: Inference, cache: AnswerCache) -> None:
    """Fill the cache with the searches for a sharp boundary at every position, in one batch.

    Without noise no other search can occur, and this batch is faster than a few searches of a single image.
    """
    borders = range(config.grid.positions)
    beliefs = Beliefs(config, None, len(borders), cache)
    for _ in range(_SHARP_CHECKS):
        for _ in range(config.check_every):
            places = beliefs.places()
            beliefs.learn(places, [place < border for place, border in zip(places, borders, strict=True)])
        beliefs.summaries()
    beliefs.outcomes(list(borders))


def is_sharp(probes: Tensor) -> bool:
    """Whether all answers are consistent with a sharp boundary: int64 `(A, 2, P)`, see `Border.probes`."""
    asked, yes = probes.numpy().transpose(1, 0, 2)
    adversarial, other = yes > 0, asked > yes
    last = np.where(adversarial, np.arange(asked.shape[1]), -1).max(axis=1)
    first = np.where(other, np.arange(asked.shape[1]), asked.shape[1]).min(axis=1)
    return bool((last < first).all())
