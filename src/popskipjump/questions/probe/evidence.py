"""Evidence from answers: whether noise exists, repeats for equal inputs, changes in time, or grows near the border."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from popskipjump.questions.intervals import Interval, lower_limit, proportion
from popskipjump.questions.probe.drift import chi_square_tail, drift
from popskipjump.questions.probe.probing import Probed

DRIFT_LEVEL = 1e-5  # a drift is reported below this probability of chance
GROWTH_LEVEL = 1e-3
_BOTH_LEVEL = 1e-6
_EVERYWHERE = 0.02  # noise of every image, at least, that is called constant beside a growing one
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
    islands: int  # inputs whose fixed answer differs from those of all of their surroundings
    neighbours: int  # inputs that were looked at for that
    drift: float  # probability of so much change in time by chance
    growth: float  # probability of so wide a transition by chance, were it a step
    floors: float  # probability of so much noise far off by chance, were there none
    clean: Interval  # share of adversarial answers at the images
    clean_lowest: float  # of the images' own shares, the smallest lower limit
    rejected: Interval


def weigh(found: list[Probed], rejected: int, asked: int, confidence: float) -> Evidence:
    """Weigh what all images were answered."""
    clean = [np.concatenate((p.clean, _valid(p.ends[:, :2]) > 0.5)) for p in found]
    wrong, total = sum(int(c.sum()) for c in clean), sum(map(len, clean))
    fits = [p.fit for p in found if p.fit is not None]
    return Evidence(
        repeats=_repeats(found),
        islands=sum(p.contradicted for p in found),
        neighbours=sum(p.neighbours for p in found),
        drift=drift(found),
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
    both = evidence.floors < _BOTH_LEVEL and evidence.clean_lowest > _EVERYWHERE
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
