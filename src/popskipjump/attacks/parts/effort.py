"""How much more must be asked under noise than without: from a sigmoid to a multiple of n_t^det."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from popskipjump.sigmoid import Grid, answer_correlation

_EFFORT_LIMIT = 1e4  # no cell of a posterior may ask for more, or one far tail would decide alone


def effort_of(correlation: Tensor) -> Tensor:
    """n_t / n_t^det: how much weaker an answer is than HSJ's without noise at an offset of one beta (eq. 4)."""
    return ((_reference() / correlation.clamp(min=1e-12)) ** 2).clamp(max=_EFFORT_LIMIT)


@lru_cache(maxsize=1)
def _reference() -> Tensor:
    """Correlation of HSJ's answers without noise, at an offset of one beta: float64 scalar."""
    return answer_correlation(torch.tensor(1.0, dtype=torch.float64), torch.tensor(torch.inf), 1.0)


def effort_at(offset: Tensor, slope: Tensor, spread: float, lost: Tensor) -> Tensor:
    """`effort_of` a sigmoid with known parameters."""
    return effort_of(answer_correlation(offset, slope, spread, lost))


def floor_cost(lost: Tensor) -> Tensor:
    """How many times more answers the same cosine takes at a sharp border when noise takes contrast: `(B,)` -> `(B,)`.

    The signal shrinks by 1 - lost, and the variance of an answer is q (1 - q) instead of p (1 - p), for p the share of
    adversarial answers without noise and q with it. Around a curved border random points fall mostly on the original's
    side; p was about 1/8 on MNIST. With many classes flips fall on that side too (errata E9): q = p + (1 - p) lost. See
    docs/errata.md, D4.
    """
    share = 1 / 8
    noisy = share + (1 - share) * lost
    return noisy * (1 - noisy) / (share * (1 - share) * (1 - lost) ** 2)


@lru_cache(maxsize=16)
def signal_table(grid: Grid, spread: float) -> Tensor:
    """`answer_correlation` for every lag and channel of a grid: float32 `(2n - 1, C)`."""
    lost = grid.floor.sum(dim=1)
    return answer_correlation(grid.lag.unsqueeze(1), torch.pow(10.0, grid.log_slope), spread, lost).to(torch.float32)


@lru_cache(maxsize=16)
def effort_table(grid: Grid, spread: float) -> Tensor:
    """`effort_of` every lag and channel of a grid: float32 `(2n - 1, C)`."""
    return effort_of(signal_table(grid, spread))
