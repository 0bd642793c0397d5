"""How probable it is that a point is adversarial, judged from answers alone."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.errors import InputError


class Verdict(NamedTuple):
    """P(adversarial) of each point from fresh queries, with a Wilson interval."""

    probability: Tensor  # (B,) share of adversarial answers; nan where nothing was asked
    low: Tensor  # (B,)
    high: Tensor  # (B,)
    queries: Tensor  # (B,) int64, how many were asked


def wilson_interval(successes: Tensor, trials: int | Tensor, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
    """Interval for a probability from counts (Wilson, JASA 1927); (0, 1) where there was no trial.

    Args:
        successes: `(B,)` counts.
        trials: one number, or `(B,)`.
        confidence: in (0, 1).

    Returns:
        The lower and the upper ends, float64 `(B,)`.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be strictly between 0 and 1, not {confidence}.")
    hits = torch.as_tensor(successes).to(torch.float64)
    count = torch.as_tensor(trials, device=hits.device).to(torch.float64).expand(hits.shape)
    if not bool(((hits >= 0) & (hits <= count)).all()):
        raise InputError("successes must lie between 0 and the number of trials.")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (hits + z * z / 2) / (count + z * z)
    spread = (hits * (count - hits) / count.clamp(min=1) + z * z / 4).sqrt()
    half = z * spread / (count + z * z)
    # rounding must not move the ends of a unanimous count off 0 and 1
    low = torch.where(hits == 0, 0.0, centre - half)
    high = torch.where(hits == count, 1.0, centre + half)
    return low, high


def verdict_of(successes: Tensor, trials: int | Tensor, confidence: float = 0.95) -> Verdict:
    """The verdict on points that were adversarial in `successes` `(B,)` of `trials` answers; see `wilson_interval`."""
    low, high = wilson_interval(successes, trials, confidence)
    queries = torch.as_tensor(trials, device=low.device).to(torch.int64).expand(low.shape).clone()
    return Verdict(successes.to(torch.float64) / queries, low, high, queries)
