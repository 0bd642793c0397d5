"""Two-sided robustness: a certified radius from label counts, beside the distance that an attack found.

Where answers are those of a classifier under Gaussian noise of known sigma, the label counts at an image alone prove a
radius within which the most frequent label stays the same (Cohen, Rosenfeld and Kolter, ICML 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump import Hooks, Pool, Report, evaluate
from popskipjump.errors import AssumptionError, InputError
from popskipjump.evaluation.inputs import Array, AttackConfig, images_of, labels_of, oracle_of, starts_of
from popskipjump.noise import Smoothing
from popskipjump.oracles import Ledger
from popskipjump.oracles.base import is_whole
from popskipjump.questions.answer import Chart, Line, Marks, Page, Table
from popskipjump.questions.intervals import NORMAL, checked_confidence, lower_limit, proportion, upper_limit
from popskipjump.questions.probe.asking import Asker
from popskipjump.types import Bounds

ABSTAINED = -1  # in place of a class
_OUTWARD = (1.0, 1.05, 1.15, 1.35)  # multiples of the attack's distance at which its point is verified
_SLOPE_REACH = 1.0  # the slope is tested so many sigma before and behind the border that the attack found


@dataclass(frozen=True, eq=False)
class Certificates:
    """Certified radii and found distances of B images, all in L2."""

    sigma: float
    confidence: float  # that every statement below on a radius is true, for all images together
    samples: int  # label counts behind each radius
    labels: np.ndarray  # (B,) int64
    prediction: np.ndarray  # (B,) int64, the most frequent label; -1 where too few answers agree: abstained
    share_low: np.ndarray  # (B,) lower confidence limit of its probability
    radius: np.ndarray  # (B,) within it the most frequent label is `prediction`; 0 where abstained
    found: np.ndarray  # (B,) distance of a point that is adversarial by majority, verified; inf without one
    queries: np.ndarray  # (B,) int64
    crossed: list[int]  # rows with a verified adversarial point within the radius: a bug, or a broken assumption
    declared: bool  # whether the classifier is said to add the noise itself
    tested: bool  # whether sigma was held against answers around the borders that the attack found
    digests: tuple[str, ...]  # of the B images

    name = "certify"

    @property
    def correct(self) -> np.ndarray:
        """Whether the prediction is the label: bool `(B,)`."""
        return np.asarray(self.prediction == self.labels)

    def certified_accuracy(self, radii: np.ndarray) -> np.ndarray:
        """Share of images that are classified rightly and certified at least so far: `(R,)` -> `(R,)`."""
        return np.asarray(((self.radius >= radii[:, None]) & self.correct & (self.radius > 0)).mean(axis=1))

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        from popskipjump.questions.answer import in_words

        return in_words(self.page())


def certified_radius(counts: Array | int, samples: int, sigma: float, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Radius from the count of the predicted label, wrong with probability `alpha` at most: sigma Phi^-1(p_low).

    Args:
        counts: `(B,)` how many of the answers were the predicted label; it must have been chosen from other answers.
        samples: how many answers there were.
        sigma: standard deviation of the Gaussian noise on every input value.
        alpha: probability of a wrong radius.

    Returns:
        `(B,)` radii, 0 where the lower limit is 1/2 or less (abstain); `(B,)` the lower limits.
    """
    hits = np.atleast_1d(np.asarray(counts, dtype=np.int64))
    if len(hits) and (hits.min() < 0 or hits.max() > samples):
        raise InputError(f"counts must lie between 0 and the {samples} answers.")
    low = np.array([lower_limit(int(hit), samples, alpha) for hit in hits])
    return np.array([sigma * NORMAL.inv_cdf(share) if share > 0.5 else 0.0 for share in low]), low


def certify(
    model: Any, images: Array, labels: Array | Sequence[int], sigma: float, *,
    declared: bool = False, samples: int = 1000, selection: int = 100, confidence: float = 0.999,
    attack: str | AttackConfig | None = "qsj", budget: int = 1000, starts: Array | Pool | None = None,
    bounds: tuple[float, float] = (0.0, 1.0), seed: int = 0, on_queries: Callable[[int], None] | None = None,
) -> Certificates:  # fmt: skip
    """Bound the L2 robustness of each image from both sides: certified below, found by an attack above.

    Args:
        model: see `evaluate`; Gaussian noise is put on its inputs here, unless `declared`.
        images: `(B, *S)`, NumPy or torch, within the bounds.
        labels: `(B,)` true classes, from 0.
        sigma: standard deviation of the noise on every input value, before any clipping.
        declared: the classifier adds this noise itself, anew for every query; a sigma that its answers contradict is
            refused. Only a sigma that is too large is dangerous, and only such a one can be contradicted.
        samples: answers behind each radius; the largest radius that n answers can prove grows with n.
        selection: answers that choose the class to certify.
        confidence: that all radii hold together; each gets an equal share of the error (Bonferroni).
        attack: what looks for the nearest adversarial point; None for no attack.
        budget: queries of the attack for each image.
        starts: see `evaluate`.
        bounds: smallest and largest value of an input coordinate.
        seed: of all randomness.
        on_queries: called with the number of queries after every call to the classifier.

    Raises:
        InputError: something was passed that cannot be used; nothing has been asked.
        AssumptionError: the answers contradict the declared sigma.
    """
    box = Bounds.of(bounds)
    batch = images_of(images, box)
    truth = labels_of(labels, len(batch))
    starts_of(starts, batch, box)
    _check_numbers(sigma, samples, selection, budget)
    alpha = (1 - checked_confidence(confidence)) / len(batch)
    noise = None if declared else Smoothing(float(sigma))
    oracle, _ = oracle_of(model, noise, seed + 1, tuple(batch.shape[1:]))
    asker = Asker(oracle, Ledger(len(batch)), box, torch.arange(len(batch)), on_queries)

    prediction, radius, low = _radii(asker, batch, selection, samples, float(sigma), alpha / 2)
    found = np.full(len(batch), np.inf)
    crossed: list[int] = []
    asked = asker.ledger.total.numpy()
    tested = False
    if attack is not None:
        report = evaluate(
            model, batch, truth, attack, noise, starts=starts, budget=budget, bounds=bounds, seed=seed,
            keep_trace=False, hooks=Hooks(on_queries=on_queries),
        )  # fmt: skip
        found = _verified(asker, report, samples, alpha / 6)
        crossed = _crossings(report, prediction, radius, found)
        if declared:
            tested = _check_slope(asker, report, float(sigma), samples, alpha / 6)
        asked = asked + report.queries
    predicted = np.where(radius > 0, prediction, ABSTAINED)
    return Certificates(
        float(sigma), confidence, samples, truth.numpy(), predicted, low, radius, found, asked, crossed, declared,
        tested, digests_of(batch.numpy()),
    )  # fmt: skip


def _radii(
    asker: Asker, batch: Tensor, selection: int, samples: int, sigma: float, error: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class, certified radius, and lower bound of the class's probability: `(B,)` each.

    Half of the error is for the radii, and the other half for the tests that may refuse the result.
    """
    rows = torch.arange(len(batch))
    chosen = asker.counts(batch, rows, selection, "selection")
    asker.check_alive(chosen)
    prediction = torch.mode(chosen, dim=1).values
    hits = (asker.counts(batch, rows, samples, "estimation") == prediction.unsqueeze(1)).sum(dim=1)
    radius, low = certified_radius(hits.numpy(), samples, sigma, error)
    return prediction.numpy(), radius, low


def _check_numbers(sigma: float, samples: int, selection: int, budget: int) -> None:
    if isinstance(sigma, bool) or not isinstance(sigma, int | float) or not (0 < sigma < math.inf):
        raise InputError(f"sigma must be a positive number, the standard deviation of the noise, not {sigma!r}.")
    for name, value in (("samples", samples), ("selection", selection), ("budget", budget)):
        if not is_whole(value) or value < 1:
            raise InputError(f"{name} must be a whole number of queries of at least 1, not {value!r}.")


def _verified(asker: Asker, report: Report, times: int, alpha: float) -> np.ndarray:
    """Distances of points that are adversarial for most answers, by fresh ones: `(B,)`, inf without one.

    A point that an attack returns lies close behind the border, where few answers cannot tell: then the ray is followed
    a little further.
    """
    found = np.full(len(report.status), np.inf)
    for row, status in enumerate(report.status):
        original, point = (torch.from_numpy(values[row]) for values in (report.images, report.points))
        for factor in _OUTWARD if status.has_point else ():
            there = (original + factor * (point - original)).clamp(asker.bounds.low, asker.bounds.high)
            answers = asker.counts(there.unsqueeze(0), torch.tensor([row]), times, "verification")
            wrong = int((answers != int(report.labels[row])).sum())
            if lower_limit(wrong, times, alpha / len(_OUTWARD)) > 0.5:
                found[row] = float((there - original).norm())
                break
    return found


def _crossings(report: Report, prediction: np.ndarray, radius: np.ndarray, found: np.ndarray) -> list[int]:
    """Rows where a point within the certified radius is adversarial by majority; only for the true class."""
    inside = (prediction == report.labels) & (found < radius)
    return [int(row) for row in np.flatnonzero(inside)]


def _check_slope(asker: Asker, report: Report, sigma: float, times: int, alpha: float) -> bool:
    """Refuse a sigma that is too large: Phi^-1(p) changes by no more than distance / sigma between two points.

    Returns whether there was a border at which it could be tested.
    """
    tested = False
    for row, status in enumerate(report.status):
        size = float(report.distances[row])
        if not status.has_point or not 0 < size < math.inf:
            continue
        original, point = (torch.from_numpy(values[row]) for values in (report.images, report.points))
        places = [max(size - _SLOPE_REACH * sigma, 0.0) / size, (size + _SLOPE_REACH * sigma) / size]
        pair = torch.stack([original + place * (point - original) for place in places])
        pair = pair.clamp(asker.bounds.low, asker.bounds.high)
        gap = float((pair[1] - pair[0]).norm())
        answers = asker.counts(pair, torch.tensor([row, row]), times, "assumption")
        before, behind = ((answers != int(report.labels[row])).sum(dim=1)).tolist()
        rise = _probit(lower_limit(behind, times, alpha)) - _probit(upper_limit(before, times, alpha))
        if rise > gap / sigma:
            raise AssumptionError(
                f"the answers contradict sigma = {sigma:g}: for image {row} the share of adversarial answers rises "
                f"from {before / times:.2f} to {behind / times:.2f} within {gap:.3g}, which Gaussian noise of this "
                f"sigma cannot do. The noise is smaller, of another kind, or not there: pass sigma <= "
                f"{gap / rise:.3g} if it is Gaussian, or leave `declared` out to let the noise be added here."
            )
        tested = True
    return tested


def digests_of(images: np.ndarray) -> tuple[str, ...]:
    """What tells images apart: `(B, *S)` -> B hexadecimal digests of their float32 values."""
    rows = (np.ascontiguousarray(image, dtype=np.float32).tobytes() for image in images)
    return tuple(blake2b(row, digest_size=8).hexdigest() for row in rows)


def _probit(share: float) -> float:
    return NORMAL.inv_cdf(min(max(share, 1e-12), 1 - 1e-12))


def _page(answer: Certificates) -> Page:
    right = answer.correct & (answer.radius > 0)
    count, abstained = len(answer.labels), int((answer.prediction == ABSTAINED).sum())
    radius = float(np.median(np.where(right, answer.radius, 0.0)))
    bound = "∞" if math.isinf(np.median(answer.found)) else f"{np.median(answer.found):.3g}"
    headline = (
        f"Median robustness between {radius:.3g} (certified, {100 * answer.confidence:g}% for all {count} images "
        f"together) and {bound} (found by an attack), L2."
    )
    words = [
        f"{int(right.sum())} of {count} images are classified rightly and certified; for {abstained} too few answers "
        f"agree to prove anything (abstained). Noise: Gaussian, sigma {answer.sigma:g}, "
        + _origin_of_noise(answer.declared, answer.tested)
    ]
    if answer.crossed:
        words.insert(
            0,
            f"BROKEN: for {len(answer.crossed)} images (rows {answer.crossed[:8]}) a verified adversarial point lies "
            "within the certified radius. Both cannot be true: the noise is not Gaussian with this sigma, the answers "
            "are not independent, or this is a bug of popskipjump. Do not use these numbers.",
        )
    finite = answer.found[np.isfinite(answer.found)]
    reach = float(max(answer.radius.max(), finite.max() if len(finite) else 0.0, 1e-9))
    grid = np.linspace(0, reach, 201)
    return Page(
        title="Robustness between two bounds",
        headline=headline,
        good=False if answer.crossed else None,
        words=tuple(words),
        charts=(_accuracies(answer, grid), _bounds_of(answer, right, reach)),
        tables=(_rows(answer, right),),
        limits=(
            "The certificate speaks of the classifier under noise (its most frequent answer), not of single answers.",
            "Of other norms than L2, and of inputs that the noise does not reach, nothing is said.",
            "The attack's distance is an upper bound: nearer adversarial points may exist.",
        ),
    )


def _origin_of_noise(declared: bool, tested: bool) -> str:
    if not declared:
        return "added here."
    return "declared by the user " + (
        "and not contradicted by the answers."
        if tested
        else "and NOT tested: no border was found at which it could be."
    )


def _accuracies(answer: Certificates, grid: np.ndarray) -> Chart:
    count = len(answer.labels)
    right = answer.correct & (answer.radius > 0)
    shown = (
        ("certified accuracy against radius", (answer.radius >= grid[:, None]) & right),
        ("adversarial accuracy against eta", (answer.found > grid[:, None]) & right),
    )
    lines = []
    for name, held in shown:
        hits = held.sum(axis=1)
        limits = {int(hit): proportion(int(hit), count) for hit in set(hits.tolist())}
        bands = ([limits[int(hit)].low for hit in hits], [limits[int(hit)].high for hit in hits])
        lines.append(Line(name, grid, hits / count, np.array(bands[0]), np.array(bands[1]), steps=True))
    return Chart("Accuracy between its bounds (bands: 95% at each place)", "L2 radius or eta", "accuracy", tuple(lines))


def _bounds_of(answer: Certificates, right: np.ndarray, reach: float) -> Chart:
    radius = np.where(right, answer.radius, 0.0)
    order = np.argsort(np.where(np.isfinite(answer.found), answer.found, reach * 2))[:60]
    high = np.where(np.isfinite(answer.found), answer.found, reach)[order]
    marks = Marks("from certified to found (dot)", answer.found[order], radius[order], np.maximum(high, radius[order]))
    return Chart("Each image", "L2 distance", "images, at most 60", marks=(marks,))


def _rows(answer: Certificates, right: np.ndarray) -> Table:
    rows = []
    for row in range(min(len(right), 200)):
        predicted = "abstained" if answer.prediction[row] == ABSTAINED else str(answer.prediction[row])
        found = "none verified" if math.isinf(answer.found[row]) else f"{answer.found[row]:.3g}"
        cells = (row, answer.labels[row], predicted, f"{answer.share_low[row]:.3f}", f"{answer.radius[row]:.3g}", found)
        rows.append((*map(str, cells), f"{answer.queries[row]:,}"))
    head = ("image", "label", "prediction", "P(prediction) at least", "certified radius", "found", "queries")
    return Table("Images", head, tuple(rows))
