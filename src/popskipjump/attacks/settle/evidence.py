"""An anytime-valid test, by e-values, of the hypothesis that a point is adversarial more often than not.

An e-value is the wealth of a bet against the null hypothesis P(adversarial) <= 1/2. Under the null hypothesis, the
probability that the wealth ever reaches 1/level is at most `level`, for any stopping rule (Ville, 1939; Ramdas et al.,
2023).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_NODES = 32
_EVEN = 0.5 + (torch.arange(_NODES, dtype=torch.float64) + 0.5) / (2 * _NODES)
_PROBABILITY = torch.cat((_EVEN, torch.ones(1, dtype=torch.float64)))
_DENSITY = torch.full((_NODES,), 1 / _NODES, dtype=torch.float64)
# Stakes on P = 1. On a sharp border eight agreeing answers then confirm at a level of 1%; on a gradual one, where P is
# seldom near 1, a larger stake on the other values saves a tenth of the queries.
_SHARP_STAKE, _GRADUAL_STAKE = 0.5, 0.1

# Shares of the level for the first position, and for the second; on a gradual border more images move.
_SHARP_SHARE, _GRADUAL_SHARE = 0.8, 0.5


def log_evidence(yes: Tensor, asked: Tensor, sharp: Tensor) -> Tensor:
    """Logarithm of the e-value against P(adversarial) <= 1/2.

    Args:
        yes: `(A,)` adversarial answers.
        asked: `(A,)` all answers.
        sharp: bool `(A,)`, whether the border seemed to be sharp before the first answer.

    Returns:
        float64 `(A,)`; 0 without an answer.
    """
    hits, misses = yes.to(torch.float64).unsqueeze(-1), (asked - yes).to(torch.float64).unsqueeze(-1)
    # xlogy: no miss costs nothing, even for the bet that there is none.
    wealth = torch.xlogy(hits, 2 * _PROBABILITY) + torch.xlogy(misses, 2 * (1 - _PROBABILITY))
    certain = torch.where(sharp, _SHARP_STAKE, _GRADUAL_STAKE).to(torch.float64).unsqueeze(-1)
    stake = torch.cat(((1 - certain) * _DENSITY.expand(*certain.shape[:-1], -1), certain), dim=-1)
    return torch.logsumexp(wealth + stake.log(), dim=-1)


def threshold(level: float, place: Tensor, sharp: Tensor) -> Tensor:
    """Log-evidence that confirms the n-th position of an image: `(A,)` counted from 0 -> float64 `(A,)`.

    The level is split over the positions that an image tries: a first share, then (1 - first) / (n (n + 1)); the shares
    sum to at most the level, for any number of positions.
    """
    number, first = place.to(torch.float64), torch.where(sharp, _SHARP_SHARE, _GRADUAL_SHARE).to(torch.float64)
    share = torch.where(place == 0, first, (1 - first) / (number * (number + 1)).clamp(min=1.0))
    return -(level * share).log()


def agreeing_needed(yes: Tensor, asked: Tensor, needed: Tensor, most: int, sharp: Tensor) -> Tensor:
    """Number of further answers that would confirm if all were adversarial, at most `most`: int64 `(A,)`."""
    more = torch.arange(1, most + 1)
    reached = log_evidence(yes.unsqueeze(1) + more, asked.unsqueeze(1) + more, sharp.unsqueeze(1)) >= needed.unsqueeze(
        1
    )
    return torch.where(reached.any(dim=1), reached.to(torch.int8).argmax(dim=1) + 1, most)


def information(probability: Tensor) -> Tensor:
    """Expected growth of the log-evidence per answer: the divergence of `probability` from 1/2, any shape."""
    p = probability.clamp(1e-9, 1 - 1e-9)
    return (math.log(2) + torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p)).clamp(min=1e-9)
