"""Confidence intervals: exact ones for a probability and for a median, and bootstrap ones for anything else."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from popskipjump.errors import InputError
from popskipjump.rng import Key, integers

NORMAL = NormalDist()
RESAMPLES = 2000
_TERMS, _HALVINGS = 400, 80
_TINY = 1e-300


class Interval(NamedTuple):
    """An estimate between its confidence limits."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.value)} [{_short(self.low)}, {_short(self.high)}]"


def _short(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}"


def checked_confidence(confidence: float) -> float:
    """A confidence level strictly between 0 and 1, or an error."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InputError(f"confidence must be a number strictly between 0 and 1, such as 0.95, not {confidence!r}.")
    return float(confidence)


def beta_below(value: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's algorithm)."""
    if value <= 0 or value >= 1:
        return float(value >= 1)
    if value > (a + 1) / (a + b + 2):  # the fraction converges fast on this side alone
        return 1 - beta_below(1 - value, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(value) + b * math.log1p(-value)
    )
    numerator, denominator = 1.0, 1 / _nonzero(1 - (a + b) * value / (a + 1))
    fraction = denominator
    for m in range(1, _TERMS):
        even = m * (b - m) * value / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * value / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / _nonzero(1 + term * denominator)
            numerator = _nonzero(1 + term / numerator)
            fraction *= denominator * numerator
        if abs(denominator * numerator - 1) < 1e-14:
            break
    return front * fraction / a


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@lru_cache(maxsize=65536)
def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """Lower confidence limit of a probability, wrong with probability `alpha` at most (Clopper and Pearson, 1934)."""
    if successes == 0:
        return 0.0
    low, high = 0.0, successes / trials
    at_low, at_high = -alpha, beta_below(high, successes, trials - successes + 1) - alpha
    for _ in range(_HALVINGS):  # P(at least k successes | p) = I_p(k, n - k + 1) grows with p: regula falsi (Illinois)
        if high - low <= 1e-10 * high:
            break
        share = at_low / (at_low - at_high)
        guess = low + (high - low) * (share if 0.01 < share < 0.99 else 0.5)
        value = beta_below(guess, successes, trials - successes + 1) - alpha
        if value < 0:
            low, at_low, at_high = guess, value, at_high / 2
        else:
            high, at_high, at_low = guess, value, at_low / 2
    return low


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """Upper confidence limit of a probability, wrong with probability `alpha` at most (Clopper and Pearson, 1934)."""
    return 1 - lower_limit(trials - successes, trials, alpha)


def proportion(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """A probability from counts, with its exact two-sided interval; (0, 1) without a trial."""
    if trials == 0:
        return Interval(math.nan, 0.0, 1.0)
    alpha = (1 - confidence) / 2
    share = successes / trials
    return Interval(share, lower_limit(successes, trials, alpha), upper_limit(successes, trials, alpha))


def median_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Median of `(B,)` values, which may be infinite, between two order statistics (the sign test's interval)."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    if not count or bool(np.isnan(ordered).any()):
        raise InputError("a median needs values, and none of them may be nan.")
    rank = 0  # how many of the smallest values lie below the interval
    while 2 * _binomial_tail(rank, count) <= 1 - confidence:
        rank += 1
    low = float(ordered[rank - 1]) if rank else -math.inf
    high = float(ordered[count - rank]) if rank else math.inf
    return Interval(middle(ordered), low, high)


def _binomial_tail(successes: int, trials: int) -> float:
    """P(at most so many heads in so many tosses of a fair coin)."""
    return 1 - beta_below(0.5, successes + 1, trials - successes) if successes < trials else 1.0


def middle(values: np.ndarray) -> float:
    """Median along `(B,)`; the mean of two middle values, also if one is infinite."""
    ordered = np.sort(values)
    low, high = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return low if low == high else (low + high) / 2


def resampled_rows(count: int, key: Key, resamples: int = RESAMPLES) -> np.ndarray:
    """Rows of bootstrap samples: int64 `(resamples, count)`, each in 0 .. count - 1."""
    return integers(key.roots(torch.arange(resamples)), count, count).numpy()


def bootstrap(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    key: Key,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """A statistic with its percentile bootstrap interval.

    Args:
        values: `(B, ...)`, one row for each image.
        statistic: from samples `(R, B, ...)` to `(R,)`.
        key: of the resampling.
        confidence: of the interval.
        resamples: R.
    """
    drawn = np.sort(statistic(values[resampled_rows(len(values), key, resamples)]))
    tail = (1 - confidence) / 2
    low, high = drawn[int(tail * resamples)], drawn[min(math.ceil((1 - tail) * resamples), resamples) - 1]
    return Interval(float(statistic(values[np.newaxis])[0]), float(low), float(high))
