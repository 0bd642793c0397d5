"""Where to ask next: mutual information, or the sample size that is expected after the answer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from popskipjump.sigmoid.model import Floats, Grid, entropy
from popskipjump.sigmoid.posterior import SigmoidPosterior

_NOTHING = np.float32(1e-30)  # the smallest total weight: refuted beliefs are renewed before they are used
_TOGETHER, _MANY = 4, 12  # rows of a product that share their last digits; from so many on, any number of them
_UNLIKELY = np.float32(1e-7)


def mutual_information(posterior: SigmoidPosterior) -> tuple[Tensor, Tensor]:
    """Information that an answer at each position carries on (z, s, eps): I = H(E p) - E H(p).

    Two matrix products against low-rank tables, for all images at once.

    Returns:
        `(B, n - 1)` nats, and `(B,)` the total weight of each image.
    """
    value, total = information(posterior)
    return torch.from_numpy(value), torch.from_numpy(total)


def information(posterior: SigmoidPosterior) -> tuple[Floats, Floats]:
    """`mutual_information` as NumPy arrays, on which a search goes on."""
    weights, factors = posterior.weights, posterior.grid.factors
    images, places, channels = weights.shape
    flat = weights.reshape(-1, channels)
    by_p = _rows(flat @ factors.channel_p, images) @ factors.place_p
    by_h = _rows(flat @ factors.channel_h, images) @ factors.place_h
    return _gain(by_p.numpy()[:images, :places], by_h.numpy()[:images, : places - 1])


def information_by_table(posterior: SigmoidPosterior) -> tuple[Floats, Floats]:
    """`information` from the full tables: for a small grid one product is faster than four, and exact."""
    images, places = len(posterior), posterior.grid.positions
    sums = (_rows(posterior.weights, images) @ posterior.grid.table).numpy()[:images]
    return _gain(sums[:, :places], sums[:, places : 2 * places - 1])


def _gain(weight: Floats, value: Floats) -> tuple[Floats, Floats]:
    """The information and the total weight, from sums of weights.

    Args:
        weight: `(B, n)` times p at each position, and the total.
        value: `(B, n - 1)` times the entropy of p; written over.
    """
    # NumPy, and few steps of it: for one image they take as long as they take to start.
    total = np.maximum(weight[:, -1:], _NOTHING)
    share = np.empty((2, *value.shape), dtype=np.float32)  # of both answers
    np.divide(weight[:, :-1], total, out=share[0])
    np.subtract(1, share[0], out=share[1])
    np.maximum(share, _UNLIKELY, out=share)
    share *= np.log(share)
    value /= -total
    value -= share[0]
    value -= share[1]
    return value, total[:, 0]


def _rows(values: Tensor, images: int) -> Tensor:
    """One row for each image, but few of them by fours.

    The linear algebra library takes what is left of few rows on another path, with other last digits; an image's search
    must not depend on its company. The first one comes again to fill up.
    """
    rows = values.reshape(images, -1)
    missing = -images % _TOGETHER if images < _MANY else 0
    return torch.cat((rows, rows[:1].expand(missing, -1))) if missing else rows


def exact_information(posterior: SigmoidPosterior) -> Tensor:
    """`mutual_information` in float64 from the full tables, one cell at a time: what the fast one is tested with."""
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
        table: `(2n - 1, C)` float32: sample size by lag between sampling centre and true centre, and by channel.
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
    """Sample size that is expected after an answer at each position, over both answers (acquisition (ii)).

    Args:
        posterior: of B images.
        table: `(2n - 1, C)`, as for `expected_ratio`.

    Returns:
        float64 `(B, n - 1)`; the position with the smallest value is the one to ask.
    """
    result = torch.empty(len(posterior), posterior.grid.positions - 1, dtype=torch.float64)
    for row in range(len(posterior)):
        result[row] = _expected_after(posterior.grid, posterior.weights[row], table)
    return result


def _expected_after(grid: Grid, weights: Tensor, table: Tensor) -> Tensor:
    """`expected_sample_size` of one image: weights `(n, C)` -> `(n - 1,)`."""
    n = grid.positions
    weights = weights / weights.sum()
    # windows[i] is the table as seen from position i: (n - 1 positions, n centres, C), a view.
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
    """What all askable positions see of a table: `(2n - 2, C)` -> `(n - 1, n, C)`."""
    channels = table.shape[1]
    return table.as_strided((n - 1, n, channels), (channels, channels, 1)).flip(0)
