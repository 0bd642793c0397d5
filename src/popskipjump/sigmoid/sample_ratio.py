"""The sample ratio n_t / n_t^det: number of directions under noise, relative to HopSkipJump's without noise."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from popskipjump.elementwise import power
from popskipjump.sigmoid.acquisition import expected_ratio
from popskipjump.sigmoid.model import Grid
from popskipjump.sigmoid.posterior import Estimate, Marginals, SigmoidPosterior
from popskipjump.sigmoid.sample_size import answer_correlation

SampleSize = Literal["signal", "point", "centre", "posterior"]

_LARGEST = 1e4  # cap on the ratio of one posterior cell: without it, a far tail would dominate the mean
_TAIL = 10.0  # cap on the ratio at one position, relative to the ratio at the centre (docs/errata.md, D3)


def ratio_of(correlation: Tensor) -> Tensor:
    """Sample ratio n_t / n_t^det for a correlation; the reference is noiseless HSJ at an offset of one beta (eq. 4)."""
    return ((_reference() / correlation.clamp(min=1e-12)) ** 2).clamp(max=_LARGEST)


@lru_cache(maxsize=1)
def _reference() -> Tensor:
    """Answer correlation of HSJ without noise, at an offset of one beta: float64 scalar."""
    return answer_correlation(torch.tensor(1.0, dtype=torch.float64), torch.tensor(torch.inf), 1.0)


def ratio_at(offset: Tensor, slope: Tensor, spread: float, lost: Tensor) -> Tensor:
    """Sample ratio of a sigmoid with known parameters."""
    return ratio_of(answer_correlation(offset, slope, spread, lost))


def floor_cost(lost: Tensor) -> Tensor:
    """Factor by which the floors raise the sample size for a given cosine at a sharp boundary: `(B,)` -> `(B,)`.

    The signal shrinks by the factor 1 - lost. The variance of an answer changes from p (1 - p) to q (1 - q), where p
    and q are the shares of adversarial answers without and with noise. Around a curved boundary most random points
    are on the original's side; p was about 1/8 on MNIST. With many classes, flipped answers there are adversarial
    (errata E9): q = p + (1 - p) lost. See docs/errata.md, D4.
    """
    share = 1 / 8
    noisy = share + (1 - share) * lost
    return noisy * (1 - noisy) / (share * (1 - share) * (1 - lost) ** 2)


@lru_cache(maxsize=16)
def signal_table(grid: Grid, spread: float) -> Tensor:
    """`answer_correlation` for every lag and channel of a grid: float32 `(2n - 1, C)`."""
    lost = grid.floor.sum(dim=1)
    return answer_correlation(grid.lag.unsqueeze(1), power(10.0, grid.log_slope), spread, lost).to(torch.float32)


@lru_cache(maxsize=16)
def ratio_table(grid: Grid, spread: float) -> Tensor:
    """Sample ratio for every lag and channel of a grid: float32 `(2n - 1, C)`."""
    return ratio_of(signal_table(grid, spread))


def sample_ratio(
    kind: SampleSize, posterior: SigmoidPosterior, belief: Marginals, estimate: Estimate, spread: float
) -> Tensor:
    """Sample ratio of each image, given its posterior: float64 `(B,)`.

    Args:
        kind: the ratio at the posterior mean of the correlation ("signal"), the ratio at the point estimate ("point"),
            or the expected ratio over the posterior of the centre ("centre", Algorithm 1) or over the whole posterior
            ("posterior").
        posterior: of B sigmoids.
        belief: marginals of `posterior`.
        estimate: point estimate of `posterior`.
        spread: beta, in units of the search line.
    """
    if kind == "signal":
        return ratio_of(expected_ratio(posterior, signal_table(posterior.grid, spread), estimate.centre))
    if kind == "posterior":
        return expected_ratio(posterior, ratio_table(posterior.grid, spread), estimate.centre)
    slope, lost = estimate.slope.unsqueeze(1), estimate.lost.unsqueeze(1)
    here = torch.zeros_like(slope)
    if kind == "point":
        return ratio_at(here, slope, spread, lost).squeeze(1)
    offset = torch.cat((here, posterior.grid.position - estimate.centre.unsqueeze(1)), dim=1)
    ratio = ratio_at(offset, slope, spread, lost)  # the first column is the ratio at the centre
    return (belief.centre * torch.minimum(ratio[:, 1:], _TAIL * ratio[:, :1])).sum(dim=1)
