"""Border of the majority classifier on a ray, from labels alone."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import torch
from torch import Tensor

from popskipjump.geometry import Norm
from popskipjump.questions.probe.asking import REJECTED, Asker
from popskipjump.questions.probe.lines import REPEATS, ZOOM, Answers, LineFit, narrow

REACH = 2.0  # the ray is followed to so many times the distance of its point
_PLACES, _HALVINGS = 16, 10
_PRECISE, _MOST_ROUNDS = 0.01, 8  # wanted standard deviation over distance, and rounds of answers to get there


def borders_on_ray(asker: Asker, row: int, image: Tensor, point: Tensor, label: int, norm: Norm) -> tuple[float, float]:
    """Two independent estimates of the distance at which the most frequent answer changes on a ray; inf without one.

    While equal inputs get equal answers the place is bisected, and both estimates are equal; from the first difference
    on, a transition between the image's class and its most frequent rival is fitted, twice, to answers of its own.

    Args:
        asker: whom to ask.
        row: the image's row, for the count.
        image: `(*S)`.
        point: `(*S)`, on the ray; it may lie on either side of the border.
        label: the image's class.
        norm: of the distance.
    """
    if not float((point - image).norm()) > 0:
        return math.inf, math.inf
    ray = _Ray(asker, row, image, point, label)
    place = ray.bisected()
    places = (place, place) if place is not None else (ray.fitted(), _Ray(asker, row, image, point, label).fitted())
    first, second = (ray.distance(place, norm) for place in places)
    return first, second


class _OfTwo(Answers):
    """Answers on a ray; those that count are the image's class and its most frequent rival."""

    def __init__(self, label: int) -> None:
        super().__init__()
        self._label = label
        self._places: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def note(self, places: np.ndarray, labels: np.ndarray) -> None:
        """Keep answers `(M,)` at places `(M,)`."""
        self._places.append(places)
        self._labels.append(labels)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Answers`."""
        place, label = np.concatenate(self._places), np.concatenate(self._labels)
        others = Counter(label[(label != self._label) & (label != REJECTED)].tolist())
        rival = others.most_common(1)[0][0] if others else REJECTED
        kept = (label == self._label) | ((label == rival) & (label != REJECTED))
        where, index = np.unique(place[kept], return_inverse=True)
        hits = np.bincount(index, weights=label[kept] == rival, minlength=len(where))
        return where, np.bincount(index, minlength=len(where)).astype(np.float64), hits


class _Ray:
    """Questions along one ray; place 0 is the image, place 1 lies `REACH` times as far as the point."""

    def __init__(self, asker: Asker, row: int, image: Tensor, point: Tensor, label: int) -> None:
        self.asker, self.row, self.label = asker, row, label
        self.image, self.change = image, REACH * (point - image)
        self.answers = _OfTwo(label)

    def points(self, places: np.ndarray) -> Tensor:
        weight = torch.from_numpy(places).to(self.image.dtype).reshape(-1, *(1 for _ in self.image.shape))
        bounds = self.asker.bounds
        return (self.image + weight * self.change).clamp(bounds.low, bounds.high)

    def distance(self, place: float, norm: Norm) -> float:
        """Of a place from the image; inf for one that is not on the ray."""
        if not 0 <= place <= 1:
            return math.inf
        change = self.points(np.array([place]))[0] - self.image
        return float(norm.size(change.reshape(1, -1))[0])

    def ask(self, places: np.ndarray) -> int:
        """Ask, and note the answers; how many."""
        self._shares(places)
        return len(places)

    def _shares(self, places: np.ndarray) -> np.ndarray:
        labels = self.asker.labels(self.points(places), torch.full((len(places),), self.row), "border").numpy()
        self.answers.note(places, labels)
        return np.asarray(labels != self.label)

    def fitted(self) -> float:
        """The place where half of the answers that count are adversarial; inf without one."""
        fit, window = narrow(self.answers, self.ask)
        if fit is not None and fit.centre_sd > _PRECISE * fit.centre:
            # The variance falls with the number of answers in the window.
            rounds = min(math.ceil((fit.centre_sd / max(_PRECISE * fit.centre, 1e-9)) ** 2), _MOST_ROUNDS)
            step = (window[1] - window[0]) / (rounds * ZOOM)
            self.ask(np.repeat(window[0] + step * (np.arange(rounds * ZOOM) + 0.5), REPEATS))
            fit = self.answers.fit(window)
        return math.inf if fit is None else _half(fit)

    def bisected(self) -> float | None:
        """The first change of unanimous answers; inf without a change, None once answers differ."""
        places = np.arange(_PLACES + 1) / _PLACES
        answers = self._shares(np.repeat(places, REPEATS)).reshape(-1, REPEATS)
        if (answers != answers[:, :1]).any():
            return None
        first = int(np.argmax(answers[:, 0]))
        if first == 0:
            return math.inf if not answers[0, 0] else 0.0
        low, high = float(places[first - 1]), float(places[first])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            votes = self._shares(np.full(REPEATS, middle))
            if (votes != votes[0]).any():
                return None
            low, high = (low, middle) if votes[0] else (middle, high)
        return (low + high) / 2


def _half(fit: LineFit) -> float:
    """Where the fitted share is 1/2; inf if it is not on both sides of it."""
    part = (0.5 - fit.floor) / (1 - fit.floor - fit.floor_end)
    if not 0 < part < 1:
        return math.inf
    return fit.centre + fit.width / (2 * math.log(3)) * math.log(part / (1 - part))
