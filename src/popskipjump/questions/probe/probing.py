"""Queries of `check`: at images, close to them, and along lines across the border."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from popskipjump.questions.intervals import lower_limit
from popskipjump.questions.probe.asking import REJECTED, Asker
from popskipjump.questions.probe.islands import SURROUNDINGS, Island, on_line, remembered
from popskipjump.questions.probe.lines import COARSE, REPEATS, ZOOM, Answers, LineFit, narrow
from popskipjump.rng import Key, normal, uniform

CLEAN, NEAR = 30, 24  # queries at the image, and close to it
AGAIN = COARSE + 2 * ZOOM  # places of the first looks that are asked once more at the end
LADDER = 12  # places across the border that are asked in every round
ROUND = LADDER + 3  # with the image twice and the other end
FEWEST_ROUNDS, MOST_ROUNDS = 3, 40
_NEAR_SIZE = 1e-3  # of the range of an input value: no classifier of use changes its class there
_TRIES, _TRY_VOTES = 6, 7
_ISLANDS = 6  # inputs of each image whose surroundings are asked


@dataclass
class Probed:
    """What one image was asked and answered. Answers are True where they are adversarial."""

    reference: int  # the class at the image
    clean: np.ndarray  # (n,) bool
    near: np.ndarray  # (m,) bool, at m different points close to the image
    near_points: Tensor  # (m, *S), these points
    line: Tensor | None = None  # the point at the other end; None if none was found
    length: float = math.nan  # L2 length of the line
    fit: LineFit | None = None
    window: tuple[float, float] = (0.0, 1.0)
    ladder: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (rounds, LADDER) 0, 1; nan where rejected
    places: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (LADDER,)
    ends: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))  # (rounds, 3): the image twice, the other end
    first: list[np.ndarray] = field(
        default_factory=list
    )  # the first looks: each (places, 1 + REPEATS), place and answers
    again: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (m,) one late answer for each of the first places
    contradicted: int = 0  # inputs whose answer differs from those of all of their surroundings
    neighbours: int = 0  # inputs that were looked at for that
    repeats: list[np.ndarray] = field(default_factory=list)  # answers 0, 1, nan at equal points: each (places, times)
    answers: Answers = field(default_factory=Answers)


class Prober:
    """Asks about a few images within a budget for each."""

    def __init__(self, asker: Asker, images: Tensor, labels: Tensor, key: Key) -> None:
        self.asker, self.images, self.labels, self.key = asker, images, labels, key
        self.rejected = self.asked = 0

    def run(self) -> list[Probed]:
        """Everything, in the order of time: images, lines, then rounds over all images."""
        found = [self._at_image(row) for row in range(len(self.images))]
        for row, probed in enumerate(found):
            self._find_end(row, probed, found)
            if probed.line is not None:
                self._locate(row, probed)
            self._look_around(row, probed)
        self._rounds(found)
        return found

    def _left(self, row: int) -> int:
        return int(self.asker.ledger.remaining(torch.tensor([row]))[0])

    def _ask(self, points: Tensor, row: int, phase: str) -> Tensor:
        """Labels for one image, as many as its budget allows: `(m,)` with m <= M."""
        points = points[: self._left(row)]
        if not len(points):
            return torch.zeros(0, dtype=torch.int64)
        answers = self.asker.labels(points, torch.full((len(points),), row), phase)
        self.asked += len(answers)
        self.rejected += int((answers == REJECTED).sum())
        return answers

    def _at_image(self, row: int) -> Probed:
        image = self.images[row]
        clean = self._ask(image.expand(CLEAN, *image.shape), row, "image")
        reference = _reference(clean, int(self.labels[row]))
        noise = normal(self.key.child("near").roots(torch.arange(row * NEAR, (row + 1) * NEAR)), image.numel())
        size = _NEAR_SIZE * self.asker.bounds.range
        points = (image + size * noise.reshape(NEAR, *image.shape)).clamp(*self.asker.bounds)
        near = self._ask(points, row, "near")
        points = points[: len(near)][near != REJECTED]
        probed = Probed(reference, _valid(clean, reference), _valid(near, reference), points)
        probed.repeats.append(_as_numbers(clean, reference)[None])
        probed.answers.add(np.zeros(len(clean)), (clean != reference).numpy(), (clean != REJECTED).numpy())
        return probed

    def _find_end(self, row: int, probed: Probed, found: list[Probed]) -> None:
        """A point of another class: another image, or noise."""
        image = self.images[row]
        others = [other for other, p in enumerate(found) if p.reference != probed.reference]
        others.sort(key=lambda other: float((self.images[other] - image).norm()))
        roots = self.key.child("end").roots(torch.arange(row * _TRIES, (row + 1) * _TRIES))
        box = self.asker.bounds
        noise = (box.low + box.range * uniform(roots, image.numel())).reshape(_TRIES, *image.shape)
        corners = torch.stack([torch.full_like(image, value) for value in box])
        for end in [*self.images[others[:2]], *corners, *noise[: _TRIES - 2]]:
            answers = self._ask(end.expand(_TRY_VOTES, *end.shape), row, "end")
            wrong = int(((answers != probed.reference) & (answers != REJECTED)).sum())
            if wrong > 0.7 * max(len(answers), 1):
                probed.line, probed.length = end, float((end - image).norm())
                probed.repeats.append(_as_numbers(answers, probed.reference)[None])
                probed.answers.add(np.ones(len(answers)), np.ones(len(answers)), (answers != REJECTED).numpy())
                return

    def _points(self, row: int, probed: Probed, places: np.ndarray) -> Tensor:
        image, end = self.images[row], probed.line
        weight = torch.from_numpy(places).to(image.dtype).reshape(-1, *(1 for _ in image.shape))
        return image + weight * ((image if end is None else end) - image)

    def _locate(self, row: int, probed: Probed) -> None:
        """Find the transition on the image's line."""

        def ask(places: np.ndarray) -> int:
            """A first look in any case; smaller windows only while enough is left for the rounds."""
            if probed.first and self._left(row) < len(places) + AGAIN + FEWEST_ROUNDS * ROUND:
                return 0
            return len(self._ask_places(row, probed, places, phase="line"))

        probed.fit, probed.window = narrow(probed.answers, ask)

    def _look_around(self, row: int, probed: Probed) -> None:
        """Ask close to inputs that differ from all of their neighbours, while equal inputs get equal answers."""
        image, usual = self.images[row], bool(probed.clean.mean() > 0.5) if len(probed.clean) else False
        probed.neighbours = len(probed.near) + sum(max(len(look) - 2, 0) for look in probed.first)
        if any(len(np.unique(place[~np.isnan(place)])) > 1 for table in probed.repeats for place in table):
            return
        odd = torch.from_numpy(probed.near != usual)
        found = [Island(point, point - image, not usual) for point in probed.near_points[odd]]
        change = (image if probed.line is None else probed.line) - image
        for look in probed.first:
            found += on_line(look, image, change, self.asker.bounds.range)
        for island in found[:_ISLANDS]:
            if self._left(row) < SURROUNDINGS + AGAIN + FEWEST_ROUNDS * ROUND:
                break
            numbers = _as_numbers(self._ask(island.surroundings(), row, "near"), probed.reference)
            if len(numbers) == SURROUNDINGS and not np.isnan(numbers).any():
                probed.contradicted += remembered((numbers == 1) == island.adversarial)

    def _ask_places(self, row: int, probed: Probed, places: np.ndarray, phase: str) -> np.ndarray:
        labels = self._ask(self._points(row, probed, places), row, phase)
        numbers = _as_numbers(labels, probed.reference)
        there = places[: len(numbers)]
        probed.answers.add(there, numbers == 1, ~np.isnan(numbers))
        whole = len(numbers) // REPEATS * REPEATS
        if phase == "line" and whole:
            looked = numbers[:whole].reshape(-1, REPEATS)
            probed.repeats.append(looked)
            probed.first.append(np.column_stack((there[:whole:REPEATS], looked)))
        return numbers

    def _rounds(self, found: list[Probed]) -> None:
        """Ask the same places of all images over and over, so that a change in time can be seen."""
        rounds = [min(max(self._left(row) - AGAIN, 0) // ROUND, MOST_ROUNDS) for row in range(len(found))]
        most = max(rounds)
        ladders: list[list[np.ndarray]] = [[] for _ in found]
        ends: list[list[np.ndarray]] = [[] for _ in found]
        for probed in found:
            if probed.fit is not None:
                # Places further apart than the grid of the fit, so that a step can lie between any two of them.
                reach = max(1.2 * probed.fit.width, 0.25 * (probed.window[1] - probed.window[0]))
                probed.places = probed.fit.centre + reach * np.linspace(-1, 1, LADDER)
                probed.places = probed.places.clip(0, 1)
        for number in range(most):
            for row, probed in enumerate(found):
                if (number + 1) * rounds[row] // most == number * rounds[row] // most:
                    continue  # an image with fewer rounds has them at even times
                places = probed.places if probed.fit is not None else np.zeros(LADDER)
                numbers = self._ask_places(row, probed, np.concatenate((places, (0.0, 0.0, 1.0))), "rounds")
                if len(numbers) == ROUND:
                    ladders[row].append(numbers[:LADDER])
                    ends[row].append(numbers[LADDER:])
        for row, probed in enumerate(found):
            if probed.first:
                places = np.concatenate([look[:, 0] for look in probed.first])[:AGAIN]
                probed.again = self._ask_places(row, probed, places, "again")
        for probed, ladder, end in zip(found, ladders, ends, strict=True):
            if ladder:
                probed.ladder, probed.ends = np.stack(ladder), np.stack(end)
                probed.repeats += [probed.ladder.T, probed.ends.T]
            if probed.fit is not None:
                probed.fit = probed.answers.fit(probed.window)


def _reference(answers: Tensor, label: int) -> int:
    """The class at an image: its label, unless another class is clearly more frequent."""
    valid = answers[answers != REJECTED]
    if not len(valid):
        return label
    common = int(torch.mode(valid).values)
    rival, truth = int((valid == common).sum()), int((valid == label).sum())
    beaten = rival > truth and lower_limit(rival, rival + truth, 0.005) > 0.5
    return common if beaten else label


def _valid(answers: Tensor, reference: int) -> np.ndarray:
    """Whether each answer that was given is adversarial."""
    return (answers[answers != REJECTED] != reference).numpy()


def _as_numbers(answers: Tensor, reference: int) -> np.ndarray:
    """1 where an answer is adversarial, 0 where not, nan where there is none."""
    numbers = (answers != reference).to(torch.float64).numpy()
    numbers[(answers == REJECTED).numpy()] = np.nan
    return numbers
