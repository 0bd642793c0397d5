"""Where the answers of a classifier change on a ray: the border of its majority, from labels alone."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from popskipjump.questions.probe.asking import REJECTED, Asker
from popskipjump.questions.probe.lines import REPEATS, Answers, LineFit, narrow

REACH = 2.0  # the ray is followed to so many times the distance of its point
_PLACES, _HALVINGS = 16, 10


def border_on_ray(asker: Asker, row: int, image: Tensor, point: Tensor, label: int) -> float:
    """L2 distance from an image to the place on a ray where half of the answers are adversarial; inf without one.

    While equal inputs get equal answers the place is bisected; from the first difference on, a transition is fitted.

    Args:
        asker: whom to ask.
        row: the image's row, for the count.
        image: `(*S)`.
        point: `(*S)`, on the ray; it may lie on either side of the border.
        label: the image's class.
    """
    ray = _Ray(asker, row, image, point, label)
    if not float((point - image).norm()) > 0:
        return math.inf
    place = ray.bisected()
    if place is None:
        fit, _ = narrow(ray.answers, ray.ask)
        place = math.inf if fit is None else _half(fit)
    if not 0 <= place <= 1:
        return math.inf
    return float((ray.points(np.array([place]))[0] - image).norm())


def _half(fit: LineFit) -> float:
    """Where the fitted share is 1/2; inf if it is not on both sides of it."""
    part = (0.5 - fit.floor) / (1 - fit.floor - fit.floor_end)
    if not 0 < part < 1:
        return math.inf
    return fit.centre + fit.width / (2 * math.log(3)) * math.log(part / (1 - part))


class _Ray:
    """Questions along one ray; place 0 is the image, place 1 lies `REACH` times as far as the point."""

    def __init__(self, asker: Asker, row: int, image: Tensor, point: Tensor, label: int) -> None:
        self.asker, self.row, self.label = asker, row, label
        self.image, self.change = image, REACH * (point - image)
        self.answers = Answers()

    def points(self, places: np.ndarray) -> Tensor:
        weight = torch.from_numpy(places).to(self.image.dtype).reshape(-1, *(1 for _ in self.image.shape))
        bounds = self.asker.bounds
        return (self.image + weight * self.change).clamp(bounds.low, bounds.high)

    def ask(self, places: np.ndarray) -> int:
        """Ask, and note the answers; how many."""
        self._shares(places)
        return len(places)

    def _shares(self, places: np.ndarray) -> np.ndarray:
        labels = self.asker.labels(self.points(places), torch.full((len(places),), self.row), "border")
        adversarial, valid = (labels != self.label).numpy(), (labels != REJECTED).numpy()
        self.answers.add(places, adversarial, valid)
        return adversarial

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
