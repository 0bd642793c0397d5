"""Medians, curves and their comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from popskipjump.experiments.reproduce.base import QSJ_BUDGET, Evidence
from popskipjump.metrics import Summary, summarise
from popskipjump.runs.data import RunData

RESAMPLES = 400
RESAMPLING_SEED = 0
POWER = ((1.28 + 0.84) / 1.28) ** 2  # images for 80% over those at which an 80% interval just meets its limit
MOST_IMAGES = 1_000_000
INTERVALS = "brackets: 80% intervals over resampled images; a rule is decided where they lie on one side"


class Curve(NamedTuple):
    """Medians along some axis, with the 40th and 60th percentile."""

    x: np.ndarray  # (N,)
    median: np.ndarray  # (N,); inf where most images have no value
    low: np.ndarray  # (N,)
    high: np.ndarray  # (N,)


def curve(x: np.ndarray, values: np.ndarray) -> Curve:
    """Sum up `(N, B)` values at each of `(N,)` places."""
    summaries = [summarise(row) for row in values]
    median, low, high = (np.array([s[i] for s in summaries], dtype=float) for i in range(3))
    return Curve(np.asarray(x, dtype=float), median, low, high)


def by_iteration(run: RunData) -> Curve:
    """Border distance against iterations; 0 is the first search."""
    return curve(np.arange(len(run.trace_border)), run.trace_border)


def by_queries(run: RunData) -> Curve:
    """Border distance after each iteration against the median number of queries asked by then, as the paper has it."""
    return by_iteration(run)._replace(x=np.median(run.trace_queries, axis=1).astype(float))


def border(run: RunData) -> Summary:
    """Border distances at the end."""
    return summarise(run.border_distances)


def queries(run: RunData) -> Summary:
    """Queries of the attack, without those of the verdict."""
    return summarise(run.attack_queries)


def at_queries(curve: Curve, count: float) -> float:
    """The median distance that a curve has reached after `count` queries; inf before it begins.

    Between two iterations it is read off the line that a figure with logarithmic axes shows.
    """
    if count < curve.x[0]:
        return math.inf
    if not np.isfinite(curve.median).all():
        return float(curve.median[np.flatnonzero(curve.x <= count)[-1]])
    return float(np.exp(np.interp(math.log(count), np.log(curve.x), np.log(np.maximum(curve.median, 1e-12)))))


def ratio(value: float, reference: float) -> float:
    """`value / reference`, inf where the value is, nan where it cannot be told."""
    if not math.isfinite(reference) or reference == 0:
        return math.nan
    return value / reference


class Ratio(NamedTuple):
    """A ratio of two medians, with the interval in which it lies for most resampled sets of images."""

    value: float
    low: float
    high: float
    images: int = 0

    def at_most(self, limit: float) -> bool | None:
        """Whether it is at most `limit`; None where the images cannot tell."""
        if math.isnan(self.value):
            return None
        return True if self.high <= limit else False if self.low > limit else None

    def above(self, limit: float) -> bool | None:
        """The opposite of `at_most`."""
        found = self.at_most(limit)
        return None if found is None else not found

    def images_to_decide(self, limit: float) -> float:
        """About how many images would decide with a probability of 80%, if the ratio stays; inf: no number would.

        The interval shrinks with the square root of their number.
        """
        gap = abs(self.value - limit)
        width = self.high - self.value if self.value < limit else self.value - self.low  # towards the limit
        if not (math.isfinite(gap) and math.isfinite(width)) or gap == 0:
            return math.inf
        return max(self.images, math.ceil(POWER * self.images * (width / gap) ** 2))


def compare(values: np.ndarray, reference: np.ndarray) -> Ratio:
    """The median of values over that of a reference, both `(B,)` of the same images, with its 80% interval.

    The interval is that of the bootstrap: images are drawn again, with replacement, the same for both.
    """
    drawn = np.random.default_rng(RESAMPLING_SEED).integers(len(values), size=(RESAMPLES, len(values)))
    above, below = (np.sort(v[drawn], axis=1) for v in (np.asarray(values, float), np.asarray(reference, float)))
    middle = (len(values) - 1) // 2, len(values) // 2
    ratios = [
        ratio((a[middle[0]] + a[middle[1]]) / 2, (b[middle[0]] + b[middle[1]]) / 2)
        for a, b in zip(above, below, strict=True)
    ]
    known = np.sort([r for r in ratios if not math.isnan(r)])
    value = ratio(summarise(values).median, summarise(reference).median)
    if not len(known):
        return Ratio(value, math.nan, math.nan, len(values))
    low, high = (float(known[round(share * (len(known) - 1))]) for share in (0.1, 0.9))
    return Ratio(value, low, high, len(values))


def farther(run: RunData, reference: RunData) -> Ratio:
    """How many times the border distance of a reference a run ends at, on the same images."""
    return compare(run.border_distances, reference.border_distances)


def farther_for_as_many(run: RunData, reference: RunData) -> Ratio:
    """How many times the border distance that a reference had after as many queries a run ends at, image by image."""
    within = reference.trace_queries <= run.attack_queries  # (T + 1, B)
    last = np.maximum(within.sum(axis=0) - 1, 0)
    reached = np.where(within.any(axis=0), reference.trace_border[last, np.arange(len(last))], np.inf)
    return compare(run.border_distances, reached)


def what_would_decide(found: Iterable[tuple[Ratio, float]]) -> str:
    """How many images would decide those of some ratios that their limit leaves open; empty if none is open."""
    needed = [value.images_to_decide(limit) for value, limit in found if value.at_most(limit) is None]
    if not needed:
        return ""
    if max(needed) > MOST_IMAGES:
        return " A ratio lies on its limit: no number of images would decide it."
    return f" About {max(needed):,.0f} images would decide what is open."


def all_of(values: Iterable[bool | None]) -> bool | None:
    """True if all are, False if one is, else None: what cannot be told is not guessed."""
    found = list(values)
    return False if any(v is False for v in found) else None if any(v is None for v in found) else True


def show_ratios(found: Mapping[str, Ratio]) -> str:
    """Ratios with their intervals, each with its name."""
    return ", ".join(f"{show_ratio(value)} ({name})" for name, value in found.items())


def show_sides(found: Mapping[str, Ratio], limit: float) -> str:
    """Which of some ratios are at most a limit, which are above it, and of which the images cannot tell."""
    sides = ((True, f"up to {limit:g}"), (False, "above"), (None, "cannot be told"))
    named = [(words, [name for name, value in found.items() if value.at_most(limit) is side]) for side, words in sides]
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in named if names)


def show_ratio(found: Ratio) -> str:
    """A ratio with its interval."""
    return f"{show(found.value)} [{show(found.low)}, {show(found.high)}]"


def spread(values: Sequence[float]) -> float:
    """The largest value over the smallest."""
    return ratio(max(values), min(values))


def show(value: float | None, digits: int = 3) -> str:
    """A number for people: 3 significant digits, thousands with commas, infinity as a sign."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def show_named(values: Mapping[str, float], digits: int = 3) -> str:
    """Numbers for people, each with its name."""
    return ", ".join(f"{show(value, digits)} ({name})" for name, value in values.items())


def beside_psj(evidence: Evidence, noises: Iterable[str | None]) -> str:
    """How QSJ compares with PSJ under some noises: at equal queries, and with PSJ's end."""
    parts = []
    for noise in noises:
        qsj, psj = evidence[evidence.setup.qsj(noise)], evidence[evidence.setup.psj(noise)]
        calls = show(ratio(queries(qsj).median, queries(psj).median))
        parts.append(
            f"{noise or 'no noise'}: {show_ratio(farther_for_as_many(qsj, psj))} times PSJ's distance after as many "
            f"queries, {show_ratio(farther(qsj, psj))} times PSJ's final distance with {calls} times its queries"
        )
    return f"QSJ with a budget of {QSJ_BUDGET:,} queries ends at, {'; '.join(parts)}."
