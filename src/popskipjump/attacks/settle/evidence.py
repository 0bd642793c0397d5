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
# Half of the stake is on a classifier without noise, which eight agreeing answers then confirm at a level of 1%.
_PROBABILITY = torch.cat((_EVEN, torch.ones(1, dtype=torch.float64)))
_LOG_STAKE = torch.cat((torch.full((_NODES,), 0.5 / _NODES), torch.tensor([0.5]))).to(torch.float64).log()

FIRST_SHARE = 0.8  # of the level, for the first position; the others share the rest


def log_evidence(yes: Tensor, asked: Tensor) -> Tensor:
    """Logarithm of the e-value against P(adversarial) <= 1/2.

    Args:
        yes: `(A,)` adversarial answers.
        asked: `(A,)` all answers.

    Returns:
        float64 `(A,)`; 0 without an answer.
    """
    hits, misses = yes.to(torch.float64).unsqueeze(-1), (asked - yes).to(torch.float64).unsqueeze(-1)
    # xlogy: no miss costs nothing, even for the bet that there is none.
    wealth = torch.xlogy(hits, 2 * _PROBABILITY) + torch.xlogy(misses, 2 * (1 - _PROBABILITY))
    return torch.logsumexp(wealth + _LOG_STAKE, dim=-1)


def threshold(level: float, place: Tensor) -> Tensor:
    """Log-evidence that confirms the n-th position of an image: `(A,)` counted from 0 -> float64 `(A,)`.

    The level is split over the positions that an image tries: `FIRST_SHARE` for the first, then
    (1 - FIRST_SHARE) / (n (n + 1)); the shares sum to at most the level, for any number of positions.
    """
    number = place.to(torch.float64)
    share = torch.where(place == 0, FIRST_SHARE, (1 - FIRST_SHARE) / (number * (number + 1)).clamp(min=1.0))
    return -(level * share).log()


def agreeing_needed(yes: Tensor, asked: Tensor, needed: Tensor, most: int) -> Tensor:
    """Number of further answers that would confirm if all were adversarial, at most `most`: int64 `(A,)`."""
    more = torch.arange(1, most + 1)
    reached = log_evidence(yes.unsqueeze(1) + more, asked.unsqueeze(1) + more) >= needed.unsqueeze(1)
    return torch.where(reached.any(dim=1), reached.to(torch.int8).argmax(dim=1) + 1, most)


def information(probability: Tensor) -> Tensor:
    """Expected growth of the log-evidence per answer: the divergence of `probability` from 1/2, any shape."""
    p = probability.clamp(1e-9, 1 - 1e-9)
    return (math.log(2) + torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p)).clamp(min=1e-9)
