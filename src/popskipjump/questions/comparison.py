"""Result of `compare`: the verdict, its power, and the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from popskipjump.questions.answer import Chart, Marks, Page, Table, in_words
from popskipjump.questions.intervals import NORMAL, Interval, bootstrap
from popskipjump.rng import Key

FEWEST = 6  # images, below which no interval is given
POWER = 0.8  # probability with which the stated number of images decides
_MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean
_FARTHEST = 4.0  # a border that is not on a ray counts as moved by this factor
VERDICTS = {
    "more robust": "more robust: the defended classifier's border is further away",
    "less robust": "less robust: the defended classifier's border is nearer",
    "the border moved": "the border moved",
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
    moved: Interval  # median factor between the two borders on the same rays; 1 if they differ by chance alone
    multiplier: Interval  # of the queries needed, defended / base
    images_needed: int | None  # that would decide whether it is more robust; None if decided, or not to be told
    detectable: float  # a true ratio of this (or of 1 over it) would be called more (less) robust with 80% probability
    ratios: np.ndarray  # (B,)
    shifts: np.ndarray  # (B,) defended border / base border on the ray that the defended classifier's attack found
    moves: np.ndarray  # (B,) factor by which the borders differ on the same rays; see `moves_of`
    base: np.ndarray  # (B,) distance to the base classifier's border
    defended: np.ndarray  # (B,) distance to the defended classifier's border
    queries: tuple[int, int]  # of all images: base, defended
    budgets: tuple[int, int]  # of each image
    norm: str
    titles: tuple[str, str]

    name = "compare"

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        return in_words(self.page())


def verdict_of(ratio: Interval, margin: float, border_moved: bool = False) -> str:
    """The verdict on a ratio with its interval: a key of `VERDICTS`."""
    if ratio.low > 1 + margin:
        return "more robust"
    if ratio.high < 1 / (1 + margin):
        return "less robust"
    if border_moved:
        return "the border moved"
    inside = ratio.low >= 1 / (1 + margin) and ratio.high <= 1 + margin
    return "no extra robustness" if inside else "undecided"


def moves_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By what factor borders differ, from two independent measurements of each ratio `(..., B)`: `(..., B)`.

    The first one says to which side, the second one how far on that side. Measurement errors alone give factors above
    and below 1 alike, where the larger of a ratio and its inverse would always be above 1.
    """
    far = math.log(_FARTHEST)
    with np.errstate(divide="ignore"):
        side, size = (np.clip(np.log(values), -far, far) for values in (first, second))
    return np.asarray(np.exp(np.sign(side) * size))


def images_needed(ratios: np.ndarray, ratio: Interval, margin: float, confidence: float) -> int | None:
    """How many images would decide with probability `POWER`, if they are like these; None if it cannot be told."""
    spread = _spread(ratios)
    if math.isnan(spread) or not math.isfinite(ratio.value) or ratio.value <= 0:
        return None
    to_margin = abs(abs(math.log(ratio.value)) - math.log(1 + margin))
    if to_margin < 1e-3:  # the ratio lies on the margin itself
        return None
    return max(len(ratios) + 1, math.ceil((_errors(confidence) * _MEDIAN_EFFICIENCY * spread / to_margin) ** 2))


def detectable(ratios: np.ndarray, margin: float, confidence: float) -> float:
    """The smallest true ratio above 1 that so many images would call more robust with probability `POWER`."""
    spread, count = _spread(ratios), int(np.isfinite(ratios).sum())
    if math.isnan(spread):
        return math.nan
    return (1 + margin) * math.exp(_errors(confidence) * _MEDIAN_EFFICIENCY * spread / math.sqrt(count))


def _errors(confidence: float) -> float:
    """Standard errors between the truth and the margin that a decision takes."""
    return NORMAL.inv_cdf((1 + confidence) / 2) + NORMAL.inv_cdf(POWER)


def _spread(ratios: np.ndarray) -> float:
    """Standard deviation of log ratios, by their median absolute deviation; nan without two of them."""
    logs = np.log(ratios[np.isfinite(ratios) & (ratios > 0)])
    if len(logs) < 2:
        return math.nan
    return 1.4826 * float(np.median(np.abs(logs - np.median(logs)))) or float(logs.std())


def median_of(values: np.ndarray, key: Key, confidence: float) -> Interval:
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
    shown = np.flatnonzero(np.isfinite(answer.ratios))
    order = shown[np.argsort(answer.ratios[shown])][:60]
    all_images = Marks("images", answer.ratios[order], answer.ratios[order], answer.ratios[order])
    ends = [np.array([v if math.isfinite(v) else np.nanmax([answer.ratio.value, 2.0])]) for v in answer.ratio]
    rows = tuple(
        (str(row), *(_cell(v[row]) for v in (answer.base, answer.defended, answer.ratios, answer.shifts)))
        for row in range(min(len(answer.ratios), 200))
    )
    return Page(
        title="Is the defence real?",
        headline=_headline(answer),
        good={"more robust": True, "less robust": False, "no extra robustness": False}.get(answer.verdict),
        words=_words(answer),
        charts=(
            Chart("Defended over base distance", "ratio", "images, sorted", (), (
                Marks("median with its interval", ends[0], ends[1], ends[2]), all_images), 1.0),
        ),
        tables=(Table("Images", ("image", "base border", "defended border", "ratio", "shift on one ray"), rows),),
        limits=(
            "Distances are upper bounds, the nearer of what both attacks found: a better one might find other ratios.",
            f"Robustness here is {answer.norm} distance to the border of the most frequent answer.",
        ),
    )  # fmt: skip


def _cell(value: float) -> str:
    """A number; a dash where one of the two borders is not on the ray, or nothing was measured."""
    return f"{value:.4g}" if math.isfinite(value) and value > 0 else "–"


def _headline(answer: Comparison) -> str:
    ratio, moved = f"ratio {answer.ratio}", f"on the same rays the two borders differ by a factor of {answer.moved}"
    start = VERDICTS[answer.verdict][0].upper() + VERDICTS[answer.verdict][1:]
    if answer.verdict == "the border moved":
        alone = verdict_of(answer.ratio, answer.margin)
        more = "no extra robustness" if alone == "no extra robustness" else "undecided whether it is more robust"
        return f"{start}: {moved}; {more}: {ratio}."
    if answer.verdict == "no extra robustness":
        return f"{start}: {ratio}; the noise multiplies the queries needed by {answer.multiplier}."
    return f"{start}: {ratio}" + (f"; the border moved: {moved}." if answer.border_moved else ".")


def _words(answer: Comparison) -> tuple[str, ...]:
    used = int((~np.isnan(answer.ratios)).sum())
    words = [
        f"{used} of {len(answer.ratios)} images were measured on both; {answer.norm} distance; budgets "
        f"{answer.budgets[0]:,} and {answer.budgets[1]:,} queries per image; ratios within "
        f"{1 / (1 + answer.margin):.3g} and {1 + answer.margin:.3g} count as equal.",
        f"Queries needed: {answer.multiplier} times as many. Borders on the same rays: apart by {answer.moved}.",
    ]
    if verdict_of(answer.ratio, answer.margin) == "undecided":
        need = "cannot be told" if answer.images_needed is None else f"about {answer.images_needed:,}"
        words.append(
            f"Images that would decide with {POWER:.0%} probability whether it is more robust, if they are like "
            f"these: {need}."
        )
    elif math.isfinite(answer.detectable):
        words.append(
            f"Power: with so many images a true ratio of {answer.detectable:.3g} or more would be called more robust "
            f"with {POWER:.0%} probability."
        )
    return (*words, f"{answer.titles[0]}; {answer.titles[1]}.")
