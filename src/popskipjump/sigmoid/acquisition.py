"""Acquisition functions of the Bayesian search: mutual information, or the expected sample size after an answer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from popskipjump.sigmoid.model import Floats, Grid, entropy
from popskipjump.sigmoid.posterior import SigmoidPosterior

_NOTHING = np.float32(1e-30)  # smallest total weight; a posterior without weight is reset before it is used
# BLAS gives the same last digits for blocks of _TOGETHER rows, and for any number of rows from _MANY on.
_TOGETHER, _MANY = 4, 12
_UNLIKELY = np.float32(1e-7)


def mutual_information(posterior: SigmoidPosterior) -> tuple[Tensor, Tensor]:
    """Mutual information between the answer at each position and (z, s, eps): I = H(E p) - E H(p).

    Computed for all images at once, by matrix products with low-rank tables.

    Returns:
        `(B, n - 1)` nats, and `(B,)` the total weight of each image.
    """
    value, total = information(posterior)
    return torch.from_numpy(value), torch.from_numpy(total)


def information(posterior: SigmoidPosterior) -> tuple[Floats, Floats]:
    """`mutual_information` as NumPy arrays, the form that the search uses."""
    weights, factors = posterior.weights, posterior.grid.factors
    images, places, channels = weights.shape
    flat = weights.reshape(-1, channels)
    by_p = _rows(flat @ factors.channel_p, images) @ factors.place_p
    by_h = _rows(flat @ factors.channel_h, images) @ factors.place_h
    return _gain(by_p.numpy()[:images, :places], by_h.numpy()[:images, : places - 1])


def information_by_table(posterior: SigmoidPosterior) -> tuple[Floats, Floats]:
    """`information` from the full tables: exact, and faster than four low-rank products on a small grid."""
    images, places = len(posterior), posterior.grid.positions
    sums = (_rows(posterior.weights, images) @ posterior.grid.table).numpy()[:images]
    return _gain(sums[:, :places], sums[:, places : 2 * places - 1])


def _gain(weight: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Mutual information and total weight, from weighted sums over the posterior.

    Args:
        weight: `(B, n)` sums of weight times p at each of n - 1 positions; the last column is the total weight.
        value: `(B, n - 1)` sums of weight times the entropy of p; overwritten with the result.
    """
    # Few NumPy calls: for one image, the overhead of the calls dominates.
    total = np.maximum(weight[:, -1:], _NOTHING)
    share = np.empty((2, *value.shape), dtype=np.float32)  # predictive probability of both answers
    np.divide(weight[:, :-1], total, out=share[0])
    np.subtract(1, share[0], out=share[1])
    np.maximum(share, _UNLIKELY, out=share)
    share *= np.log(share)
    value /= -total
    value -= share[0]
    value -= share[1]
    return value, total[:, 0]


def _rows(values: Tensor, images: int) -> Tensor:
    """Reshape to one row per image, and pad small batches to a multiple of `_TOGETHER` rows.

    BLAS computes leftover rows of a small batch by another code path, with other last digits; but an image's search
    must not depend on the other images of the batch. The padding repeats the first row.
    """
    rows = values.reshape(images, -1)
    missing = -images % _TOGETHER if images < _MANY else 0
    return torch.cat((rows, rows[:1].expand(missing, -1))) if missing else rows


def exact_information(posterior: SigmoidPosterior) -> Tensor:
    """`mutual_information` in float64 from the full tables: the reference for tests of the fast version."""
    grid = posterior.grid
    weights = posterior.weights.to(torch.float64)
    weights = weights / weights.sum(dim=(1, 2), keepdim=True)
    mean_p = torch.einsum("bjc,ijc->bi", weights, _windows(grid.exact, grid.positions))
    mean_h = torch.einsum("bjc,ijc->bi", weights, _windows(grid.exact_entropy, grid.positions))
    return entropy(mean_p) - mean_h


def expected_ratio(posterior: SigmoidPosterior, table: Tensor, centre: Tensor) -> Tensor:
    """Expected sample size over the whole posterior, when directions are drawn around `centre`.

    Args:
        posterior: of B images.
        table: `(2n - 1, C)` float32: sample size by lag (sampling centre to true centre) and channel.
        centre: `(B,)` in [0, 1].

    Returns:
        float64 `(B,)`.
    """
    n = posterior.grid.positions
    place = (centre * (n - 1)).clamp(0, n - 1)
    lower = place.floor().clamp(max=n - 2).to(torch.int64)
    share = place - lower
    values = torch.empty(len(posterior), dtype=torch.float64)
    for row, (weight, index) in enumerate(zip(posterior.weights.unbind(0), lower.tolist(), strict=True)):
        flat = weight.flatten()
        at_lower, at_upper = (torch.dot(flat, table[n - 1 - i : 2 * n - 1 - i].reshape(-1)) for i in (index, index + 1))
        values[row] = ((1 - share[row]) * at_lower + share[row] * at_upper) / flat.sum()
    return values


def expected_sample_size(posterior: SigmoidPosterior, table: Tensor) -> Tensor:
    """Expected sample size after one more answer at each position, averaged over both answers (acquisition (ii)).

    Args:
        posterior: of B images.
        table: `(2n - 1, C)`, as for `expected_ratio`.

    Returns:
        float64 `(B, n - 1)`; the search queries the position with the smallest value.
    """
    result = torch.empty(len(posterior), posterior.grid.positions - 1, dtype=torch.float64)
    for row in range(len(posterior)):
        result[row] = _expected_after(posterior.grid, posterior.weights[row], table)
    return result


def _expected_after(grid: Grid, weights: Tensor, table: Tensor) -> Tensor:
    """`expected_sample_size` for one image: weights `(n, C)` -> `(n - 1,)`."""
    n = grid.positions
    weights = weights / weights.sum()
    # `_windows` gives views of shape (n - 1 positions, n centres, C).
    value = torch.zeros(n - 1, dtype=torch.float64)
    for answer in (0, 1):
        likelihood = _windows(grid.likelihood[answer], n)
        joint = likelihood * weights  # (n - 1, n, C)
        mass = joint.sum(dim=(1, 2)).to(torch.float64)
        centre = (joint.sum(dim=2).to(torch.float64) * grid.position).sum(dim=1) / mass.clamp(min=1e-30)
        after = expected_ratio(SigmoidPosterior(grid, joint), table, centre)
        value += torch.where(mass > 1e-12, mass * after, 0.0)
    return value


def _windows(table: Tensor, n: int) -> Tensor:
    """View of a lag table by query position and centre: `(2n - 2, C)` -> `(n - 1, n, C)`."""
    channels = table.shape[1]
    return table.as_strided((n - 1, n, channels), (channels, channels, 1)).flip(0)
