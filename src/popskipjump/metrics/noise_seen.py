"""Evidence of noise in the answers of an evaluation, as warnings: the part of `check` that costs no query."""

from __future__ import annotations

import math
from statistics import median
from typing import NamedTuple

import numpy as np

_FEWEST = 6  # images, below which nothing is said about drift
_MOVED = 1.25  # outward, after the walk had ended: more than known noise does to most images
_SETTLED = 1.002  # without noise a point is moved by less
_REFUTED = 2  # points that were moved although no equal inputs got different answers
_ISLANDS = 3  # places on search lines whose answers contradict those of both neighbours


class Seen(NamedTuple):
    """What was answered about B images."""

    yes: np.ndarray  # (B,) adversarial answers at the final point
    asked: np.ndarray  # (B,) answers there; 0 without one
    walked: np.ndarray  # (B,) distance at which the walk ended
    distances: np.ndarray  # (B,) distance of the final point
    probe_asked: np.ndarray  # (B, P) answers on the last search line, by place; P = 0 without a record
    probe_yes: np.ndarray  # (B, P) adversarial ones
    floors: np.ndarray  # (B,) fitted share of wrong answers far from the border; nan without a fit
    gradual: np.ndarray  # (B,) fitted width of the transition over the length of the search line; nan likewise
    failed: int  # images that ended because the classifier did not answer
    message: str  # what it said


def noise_warnings(seen: Seen, expects_noise: bool, ours: bool) -> list[str]:
    """Warnings about noise, remembered answers, change in time and rejections.

    Args:
        seen: the answers.
        expects_noise: whether the attack believes no single answer.
        ours: whether the noise was put on the answers by the caller, who knows of it.
    """
    mixed = int(((seen.yes > 0) & (seen.yes < seen.asked)).sum())
    repeated = int((seen.asked > 1).sum())
    found = []
    if mixed and not (ours and expects_noise):
        found.append(_noisy(seen, mixed, repeated, expects_noise))
    islands, refuted = _islands(seen), _moved_outward(seen, _SETTLED)[0]
    if not mixed and repeated and (islands >= _ISLANDS or refuted >= _REFUTED):
        found.append(
            f"equal inputs always got equal answers, and yet answers contradict each other: {islands} places on search "
            f"lines differ from both of their neighbours, {refuted} points were not adversarial when they were asked "
            "again. The noise is rare, or remembered for each input (a cache, which no number of queries averages "
            "out), or the classifier changes in time: `psj check` tells which."
        )
    moved, total = _moved_outward(seen, _MOVED)
    if mixed and expects_noise and total >= _FEWEST and moved > total / 2:
        found.append(
            f"{moved} of {total} points were no longer adversarial when they were asked again, and were moved outward "
            f"by more than {_MOVED - 1:.0%}: the classifier may change while it is asked. `psj check` tells."
        )
    if seen.failed:
        found.append(
            f"{seen.failed} of {len(seen.asked)} images ended because the classifier did not answer ({seen.message}): "
            "if it rejects inputs on purpose, wrap it in a function that returns a class of its own for them."
        )
    return found


def _noisy(seen: Seen, mixed: int, repeated: int, expects_noise: bool) -> str:
    text = f"the classifier is noisy: {mixed} of {repeated} points that were asked more than once got different answers"
    floors, gradual = (values[np.isfinite(values)] for values in (seen.floors, seen.gradual))
    if len(floors) and len(gradual):  # not NumPy's median, whose first call imports for 30 ms
        kind = "gradual" if median(gradual) > 0.05 else "sharp"
        text += f" (fitted: {median(floors):.1%} wrong far from a {kind} border)"
    if expects_noise:
        return f"{text}. Distances are to the border of its most frequent answer. `psj check` tells the kind of noise."
    return (
        f"{text}, and this attack believes every single answer: its distances cannot be trusted. Use qsj or psj, which "
        "expect noise, or votes."
    )


def _islands(seen: Seen) -> int:
    """Places whose unanimous answers differ from those of both neighbours on the line that were asked."""
    count = 0
    for asked, yes in zip(seen.probe_asked, seen.probe_yes, strict=True):
        there = np.flatnonzero(asked)
        share = yes[there] / asked[there]
        pure = (share == 0) | (share == 1)
        inner = share[1:-1]
        alone = (np.abs(inner - share[:-2]) == 1) & (np.abs(inner - share[2:]) == 1)
        count += int((alone & pure[1:-1]).sum())
    return count


def _moved_outward(seen: Seen, factor: float) -> tuple[int, int]:
    """How many points were moved outward by a factor or more after the walk, and of how many."""
    usable = np.isfinite(seen.walked) & np.isfinite(seen.distances) & (seen.walked > 0)
    return int((seen.distances[usable] > factor * seen.walked[usable]).sum()), int(usable.sum())


def transition_width(slope: np.ndarray) -> np.ndarray:
    """From a quarter to three quarters of the way between the floors, per unit of the line: `(B,)` -> `(B,)`."""
    with np.errstate(divide="ignore"):
        return np.asarray(2 * math.log(3) / (4 * slope))
