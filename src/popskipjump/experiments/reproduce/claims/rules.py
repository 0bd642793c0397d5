"""Decision rules for sentences of the paper: tests with limits, bootstrap intervals, number of images still needed.

A claim has one or more tests; it says that all of them hold. A test compares a statistic of the images with a limit.
The images are resampled with replacement, the same for everything in the statistic, and:

- a claim is SUPPORTED if the 95% interval of each test lies on the claimed side of its limit;
- it is NOT SUPPORTED if the interval of one test lies on the other side. So that many tests do not make a wrong "no"
  likely, this interval has the level 1 - 0.05 / (number of tests);
- otherwise it is UNDECIDED, and the verdict says how many images would decide with a probability of about 80%: the
  interval shrinks with the square root of their number, and the statistic is taken to stay where it is. A statistic
  that lies on its limit needs more images than can be had, which is said, too. Fewer than 20 images decide nothing;
- PSJ under noise other than flips may be capped in its queries (`Setup.capped`): there a "no" is undecided, unless the
  caps were checked on at least 20 images (`caps`), and the interval of a failing test is still beyond its limit after a
  division by the upper end of the relief's 95% interval (the distance under the caps over that under wider ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from popskipjump.errors import InputError
from popskipjump.experiments.reproduce.base import Ask, Evidence, Setup
from popskipjump.experiments.reproduce.numbers import show

ERROR = 0.05  # probability that a true limit is missed
RESAMPLES = 2000
SEED = 0
MOST_IMAGES = 1_000_000  # more than this is "no number of images"
POWER = ((1.96 + 0.84) / 1.96) ** 2  # times the images at which the interval just meets the limit: 80% instead of 50%
FEWEST = 20  # of fewer images an interval by resampling is not to be trusted

Statistic = Callable[[np.ndarray], float]
"""From the numbers of some images `(n,)`, drawn with replacement, to a number; nan where it cannot be told."""


class Verdict(str, Enum):
    """What the numbers say of a sentence."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


class Comparison(NamedTuple):
    """One comparison with a limit."""

    name: str
    images: int
    statistic: Statistic
    limit: float
    at_most: bool = True  # the claim: the statistic is at most the limit; otherwise at least
    relief: tuple[np.ndarray, np.ndarray] | None = None  # some images' distances under the caps, and under wider ones


class Outcome(NamedTuple):
    """What became of a test."""

    test: str
    value: float
    low: float  # 95% interval
    high: float
    verdict: Verdict
    needed: int | None  # images that would decide; None if decided, or if no number would
    stands: bool = False  # whether a "no" is one whatever the caps on the queries cost

    @property
    def words(self) -> str:
        """For a table."""
        return f"{self.test}: {show(self.value)} [{show(self.low)}, {show(self.high)}]"


class Judged(NamedTuple):
    """The verdict on a claim."""

    verdict: Verdict
    outcomes: Sequence[Outcome]
    needed: int | None  # images that would decide every open test; None if nothing is open, or no number would
    capped: bool = False  # whether it would be "not supported", had the queries not been capped

    @property
    def words(self) -> str:
        """The verdict, and what it would take to have one."""
        if self.verdict is not Verdict.UNDECIDED:
            return str(self.verdict.value)
        if self.capped:
            return "undecided: a no with capped queries is no refutation; the same images with --no-caps would decide"
        images = f"about {self.needed:,} images" if self.needed else "no number of images"
        return f"undecided; {images} would decide"


@dataclass(frozen=True)
class Claim:
    """A checkable sentence of the paper.

    Args:
        name: short, for tables and commands.
        quote: the paper's words.
        place: where they stand, and the figure or table that they speak of.
        experiment: whose runs and measurements decide; "" for a claim with runs of its own.
        statistic: what is computed, in words.
        rule: when the sentence holds, in words.
        tests: the same for a program.
        asks: runs that no experiment has.
        heavy: whether it is about PSJ under noise that may take a million queries, which small sizes cap: there a "no"
            is no refutation.
    """

    name: str
    quote: str
    place: str
    experiment: str
    statistic: str
    rule: str
    tests: Callable[[Evidence], list[Comparison]]
    asks: Callable[[Setup], list[Ask]] | None = None
    heavy: bool = False

    def __post_init__(self) -> None:
        if bool(self.experiment) == (self.asks is not None):
            raise InputError(f"the claim {self.name!r} must name an experiment, or ask for runs of its own.")


def judge(test: Comparison, tests: int = 1) -> Outcome:
    """Decide one of `tests` tests of a claim."""
    value = test.statistic(np.arange(test.images))
    drawn = np.random.default_rng(SEED).integers(test.images, size=(RESAMPLES, test.images))
    found = np.sort([v for v in map(test.statistic, drawn) if not math.isnan(v)])
    if math.isnan(value) or len(found) < 0.9 * RESAMPLES:
        return Outcome(test.name, value, math.nan, math.nan, Verdict.UNDECIDED, None)

    def quantile(share: float) -> float:
        return float(found[min(len(found) - 1, max(0, round(share * (len(found) - 1))))])

    low, high = quantile(ERROR / 2), quantile(1 - ERROR / 2)
    strict = ERROR / tests / 2
    if test.images < FEWEST:
        verdict = Verdict.UNDECIDED
    elif (high <= test.limit) if test.at_most else (low >= test.limit):
        verdict = Verdict.SUPPORTED
    elif (quantile(strict) > test.limit) if test.at_most else (quantile(1 - strict) < test.limit):
        verdict = Verdict.NOT_SUPPORTED
    else:
        verdict = Verdict.UNDECIDED
    needed = images_needed(test, value, low, high) if verdict is Verdict.UNDECIDED else None
    stands = verdict is Verdict.NOT_SUPPORTED and test.at_most and quantile(strict) / most_relief(test) > test.limit
    return Outcome(test.name, value, low, high, verdict, needed, stands)


def most_relief(test: Comparison) -> float:
    """Upper end of the 95% interval of what wider caps divide the distance by; inf if that was not measured."""
    if test.relief is None or len(test.relief[0]) < FEWEST:
        return math.inf
    capped, wide = test.relief
    drawn = np.random.default_rng(SEED).integers(len(capped), size=(RESAMPLES, len(capped)))
    found = np.sort(np.median(capped[drawn], axis=1) / np.median(wide[drawn], axis=1))
    return max(1.0, float(found[round((1 - ERROR / 2) * (len(found) - 1))]))


def images_needed(test: Comparison, value: float, low: float, high: float) -> int | None:
    """How many images would decide with a probability of 80%, if the statistic stays and its interval shrinks."""
    gap = abs(value - test.limit)
    width = (high - value) if value < test.limit else (value - low)  # towards the limit
    if not (math.isfinite(gap) and math.isfinite(width)) or gap == 0:
        return None
    needed = max(FEWEST, math.ceil(POWER * test.images * (width / gap) ** 2))
    return needed if needed <= MOST_IMAGES else None


def verdict_on(claim: Claim, evidence: Evidence) -> Judged:
    """Decide a claim from the numbers of its experiment."""
    tests = claim.tests(evidence)
    if not tests:
        return Judged(Verdict.NOT_RUN, [], None)
    outcomes = [judge(test, len(tests)) for test in tests]
    verdicts = {outcome.verdict for outcome in outcomes}
    if Verdict.NOT_SUPPORTED in verdicts:
        if claim.heavy and evidence.setup.capped and not any(outcome.stands for outcome in outcomes):
            return Judged(Verdict.UNDECIDED, outcomes, None, capped=True)
        return Judged(Verdict.NOT_SUPPORTED, outcomes, None)
    if verdicts == {Verdict.SUPPORTED}:
        return Judged(Verdict.SUPPORTED, outcomes, None)
    needed = [outcome.needed for outcome in outcomes if outcome.verdict is Verdict.UNDECIDED]
    known = [number for number in needed if number is not None]
    return Judged(Verdict.UNDECIDED, outcomes, max(known) if len(known) == len(needed) else None)
