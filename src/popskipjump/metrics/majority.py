"""Distance to the boundary of the majority classifier, where the most frequent answer of a noisy classifier changes.

The majority classifier returns the most frequent of infinitely many answers; the paper calls it the canonical
counterpart of a noisy classifier (remark on adversarial accuracy). Under noise such as cropping, its boundary differs
from the boundary of the base network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.geometry import Norm, clip, norm_of, per_row
from popskipjump.metrics.distance import border_distance
from popskipjump.noise import noise_of, truth_of
from popskipjump.noise.checks import class_count
from popskipjump.noise.truth import DRAWS, frequencies
from popskipjump.oracles.base import device_of
from popskipjump.oracles.classifier import BaseModel, NoiseModel
from popskipjump.rng import Key
from popskipjump.types import Bounds

FIRST_LOOK = 32  # answers before the first test at a position; the number doubles before each further test
NEAR = 2.0  # in units of the point's distance: positions are evenly spaced up to here, geometrically beyond
FAR = 1e4
KEY = Key(0, ("majority",))


class MajorityBorder(NamedTuple):
    """Distances to the majority classifier's boundary on B rays, with confidence intervals."""

    distance: Tensor  # (B,) inf where there is no boundary, 0 where the original's most frequent answer is adversarial
    low: Tensor  # (B,) up to this distance the most frequent answer is not adversarial, with confidence
    high: Tensor  # (B,) at this distance it is adversarial, with confidence; low = distance = high if `exact`
    exact: bool  # whether the class probabilities are exact
    confidence: float  # of each interval; 1 if `exact`


class MajorityClassifier:
    """A noiseless classifier that returns the most frequent answer of a noisy one.

    If the class probabilities are exact (flips, logit sampling, ensembles, crops, ...), this model can be attacked and
    measured like any other. If they are estimated, its labels are estimates too, and repeated calls return the same.

    Args:
        model: the classifier below the noise.
        noise: a noise model or its text form.
        draws: number of sampled answers per label, used if the probabilities are estimated.
    """

    def __init__(self, model: BaseModel, noise: str | NoiseModel | None, draws: int = DRAWS) -> None:
        self.model, self.noise, self.draws = model, noise_of(noise), draws
        self.device, self.classes = model.device, model.classes

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        shares = truth_of(self.noise, self.model, points, self.draws).probabilities
        self.classes = shares.shape[1]
        return shares.argmax(dim=1)

    def log_probs(self, points: Tensor) -> Tensor:
        """Logarithms of the noisy classifier's class probabilities: `(M, *S)` -> `(M, K)`."""
        return truth_of(self.noise, self.model, points, self.draws).probabilities.log()

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """Not available: the majority classifier has no gradient."""
        raise InputError("the majority of noisy answers has no gradient: attack it by its labels.")


@torch.no_grad()
def majority_border(
    model: BaseModel,
    noise: str | NoiseModel | None,
    original: Tensor,
    points: Tensor,
    labels: Tensor,
    norm: str | Norm = "l2",
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    targets: Tensor | None = None,
    image_ids: Tensor | None = None,
    steps: int = 32,
    bisections: int = 8,
    draws: int = 2048,
    confidence: float = 0.99,
    key: Key = KEY,
) -> MajorityBorder:
    """Distance from each original to the first change of the most frequent answer on the ray through its point.

    The distance follows from exact class probabilities if the noise model has them, else from a sequential test. At
    each position the test draws `FIRST_LOOK` answers and then doubles their number, until the most frequent answer is
    significant (Hoeffding's inequality, with the error split over all looks, positions and classes of a ray) or
    `draws` are spent. Everything up to `low` is significantly not adversarial, `high` is the first position that is
    significantly adversarial, and the distance is halfway between. These queries are not counted: for evaluation only.

    Args:
        model: the classifier below the noise.
        noise: a noise model or its text form; None means no noise.
        original: `(B, *S)` x_*.
        points: `(B, *S)` returned by the attack; on either side of the boundary.
        labels: `(B,)` true classes.
        norm: "l2" or "linf", or a norm.
        bounds: positions outside are clipped to the bounds, and their distance is measured after clipping.
        targets: `(B,)` the classes that count as adversarial; None counts every class but the true one.
        image_ids: `(B,)` int64 ids that select the random streams of the drawn answers; None uses the row numbers.
        steps: number of positions, evenly spaced up to twice the point's distance; if none is adversarial, as many
            again beyond.
        bisections: number of halvings of the first interval with a change.
        draws: largest number of answers at one position, used if the probabilities are not exact.
        confidence: of each ray's interval.
        key: random stream of the drawn answers.
    """
    noise = noise_of(noise)
    original, points, labels = original.cpu(), points.cpu(), labels.cpu()
    _check(original, points, labels, steps, bisections, draws, confidence)
    if not len(original) or truth_of(noise, model, original[:1].to(device_of(model)), 1).exact:
        majority = MajorityClassifier(model, noise)
        distance = border_distance(
            majority, original, points, labels, norm, bounds=bounds, targets=targets, steps=steps, bisections=bisections
        )
        return MajorityBorder(distance, distance, distance, exact=True, confidence=1.0)
    chosen = labels if targets is None else targets.cpu()
    image = torch.arange(len(original)) if image_ids is None else image_ids.cpu()
    classes = class_count(model, original[:1].to(device_of(model)))
    threshold = _threshold(steps, bisections, draws, classes, confidence)
    answers = _Answers(model, noise, classes, draws, threshold, key)  # type: ignore[arg-type]  # no noise is exact
    rays = _Rays.of(answers, original, points, chosen, targets is not None, image, Bounds.of(bounds))
    low, high = _bracket(rays, steps, bisections)
    low_size, size, high_size = (rays.size(norm_of(norm), place) for place in (low, (low + high) / 2, high))
    return MajorityBorder(size, low_size, high_size, exact=False, confidence=confidence)


def _check(
    original: Tensor, points: Tensor, labels: Tensor, steps: int, bisections: int, draws: int, confidence: float
) -> None:
    if not (steps >= 1 and bisections >= 0 and draws >= FIRST_LOOK and 0 < confidence < 1):
        raise InputError(
            f"steps must be at least 1, bisections at least 0, draws at least {FIRST_LOOK} and confidence in (0, 1), "
            f"not {steps}, {bisections}, {draws} and {confidence}."
        )
    if points.shape != original.shape or labels.shape != original.shape[:1]:
        raise InputError(
            f"originals, points and labels must be of the same images, not of shapes {tuple(original.shape)}, "
            f"{tuple(points.shape)} and {tuple(labels.shape)}."
        )


def _threshold(steps: int, bisections: int, draws: int, classes: int, confidence: float) -> float:
    """Significance threshold in standard deviations of a fair coin, corrected for all tests on one ray."""
    looks = math.ceil(math.log2(draws / FIRST_LOOK)) + 1
    tests = (2 * steps + 1 + 2 * bisections) * looks * max(classes - 1, 1)
    return math.sqrt(2 * math.log(2 * tests / (1 - confidence)))


class _Answers(NamedTuple):
    """Sampler of noisy answers, with the significance threshold of their majority."""

    model: BaseModel
    noise: NoiseModel
    classes: int
    draws: int  # largest number of answers at one position
    threshold: float
    key: Key

    def counts(self, inputs: Tensor, image: Tensor, first: int, count: int) -> Tensor:
        """Count of each class among `count` answers to each input: `(R, *S)`, `(R,)` -> `(R, K)`."""

        def answer(points: Tensor, row: Tensor, draw: Tensor) -> Tensor:
            # Common random numbers at all positions of a ray, so that the counts vary little between positions.
            roots = self.key.roots(image[row.cpu()], draw.cpu() + first).to(points.device)
            return self.noise.sample(self.model, points, roots)

        shares = frequencies(answer, inputs.to(device_of(self.model)), count, self.classes)
        return (shares * count).round().cpu()


@dataclass(frozen=True)
class _Rays:
    """Rays from originals through points, with tests of the most frequent answer along them."""

    answers: _Answers
    original: Tensor  # (B, d)
    points: Tensor  # (B, d)
    shape: tuple[int, ...]  # of one input
    chosen: Tensor  # (B,) the class whose majority is tested: the true class, or the target
    targeted: bool
    image: Tensor  # (B,) int64
    bounds: Bounds

    @classmethod
    def of(
        cls,
        answers: _Answers,
        original: Tensor,
        points: Tensor,
        chosen: Tensor,
        targeted: bool,
        image: Tensor,
        bounds: Bounds,
    ) -> _Rays:
        """Rays from originals and points `(B, *S)`; a point that is not finite is replaced by its original."""
        start, end = original.flatten(1), points.flatten(1)
        end = torch.where(per_row(end.isfinite().all(dim=1)), end, start)
        return cls(answers, start, end, tuple(original.shape[1:]), chosen, targeted, image, bounds)

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Points on rays at given positions (0: the original, 1: the point): `(R,)`, `(R,)` -> `(R, d)`."""
        return clip(torch.lerp(self.original[rows], self.points[rows], per_row(position)), self.bounds)

    def size(self, norm: Norm, position: Tensor) -> Tensor:
        """Distance of one position on every ray, `inf` for an infinite position: `(B,)` -> `(B,)`."""
        rows = torch.arange(len(position))
        known = torch.where(position.isfinite(), position, 0.0).to(self.original.dtype)
        return torch.where(position.isfinite(), norm.size(self.at(rows, known) - self.original), torch.inf)

    def sides(self, rows: Tensor, position: Tensor) -> Tensor:
        """Test of the most frequent answer: adversarial (1), not adversarial (-1), or not significant (0): `(R,)`."""
        answers, chosen = self.answers, self.chosen[rows].unsqueeze(1)
        inputs = self.at(rows, position).reshape(-1, *self.shape)
        sides = torch.zeros(len(rows), dtype=torch.int8)
        counts = torch.zeros(len(rows), answers.classes)
        left, asked = torch.arange(len(rows)), 0
        while len(left) and asked < answers.draws:
            more = min(max(asked, FIRST_LOOK), answers.draws - asked)
            counts[left] += answers.counts(inputs[left], self.image[rows[left]], asked, more)
            asked += more
            own = counts[left].gather(1, chosen[left]).squeeze(1)
            rival = counts[left].scatter(1, chosen[left], 0.0).amax(dim=1)
            lead = (own - rival) / (own + rival).clamp(min=1).sqrt()
            sure = lead.abs() >= answers.threshold
            sides[left[sure]] = (lead[sure].sign() * (1 if self.targeted else -1)).to(torch.int8)
            left = left[~sure]
        return sides


def _bracket(rays: _Rays, steps: int, bisections: int) -> tuple[Tensor, Tensor]:
    """The last position before any insignificant test, and the first adversarial position: `(B,)`, `(B,)`."""
    everyone = torch.arange(len(rays.original))
    near = torch.arange(steps + 1, dtype=torch.float64) * (NEAR / steps)
    far = torch.logspace(math.log10(NEAR), math.log10(FAR), steps + 1, dtype=torch.float64)[1:]
    low, cell, high = _first_cells(rays, everyone, near, torch.zeros(len(everyone), dtype=torch.bool))
    lost = everyone[high.isinf()]
    if len(lost):
        doubt = cell[lost].isfinite()  # an earlier position was not significant
        found = _first_cells(rays, lost, torch.cat((near[-1:], far)), doubt)
        low[lost] = torch.where(doubt, low[lost], found[0])
        cell[lost] = torch.where(doubt, cell[lost], found[1])
        high[lost] = found[2]
    return _narrowed(rays, low, cell, high, torch.cat((near, far)), bisections)


def _first_cells(rays: _Rays, rows: Tensor, places: Tensor, doubt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Interval ends among increasing positions `(P,)`, each `(R,)`, `inf` if there is none.

    They are: the last position before the first one that is not significantly benign; that first one; and the first
    adversarial position. `doubt` `(R,)` is true if a position before all of these was not significant.
    """
    asked = rays.sides(rows.repeat_interleave(len(places)), places.repeat(len(rows)).to(rays.original.dtype))
    sides = asked.reshape(len(rows), len(places))

    def first(hit: Tensor) -> Tensor:
        return torch.where(hit.any(dim=1), hit.to(torch.int8).argmax(dim=1), len(places))

    unsure, adversarial = first(sides >= 0), first(sides == 1)
    ends = torch.cat((places, places.new_full((1,), torch.inf)))
    low = torch.where(doubt | (unsure == 0), places[0], places[(unsure - 1).clamp(min=0)])
    return low, ends[unsure], ends[adversarial]


def _narrowed(
    rays: _Rays, low: Tensor, cell: Tensor, high: Tensor, places: Tensor, bisections: int
) -> tuple[Tensor, Tensor]:
    """Both ends of each ray's interval, each refined by bisection."""
    if not bisections:
        return low, high
    before = torch.where(high.isfinite(), places[(torch.bucketize(high, places) - 1).clamp(min=0)], high)
    finest = torch.where(high.isfinite(), (high - before) / 2**bisections, 0.0)
    for _ in range(bisections):  # refine the nearest adversarial position
        rows = torch.nonzero(high.isfinite() & (high > 0)).squeeze(1)
        middle = (torch.maximum(before, low) + high)[rows] / 2
        sides = rays.sides(rows, middle.to(rays.original.dtype))
        before[rows], high[rows] = (
            torch.where(sides == 1, before[rows], middle),
            torch.where(sides == 1, middle, high[rows]),
        )
        ahead = (sides == -1) & (middle <= cell[rows])
        low[rows] = torch.where(ahead, torch.maximum(low[rows], middle), low[rows])
        cell[rows] = torch.where(sides >= 0, torch.minimum(cell[rows], middle), cell[rows])
    for _ in range(bisections):  # refine the last position before any insignificant test
        rows = torch.nonzero(cell.isfinite() & (cell - low > finest * 1.01) & (cell > 0)).squeeze(1)
        middle = (low + cell)[rows] / 2
        sides = rays.sides(rows, middle.to(rays.original.dtype))
        low[rows], cell[rows] = (
            torch.where(sides == -1, middle, low[rows]),
            torch.where(sides == -1, cell[rows], middle),
        )
    return torch.minimum(low, high), high
