"""Where to ask next: mutual information, or the sample size that is expected after the answer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from popskipjump.sigmoid.model import Grid, entropy
from popskipjump.sigmoid.posterior import SigmoidPosterior

_NOTHING = np.float32(1e-30)  # the smallest total weight: refuted beliefs are renewed before they are used
_UNLIKELY = np.float32(1e-7)


def mutual_information(posterior: SigmoidPosterior) -> tuple[Tensor, Tensor]:
    """Information that an answer at each position carries on (z, s, eps): I = H(E p) - E H(p).

    Two matrix products against low-rank tables, for all images at once.

    Returns:
        `(B, n - 1)` nats, and `(B,)` the total weight of each image.
    """
    weights, factors = posterior.weights, posterior.grid.factors
    images, _, channels = weights.shape
    flat = weights.reshape(-1, channels)
    by_p = _rows(flat @ factors.channel_p, images) @ factors.place_p  # (B, n)
    by_h = _rows(flat @ factors.channel_h, images) @ factors.place_h  # (B, n - 1)
    # From here on NumPy, in place: a search step of one image takes as long as the operations take to start.
    value, total = by_h[:images].numpy(), np.maximum(by_p[:images, -1].numpy(), _NOTHING)
    scale = (1 / total)[:, None]
    value *= scale
    yes = by_p[:images, :-1].numpy() * scale
    no = 1 - yes
    for share in (yes, no):
        np.maximum(share, _UNLIKELY, out=share)
        logarithm = np.log(share)
        logarithm *= share
        value += logarithm
    return torch.from_numpy(np.negative(value, out=value)), torch.from_numpy(total)


def _rows(values: Tensor, images: int) -> Tensor:
    """One row for each image, but never a single one.

    The product of a single row takes another path through the linear algebra library, with other last digits; an
    image's search must not depend on its company.
    """
    rows = values.reshape(images, -1)
    return rows if images > 1 else rows.expand(2, -1)


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
