"""Drift: permutation tests for trends of the answers to equal inputs, and of their noise."""

from __future__ import annotations

import numpy as np
import torch

from popskipjump.questions.probe.probing import Probed

_LOOKS, _ROUNDS = 0.2, 0.4  # when, in parts of the budget, lines are looked at and the rounds begin, about


def chi_square_tail(value: float, freedom: int) -> float:
    """P(a chi-square variable is at least so large)."""
    if freedom == 0:
        return 1.0
    half = torch.tensor([freedom / 2, value / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def drift(found: list[Probed]) -> float:
    """Probability of so much change in time by chance, if the answers of each input could have come in any order.

    A border that moves changes the answers of an image's line in one direction, which differs by image: one trend for
    each image and part of its line. A rate that changes makes more, or fewer, answers differ from the usual one
    everywhere: one trend of all inputs together. The smaller probability of the two tests counts, twice.
    """
    statistic, freedom = 0.0, 0
    rate = np.zeros(2)  # trend, variance
    for probed in found:
        for group in _groups(probed):
            moved = np.zeros(2)
            for time, answers in group:
                usual = answers.mean() > 0.5
                moved += _trend(time, answers)
                rate += _trend(time, np.abs(answers - usual))
            if moved[1] > 0:
                statistic, freedom = statistic + moved[0] ** 2 / moved[1], freedom + 1
    shared = chi_square_tail(rate[0] ** 2 / rate[1], 1) if rate[1] > 0 else 1.0
    return min(1.0, 2 * min(chi_square_tail(statistic, freedom), shared))


def _trend(time: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Covariance of values `(n,)` with time, and its variance over all orders of the values."""
    late = time - time.mean()
    return np.array([late @ values, late @ late * values.var(ddof=1)])


def _groups(probed: Probed) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Times and answers of equal inputs, in groups that a moving border changes alike: image, end, border, line."""
    rounds = np.linspace(_ROUNDS, 1, len(probed.ends)) if len(probed.ends) else np.zeros(0)
    clean = probed.clean.astype(np.float64)
    at_image = (np.concatenate((np.zeros(len(clean)), rounds, rounds)),
                np.concatenate((clean, *probed.ends[:, :2].T)))  # fmt: skip
    looks = np.concatenate([look[:, 1:] for look in probed.first]) if probed.first else np.zeros((0, 1))
    line = [
        (np.append(np.full(len(look), _LOOKS), 1.0), np.append(look, late))
        for late, look in zip(probed.again, looks, strict=False)
    ]
    groups = [[at_image], [(rounds, end) for end in probed.ends[:, 2:].T], [(rounds, c) for c in probed.ladder.T], line]
    return [[cell for cell in map(_answered, group) if cell is not None] for group in groups]


def _answered(cell: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Without the queries that were rejected; None with too few answers to tell anything."""
    time, answers = cell
    there = ~np.isnan(answers)
    return (time[there], answers[there]) if there.sum() > 2 else None
