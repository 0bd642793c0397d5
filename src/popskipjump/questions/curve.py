"""`curve_of`: robust accuracy against eta, with simultaneous confidence bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from popskipjump.errors import InputError
from popskipjump.metrics import adversarial_accuracy
from popskipjump.questions.answer import Chart, Line, Page, Table, in_words
from popskipjump.questions.intervals import Interval, checked_confidence, median_interval
from popskipjump.rng import Key, normal
from popskipjump.types import Status

_RESAMPLES = 1000
_JUMP = 0.4  # of 1/n; chosen by simulation, see `python benchmarks/questions.py bands`
_PLACES = 400
NOT_MEASURED = (
    Status.ORACLE_FAILED,
    Status.BUDGET_TOO_SMALL,
    Status.BAD_LABEL,
    Status.BAD_START,
    Status.NO_SIGNAL,
    Status.INTERRUPTED,
    Status.RUNNING,
)  # of such images nothing is known


@dataclass(frozen=True, eq=False)
class RobustAccuracy:
    """Robust accuracy against the size of an attack, for images like the B that were measured."""

    etas: np.ndarray  # (E,)
    accuracy: np.ndarray  # (E,)
    low: np.ndarray  # (E,) the true curve lies within the band everywhere with the stated confidence
    high: np.ndarray  # (E,)
    confidence: float
    images: int
    median: Interval  # distance; may be infinite
    asked: tuple[float, ...]  # the eta that were asked for
    at: tuple[Interval, ...]  # robust accuracy at each of these, from the same band
    norm: str
    title: str

    name = "curve"

    @property
    def success(self) -> tuple[Interval, ...]:
        """Share of images whose answer an attack of each size asked for turns, errors without an attack included."""
        return tuple(Interval(1 - i.value, 1 - i.high, 1 - i.low) for i in self.at)

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        return in_words(self.page())


def robust_accuracy(
    distances: ArrayLike,
    *,
    p_true_clean: ArrayLike | None = None,
    p_true_adversarial: ArrayLike | None = None,
    eta: Sequence[float] = (),
    confidence: float = 0.95,
    norm: str = "l2",
    title: str = "",
    seed: int = 0,
) -> RobustAccuracy:
    """Robust accuracy against eta, with a band that holds the whole curve at once.

    The band is the curve plus and minus a width: a quantile of the largest difference between the curve and its
    multiplier bootstrap, in which every image gets a Gaussian weight. Distances and probabilities of an image carry the
    randomness of its answers, so the band covers both the choice of images and the noise.

    Args:
        distances: `(B,)` of the adversarial points; inf without one, 0 if misclassified.
        p_true_clean: `(B,)` share of right answers at the images; None is 1.
        p_true_adversarial: `(B,)` the same at the adversarial points; None is 0.
        eta: sizes to report on.
        confidence: of the band and of the median.
        norm: of the distances, for the page.
        title: what was attacked, for the page.
        seed: of the bootstrap.
    """
    far = np.asarray(distances, dtype=np.float64)
    asked = tuple(_eta(value) for value in eta)
    level = checked_confidence(confidence)
    if far.ndim != 1 or len(far) < 2:
        raise InputError(f"a curve needs the distances of at least 2 images, not shape {far.shape}.")
    clean = np.ones(len(far)) if p_true_clean is None else np.asarray(p_true_clean, dtype=np.float64)
    fooled = np.zeros(len(far)) if p_true_adversarial is None else np.asarray(p_true_adversarial, dtype=np.float64)
    # The curve changes at distances alone: these places hold all of it.
    finite = np.unique(far[np.isfinite(far)])
    if len(finite) > _PLACES:
        finite = np.quantile(finite, np.linspace(0, 1, _PLACES))
    last = float(finite.max()) if len(finite) else 1.0
    etas = np.unique(np.concatenate(([0.0], finite, [1.05 * last or 1.0], asked)))
    tensors = [torch.from_numpy(v) for v in (far, etas, clean, fooled)]
    accuracy = adversarial_accuracy(*tensors).numpy()
    each = np.where(far > etas[:, None], clean, np.minimum(clean, fooled))  # (E, B)
    width = _width(each, accuracy, level, Key(seed).child("curve"))
    low, high = (accuracy - width).clip(0, 1), (accuracy + width).clip(0, 1)
    places = [int(np.searchsorted(etas, value)) for value in asked]
    at = tuple(Interval(float(accuracy[p]), float(low[p]), float(high[p])) for p in places)
    return RobustAccuracy(
        etas, accuracy, low, high, level, len(far), median_interval(far, level), asked, at, norm, title
    )


def _eta(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"eta must be a size of at least 0, not {value!r}.")
    return float(value)


def _width(each: np.ndarray, accuracy: np.ndarray, confidence: float, key: Key) -> float:
    """Half of the band's height: a quantile of the largest difference under Gaussian multipliers of the images."""
    count = each.shape[1]
    weight = normal(key.roots(torch.arange(_RESAMPLES)), count).numpy() / count  # (R, B)
    largest = np.abs(weight @ (each - accuracy[:, None]).T).max(axis=1)
    # The curve jumps by 1/n, and the true one may leave the band within a jump.
    jump = _JUMP / count if float(largest.max()) > 0 else 0.0
    return float(np.quantile(largest, confidence)) + jump


def curve_of(source: Any, eta: Sequence[float] = (), confidence: float = 0.95) -> RobustAccuracy:
    """The curve of a `Report` or of a kept run (`RunData`): robust accuracy from distances and verdicts.

    Images that could not be measured, for example as the classifier failed on them, are left out, and the title says
    how many.
    """
    verdict = getattr(source, "verdict", None)
    if verdict is not None:
        share = np.asarray(verdict.probability, dtype=np.float64)
    else:
        share = np.asarray(getattr(source, "verdict_probability", np.full(len(source.distances), np.nan)))
    known = np.array([status not in NOT_MEASURED for status in source.status])
    lost = int((~known).sum())
    if known.sum() < 2:
        raise InputError(f"{lost} of {len(known)} images could not be measured: a curve needs at least 2 that were.")
    spec = getattr(source, "spec", None)
    norm = source.norm.name if spec is None else spec.norm
    return robust_accuracy(
        source.distances[known],
        p_true_adversarial=np.where(np.isnan(share), 0.0, 1 - share)[known],
        eta=eta,
        confidence=confidence,
        norm=norm,
        title=(source.title if spec is None else spec.words) + (f"; left out: {lost} not measured" if lost else ""),
    )


def _page(answer: RobustAccuracy) -> Page:
    percent = f"{100 * answer.confidence:g}%"
    rows = tuple(
        (f"{eta:g}", str(at), str(success))
        for eta, at, success in zip(answer.asked, answer.at, answer.success, strict=True)
    )
    tables = (
        (Table("At the sizes asked for", ("eta", "robust accuracy", "success of the attack"), rows),) if rows else ()
    )
    words = [f"{answer.images} images; {answer.title}".rstrip("; ") + "."]
    words += [f"At eta {row[0]}: robust accuracy {row[1]}, success {row[2]}." for row in rows]
    return Page(
        title="Robust accuracy",
        headline=f"Median {answer.norm} distance {answer.median} ({percent} confidence).",
        good=None,
        words=tuple(words),
        charts=(
            Chart(
                f"Robust accuracy, with a band that holds the whole curve with {percent} confidence",
                f"eta ({answer.norm})", "robust accuracy",
                (Line("measured", answer.etas, answer.accuracy, answer.low, answer.high, steps=True),),
            ),
        ),
        tables=tables,
        limits=(
            "Distances are upper bounds by one attack: the true curve of robustness lies at or below this one.",
            "The band speaks of images like these, drawn independently.",
        ),
    )  # fmt: skip
