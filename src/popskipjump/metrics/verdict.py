"""Verdict: estimated probability that a point is adversarial, with an interval, from answers alone."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.errors import InputError


class Verdict(NamedTuple):
    """P(adversarial) of each point, estimated from queries at the point, with a 95% confidence interval.

    From the answers of the settle phase, which stops when its test is significant, the interval is anytime-valid; from
    a fixed number of new queries it is Wilson's.
    """

    probability: Tensor  # (B,) share of adversarial answers; nan without queries
    low: Tensor  # (B,)
    high: Tensor  # (B,)
    queries: Tensor  # (B,) int64, number of queries


def wilson_interval(successes: Tensor, trials: int | Tensor, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
    """Wilson's confidence interval for a probability (JASA 1927); (0, 1) without trials.

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
    # For unanimous counts the ends are exactly 0 and 1, whatever the rounding.
    low = torch.where(hits == 0, 0.0, centre - half)
    high = torch.where(hits == count, 1.0, centre + half)
    return low, high


def verdict_of(successes: Tensor, trials: int | Tensor, confidence: float = 0.95) -> Verdict:
    """The verdict on points that were adversarial in `successes` `(B,)` of `trials` answers; see `wilson_interval`."""
    low, high = wilson_interval(successes, trials, confidence)
    queries = torch.as_tensor(trials, device=low.device).to(torch.int64).expand(low.shape).clone()
    return Verdict(successes.to(torch.float64) / queries, low, high, queries)


def anytime_interval(successes: Tensor, trials: Tensor, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
    """Anytime-valid confidence interval for a probability: it holds under any stopping rule.

    It is a confidence sequence (Robbins, 1970): it excludes q once the e-value of the uniform mixture against q, that
    is, the integral over p of p^k (1 - p)^(n - k), divided by q^k (1 - q)^(n - k), reaches 1 / (1 - confidence).

    Args:
        successes: `(B,)` k.
        trials: `(B,)` n.
        confidence: in (0, 1).

    Returns:
        The lower and the upper ends, float64 `(B,)`; (0, 1) without trials.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be strictly between 0 and 1, not {confidence}.")
    hits, count = successes.to(torch.float64), trials.to(torch.float64)
    if not bool(((hits >= 0) & (hits <= count)).all()):
        raise InputError("successes must lie between 0 and the number of trials.")
    misses = count - hits
    mixture = torch.lgamma(hits + 1) + torch.lgamma(misses + 1) - torch.lgamma(count + 2)
    least = mixture + math.log(1 - confidence)  # q is excluded if its log-likelihood is below this
    share = torch.where(count > 0, hits / count.clamp(min=1), 0.5)

    def end(outside: Tensor) -> Tensor:
        inside = share.clone()
        for _ in range(60):
            middle = (outside + inside) / 2
            holds = torch.xlogy(hits, middle) + torch.xlogy(misses, 1 - middle) >= least
            inside, outside = torch.where(holds, middle, inside), torch.where(holds, outside, middle)
        return outside

    low, high = end(torch.zeros_like(share)), end(torch.ones_like(share))
    return torch.where(hits == 0, 0.0, low), torch.where(misses == 0, 1.0, high)


def verdict_anytime(successes: Tensor, trials: Tensor, confidence: float = 0.95) -> Verdict:
    """The verdict on points from counts `(B,)` under a data-dependent stopping rule; see `anytime_interval`."""
    low, high = anytime_interval(successes, trials, confidence)
    return Verdict(successes.to(torch.float64) / trials, low, high, trials.to(torch.int64))
