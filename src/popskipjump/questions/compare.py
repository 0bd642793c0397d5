"""Is the defence real, or only noise? Two classifiers, the same images, paired ratios of border distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump import Hooks, Pool, Report, Status, evaluate
from popskipjump.errors import InputError
from popskipjump.evaluation.inputs import Array, AttackConfig, images_of, labels_of, oracle_of, starts_of
from popskipjump.noise import describe
from popskipjump.oracles import Ledger, NoiseModel
from popskipjump.oracles.base import is_whole
from popskipjump.questions.answer import Chart, Marks, Page, Table, in_words
from popskipjump.questions.check import check
from popskipjump.questions.intervals import NORMAL, Interval, bootstrap, checked_confidence
from popskipjump.questions.probe.asking import Asker
from popskipjump.questions.probe.rays import border_on_ray
from popskipjump.rng import Key
from popskipjump.types import Bounds

FEWEST = 6  # images, below which no interval is given
_MOST_SCALE = 10.0
_LOOKED_AT = 3  # images that `check` looks at to scale the budget
_NEARLY = 1.2  # queries are counted until the distance is within this factor of the last one
_MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean
VERDICTS = {
    "more robust": "the defended classifier is more robust",
    "less robust": "the defended classifier is less robust",
    "no extra robustness": "no extra robustness",
    "undecided": "undecided: more images are needed",
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """What B images say about two classifiers; nan where an image could not be measured on both."""

    verdict: str  # a key of `VERDICTS`
    border_moved: bool  # on the same rays the borders lie apart by more than half of the margin
    margin: float  # ratios within 1 / (1 + margin) and 1 + margin are taken for equal
    confidence: float
    ratio: Interval  # median of defended / base distances, each to the classifier's own (majority) border, on all rays
    moved: Interval  # median factor between the two borders on the same rays, at least 1
    multiplier: Interval  # of the queries needed, defended / base
    images_needed: int | None  # that would decide an undecided verdict; None if decided, or not to be told
    ratios: np.ndarray  # (B,)
    shifts: np.ndarray  # (B,) defended border / base border on the ray that the defended classifier's attack found
    base: np.ndarray  # (B,) distance to the base classifier's border
    defended: np.ndarray  # (B,) distance to the defended classifier's border
    queries: tuple[int, int]  # of all images: base, defended
    budgets: tuple[int, int]  # of each image
    titles: tuple[str, str]

    name = "compare"

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        return in_words(self.page())


def compare(
    base: Any,
    defended: Any,
    images: Array,
    labels: Array | Sequence[int],
    *,
    base_noise: str | NoiseModel | None = None,
    defended_noise: str | NoiseModel | None = None,
    attack: str | AttackConfig = "qsj",
    budget: int = 2000,
    scale: float | None = None,
    starts: Array | Pool | None = None,
    margin: float = 0.1,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
    on_queries: Callable[[int], None] | None = None,
) -> Comparison:
    """Compare the robustness of two classifiers on the same images with the same attack, in L2.

    Args:
        base: the classifier without the defence; see `evaluate`.
        defended: the other one; it may be `base` again, with `defended_noise` as the defence.
        images: `(B, *S)`, inputs of both.
        labels: `(B,)` true classes, from 0.
        base_noise: noise to put on the base classifier's answers.
        defended_noise: noise to put on the defended classifier's answers.
        attack: see `evaluate`.
        budget: queries of the attack for each image on the base classifier.
        scale: how many times that for the defended one; None lets `check` look at 3 images and choose, as noise that
            only makes an attack slower is no defence.
        starts: see `evaluate`; points that are adversarial for both, or a pool of images.
        margin: ratios within 1 / (1 + margin) and 1 + margin count as equal.
        confidence: of the intervals.
        bounds: smallest and largest value of an input coordinate.
        seed: of all randomness.
        on_queries: called with the number of queries after every call to a classifier.

    Raises:
        InputError: something was passed that cannot be used, such as two classifiers with inputs of different shapes.
    """
    box = Bounds.of(bounds)
    batch = images_of(images, box)
    truth = labels_of(labels, len(batch))
    starts_of(starts, batch, box)
    level = _checked(len(batch), budget, scale, margin, confidence)
    sides = ((base, base_noise, seed), (defended, defended_noise, seed + 1))
    askers = [
        _asker(side, batch, box, on_queries, name) for side, name in zip(sides, ("base", "defended"), strict=True)
    ]
    if scale is None:
        some = slice(0, _LOOKED_AT)
        seen = check(defended, batch[some], truth[some], noise=defended_noise, bounds=bounds, seed=seed)
        scale = min(max(seen.forecasts[0].multiplier.value, 1.0), _MOST_SCALE)
    budgets = (int(budget), math.ceil(budget * scale))
    reports = [
        evaluate(model, batch, truth, attack, noise, starts=starts, budget=most, bounds=bounds, seed=own, verdict=0,
                 keep_trace=False, hooks=Hooks(on_queries=on_queries))
        for (model, noise, own), most in zip(sides, budgets, strict=True)
    ]  # fmt: skip
    # Every distance is an upper bound: each classifier is measured on the rays of both attacks, and the nearer counts.
    rays = [
        [_borders(asker, report, other) for report, other in zip(reports, reports[::-1], strict=True)]
        for asker in askers
    ]
    own = [np.minimum(*found) for found in rays]
    both = [_measured(report) for report in reports]
    ratios = np.where(both[0] & both[1], _ratio(own[1], own[0]), np.nan)
    shifts = np.where(both[0] & both[1], _ratio(rays[1][1], rays[0][1]), np.nan)
    needed = [_queries_needed(report) for report in reports]
    asked = [
        int(report.queries.sum()) + int(asker.ledger.total.sum()) for report, asker in zip(reports, askers, strict=True)
    ]
    titles = (f"base, noise {describe(base_noise)}", f"defended, noise {describe(defended_noise)}")
    numbers = (own[0], own[1], (asked[0], asked[1]), budgets, titles)
    return _judged(ratios, shifts, needed[1] / needed[0], margin, level, Key(seed).child("compare"), numbers)


def _judged(
    ratios: np.ndarray, shifts: np.ndarray, more: np.ndarray, margin: float, level: float, key: Key, numbers: Any
) -> Comparison:
    ratio = _median(ratios, key.child("ratio"), level)
    with np.errstate(divide="ignore"):  # a border that is not on the ray lies infinitely far apart
        apart = np.maximum(shifts, 1 / shifts)
    moved = _median(apart, key.child("moved"), level)
    verdict = verdict_of(ratio, margin)
    return Comparison(
        verdict,
        moved.low > 1 + margin / 2,
        margin,
        level,
        ratio,
        moved,
        _median(more, key.child("queries"), level),
        images_needed(ratios, ratio, margin, level) if verdict == "undecided" else None,
        ratios,
        shifts,
        *numbers,
    )


def verdict_of(ratio: Interval, margin: float) -> str:
    """The verdict on a ratio with its interval: a key of `VERDICTS`."""
    if ratio.low > 1 + margin:
        return "more robust"
    if ratio.high < 1 / (1 + margin):
        return "less robust"
    inside = ratio.low >= 1 / (1 + margin) and ratio.high <= 1 + margin
    return "no extra robustness" if inside else "undecided"


def images_needed(ratios: np.ndarray, ratio: Interval, margin: float, confidence: float) -> int | None:
    """How many images would decide, if the next ones are like these; None if the ratio lies on the margin itself."""
    logs = np.log(ratios[np.isfinite(ratios) & (ratios > 0)])
    if len(logs) < 2 or not math.isfinite(ratio.value) or ratio.value <= 0:
        return None
    to_margin = abs(abs(math.log(ratio.value)) - math.log(1 + margin))
    spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs)))) or float(logs.std())
    z = NORMAL.inv_cdf((1 + confidence) / 2)
    if to_margin < 1e-3:
        return None
    return max(len(ratios) + 1, math.ceil((z * _MEDIAN_EFFICIENCY * spread / to_margin) ** 2))


def _checked(count: int, budget: int, scale: float | None, margin: float, confidence: float) -> float:
    if count < FEWEST:
        raise InputError(f"a comparison needs at least {FEWEST} images, not {count}.")
    if not is_whole(budget) or budget < 1:
        raise InputError(f"budget must be a whole number of queries of at least 1, not {budget!r}.")
    for name, value, least in (("scale", 1.0 if scale is None else scale, 0.0), ("margin", margin, 0.0)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not least < value < math.inf:
            raise InputError(f"{name} must be a positive number, not {value!r}.")
    return checked_confidence(confidence)


def _asker(side: Any, batch: Tensor, box: Bounds, on_queries: Callable[[int], None] | None, name: str) -> Asker:
    """Whom to ask about one of the classifiers; one that cannot take the images is refused here."""
    model, noise, seed = side
    oracle, _ = oracle_of(model, noise, seed + 2, tuple(batch.shape[1:]))
    asker = Asker(oracle, Ledger(len(batch)), box, torch.arange(len(batch)), on_queries)
    first = asker.labels(batch[:1], torch.zeros(1, dtype=torch.int64), "border")
    if int(first[0]) < 0:
        raise InputError(
            f"the {name} classifier does not take these images of shape {tuple(batch.shape[1:])} "
            f"({next(iter(asker.errors), 'no answer')}): both classifiers must have the same inputs."
        )
    return asker


def _measured(report: Report) -> np.ndarray:
    """Images with a point of their own: bool `(B,)`."""
    return np.array([status.has_point and status is not Status.MISCLASSIFIED for status in report.status])


def _borders(asker: Asker, rays: Report, other: Report) -> np.ndarray:
    """Border distances of the asker's classifier on the rays that an attack found: `(B,)`, inf without one."""
    found = np.full(len(rays.status), np.inf)
    both = _measured(rays) & _measured(other)
    for row in np.flatnonzero(both):
        image, point = (torch.from_numpy(values[row]) for values in (rays.images, rays.points))
        found[row] = border_on_ray(asker, int(row), image, point, int(rays.labels[row]))
    return found


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Ratios `(B,)`; nan where both are infinite or one is 0."""
    usable = (above > 0) & (below > 0) & ~(np.isinf(above) & np.isinf(below))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(usable, above / below, np.nan)


def _queries_needed(report: Report) -> np.ndarray:
    """Queries until each image's distance was nearly the last one: `(B,)`, nan without a point."""
    distance, asked = report.trace.distance.numpy(), report.trace.queries.numpy()
    near = distance <= _NEARLY * distance[-1]
    need = asked[near.argmax(axis=0), np.arange(distance.shape[1])].astype(np.float64)
    return np.where(_measured(report) & (need > 0), need, np.nan)


def _median(values: np.ndarray, key: Key, confidence: float) -> Interval:
    """Median over the images that have a value, with its bootstrap interval; a whole one without enough of them."""
    known = values[~np.isnan(values)]
    if len(known) < FEWEST:
        return Interval(math.nan, 0.0, math.inf)
    return bootstrap(known, _middles, key, confidence)


def _middles(samples: np.ndarray) -> np.ndarray:
    """Medians of rows `(R, B)` which may be infinite: `(R,)`."""
    ordered = np.sort(samples, axis=1)
    count = samples.shape[1]
    low, high = ordered[:, (count - 1) // 2], ordered[:, count // 2]
    return np.where(low == high, low, (low + high) / 2)


def _page(answer: Comparison) -> Page:
    headline = f"{VERDICTS[answer.verdict]}: ratio {answer.ratio}".capitalize()
    if answer.border_moved:
        headline += f"; the border moved: on the same rays the two borders differ by a factor of {answer.moved}"
    elif answer.verdict == "no extra robustness":
        headline += f"; the noise multiplies the queries needed by {answer.multiplier}"
    used = int((~np.isnan(answer.ratios)).sum())
    words = [
        f"{used} of {len(answer.ratios)} images were measured on both; budgets {answer.budgets[0]:,} and "
        f"{answer.budgets[1]:,} queries per image; ratios within {1 / (1 + answer.margin):.3g} and "
        f"{1 + answer.margin:.3g} count as equal.",
        f"Queries needed: {answer.multiplier} times as many.",
    ]
    if answer.verdict == "undecided":
        need = "cannot be told" if answer.images_needed is None else f"about {answer.images_needed:,}"
        words.append(f"Images that would decide, if they are like these: {need}.")
    shown = np.flatnonzero(np.isfinite(answer.ratios))
    order = shown[np.argsort(answer.ratios[shown])][:60]
    all_images = Marks("images", answer.ratios[order], answer.ratios[order], answer.ratios[order])
    ends = [np.array([v if math.isfinite(v) else np.nanmax([answer.ratio.value, 2.0])]) for v in answer.ratio]
    rows = tuple(
        (str(row), *(f"{v[row]:.4g}" for v in (answer.base, answer.defended, answer.ratios, answer.shifts)))
        for row in range(min(len(answer.ratios), 200))
    )
    return Page(
        title="Is the defence real?",
        headline=headline + ".",
        good={"more robust": True, "less robust": False, "no extra robustness": False}.get(answer.verdict),
        words=(*words, f"{answer.titles[0]}; {answer.titles[1]}."),
        charts=(
            Chart("Defended over base distance", "ratio", "images, sorted", (), (
                Marks("median with its interval", ends[0], ends[1], ends[2]), all_images), 1.0),
        ),
        tables=(Table("Images", ("image", "base border", "defended border", "ratio", "shift on one ray"), rows),),
        limits=(
            "Distances are upper bounds, the nearer of what both attacks found: a better one might find other ratios.",
            "Robustness here is L2 distance to the place where half of the answers are adversarial.",
        ),
    )  # fmt: skip
