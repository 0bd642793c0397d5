"""From answers to evidence: is there noise, is it remembered, does it change in time, does it grow near the border?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from popskipjump.questions.intervals import Interval, lower_limit, proportion
from popskipjump.questions.probe.probing import Probed

DRIFT_LEVEL = 1e-3  # a drift is reported below this probability of chance
GROWTH_LEVEL = 1e-3
_BOTH_LEVEL = 1e-6
KINDS = {
    "deterministic": "the same input always gets the same answer",
    "cached": "answers are noisy, but remembered for each input",
    "constant": "noise of the same rate everywhere",
    "growing": "noise that grows towards the border",
    "constant and growing": "noise everywhere, and more of it near the border",
    "drifting": "answers change in time",
    "rejecting": "some inputs are not answered",
}


class Repeats(NamedTuple):
    """What equal inputs were answered."""

    places: int  # inputs that were asked more than once
    mixed: int  # of those, inputs with different answers
    pairs: int  # answers beyond the first of each input: each was a chance to see noise
    near_places: int  # the same, of inputs next to the border
    near_mixed: int
    near_pairs: int


class Evidence(NamedTuple):
    """Everything that a kind of noise is judged by."""

    repeats: Repeats
    islands: int  # inputs whose fixed answer differs from that of all their neighbours
    neighbours: int  # inputs next to others
    drift: float  # probability of so much change in time by chance
    growth: float  # probability of so wide a transition by chance, were it a step
    floors: float  # probability of so much noise far off by chance, were there none
    clean: Interval  # share of adversarial answers at the images
    clean_lowest: float  # of the images' own shares, the smallest lower limit
    rejected: Interval


def chi_square_tail(value: float, freedom: int) -> float:
    """P(a chi-square variable is at least so large)."""
    if freedom == 0:
        return 1.0
    half = torch.tensor([freedom / 2, value / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def weigh(found: list[Probed], rejected: int, asked: int, confidence: float) -> Evidence:
    """Weigh what all images were answered."""
    clean = [np.concatenate((p.clean, _valid(p.ends[:, :2]) > 0.5)) for p in found]
    wrong, total = sum(int(c.sum()) for c in clean), sum(map(len, clean))
    fits = [p.fit for p in found if p.fit is not None]
    islands, neighbours = _islands(found)
    return Evidence(
        repeats=_repeats(found),
        islands=islands,
        neighbours=neighbours,
        drift=_drift(found),
        growth=chi_square_tail(2 * sum(fit.step_evidence for fit in fits), len(fits)),
        floors=chi_square_tail(2 * sum(fit.floor_evidence for fit in fits), 2 * len(fits)),
        clean=proportion(wrong, total, confidence),
        clean_lowest=min((lower_limit(int(c.sum()), len(c), 0.05) for c in clean if len(c)), default=0.0),
        rejected=proportion(rejected, asked, confidence),
    )


def kind_of(evidence: Evidence) -> str:
    """Name the noise: a key of `KINDS`."""
    if evidence.rejected.value > 0:
        return "rejecting"
    if evidence.drift < DRIFT_LEVEL:
        return "drifting"
    if evidence.repeats.mixed == 0:
        return "cached" if evidence.islands >= 2 else "deterministic"
    if evidence.growth >= GROWTH_LEVEL:
        return "constant"
    both = evidence.floors < _BOTH_LEVEL and evidence.clean_lowest > 0.01
    return "constant and growing" if both else "growing"


def missed_probability(evidence: Evidence, rate: float) -> float:
    """P(no repeated answer differed | each differs with probability `rate`), for a classifier without a difference."""
    return float((1 - rate) ** evidence.repeats.pairs)


def _valid(answers: np.ndarray) -> np.ndarray:
    flat = answers.ravel()
    return np.asarray(flat[~np.isnan(flat)])


def _repeats(found: list[Probed]) -> Repeats:
    totals = np.zeros(6, dtype=np.int64)
    for probed in found:
        for table in probed.repeats:
            near = 3 if table.shape == probed.ladder.T.shape and probed.fit is not None else 0
            for place in table:
                answers = place[~np.isnan(place)]
                if len(answers) > 1:
                    seen = np.array([1, int(0 < answers.sum() < len(answers)), len(answers) - 1])
                    totals[:3] += seen
                    totals[near : near + 3] += seen if near else 0
    return Repeats(*(int(total) for total in totals))


def _islands(found: list[Probed]) -> tuple[int, int]:
    """Inputs that differ from both of their neighbours on a line, or from the image next to which they lie."""
    count = total = 0
    for probed in found:
        usual = bool(probed.clean.mean() > 0.5) if len(probed.clean) else False
        count += int((probed.near != usual).sum())
        total += len(probed.near)
        for table in [look[:, 1:] for look in probed.first] + [probed.ladder.T]:
            shares = np.array([np.mean(place[~np.isnan(place)]) for place in table if not np.isnan(place).all()])
            if len(shares) > 2:
                count += int(((shares[1:-1] != shares[:-2]) & (shares[1:-1] != shares[2:])).sum())
                total += len(shares) - 2
    return count, total


def _drift(found: list[Probed]) -> float:
    """Trend of the answers of equal inputs over the rounds, and late answers against first ones: a chi-square test."""
    statistic, freedom = 0.0, 0
    for probed in found:
        groups = [probed.ladder, probed.ends[:, :2], probed.ends[:, 2:]]
        early = [np.concatenate(([late], looked)) for late, looked in _late_pairs(probed)]
        for group in groups:
            trend = variance = 0.0
            for cell in group.T:
                answers = cell[~np.isnan(cell)]
                if len(answers) > 2 and answers.std() > 0:
                    time = np.arange(len(answers)) - (len(answers) - 1) / 2
                    trend += float(time @ answers)
                    variance += float(time @ time) * float(answers.var(ddof=1))
            statistic, freedom = _added(statistic, freedom, trend, variance)
        shift = sum(cell[0] - cell[1:].mean() for cell in early)
        variance = sum(cell.var(ddof=1) * (1 + 1 / (len(cell) - 1)) for cell in early)
        statistic, freedom = _added(statistic, freedom, float(shift), float(variance))
    statistic, freedom = _added(statistic, freedom, *_rate_shift(found))
    return chi_square_tail(statistic, freedom)


def _rate_shift(found: list[Probed]) -> tuple[float, float]:
    """By how much the noise at the images has grown from the first answers to the last ones, and its variance."""
    shift = variance = 0.0
    for probed in found:
        first, last = probed.clean.astype(float), _valid(probed.ends[:, :2])
        if len(first) > 1 and len(last) > 1:
            shift += last.mean() - first.mean()
            variance += np.concatenate((first, last)).var(ddof=1) * (1 / len(first) + 1 / len(last))
    return float(shift), float(variance)


def _late_pairs(probed: Probed) -> list[tuple[float, np.ndarray]]:
    """The late answer and the first ones at each of the first places."""
    looks = np.concatenate(probed.first) if probed.first else np.zeros((0, 2))
    pairs = []
    for late, look in zip(probed.again, looks, strict=False):
        answers = look[1:][~np.isnan(look[1:])]
        if not math.isnan(late) and len(answers) > 1:
            pairs.append((float(late), answers))
    return pairs


def _added(statistic: float, freedom: int, shift: float, variance: float) -> tuple[float, int]:
    return (statistic + shift**2 / variance, freedom + 1) if variance > 0 else (statistic, freedom)
