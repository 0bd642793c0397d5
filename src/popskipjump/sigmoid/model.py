"""The noisy sigmoid along a search line (eq. 2), and the grid of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from popskipjump.arguments import check_types
from popskipjump.elementwise import logistic
from popskipjump.errors import InputError
from popskipjump.geometry import REGISTER

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

_RANK_TOLERANCE = 1e-5  # relative to the largest singular value; at 1e-3 up to 16% of the information was lost
_SURE = 1e-6  # probabilities are clamped to [_SURE, 1 - _SURE], so that no answer has likelihood 0


def noisy_sigmoid(
    position: Tensor, centre: Tensor, slope: Tensor, low: Tensor | float = 0.0, high: Tensor | float = 0.0
) -> Tensor:
    """Probability of the original's class at a position of the search line (eq. 2).

    p_c(x) = low + (1 - low - high) sigma(s (x - z)) with sigma(x) = 1 / (1 + exp(-4 x)); the paper's eps is
    low = high. All arguments broadcast; position 0 is the adversarial end, 1 the original.
    """
    return low + (1 - low - high) * logistic(4 * slope * (position - centre))


def entropy(probability: Tensor) -> Tensor:
    """Binary entropy in nats, for probabilities of any shape strictly between 0 and 1."""
    other = 1 - probability
    return -(probability * probability.log() + other * other.log())


class LowRank(NamedTuple):
    """Low-rank factors of the probability and entropy tables; float32, padded with columns of zeros."""

    channel_p: Tensor  # (C, r), the first column all ones
    place_p: Tensor  # (n r, n), the last column for the total weight
    channel_h: Tensor  # (C, q)
    place_h: Tensor  # (n q, n - 1)


@dataclass(frozen=True)
class Grid:
    """Grid of the sigmoid's parameters (z, s, eps), with tables of p for all combinations.

    The centres z are n points of [0, 1]. The query positions x are the n - 1 midpoints between them, because at
    x = z the answer is a fair coin even for the sharpest boundary. A channel is one combination of slope and floors.
    p depends on x and z only through the lag x - z, so its table has 2 n - 2 rows.

    Args:
        positions: n, number of centres.
        slopes: number of slopes, evenly spaced in log10.
        slope_range: log10 of the smallest and of the largest slope.
        floors: (low, high) pairs: the noise at the adversarial and at the original end. The paper has low = high.
    """

    positions: int = 101
    slopes: int = 16
    slope_range: tuple[float, float] = (-0.5, 2.5)
    floors: tuple[tuple[float, float], ...] = ((0.0, 0.0), (0.05, 0.05), (0.15, 0.15), (0.3, 0.3))

    def __post_init__(self) -> None:
        check_types(self)
        if self.positions < 3 or self.slopes < 1 or not self.floors:
            raise InputError(f"a grid needs 3 positions, 1 slope and 1 pair of floors at least: {self}.")
        pairs = all(isinstance(pair, tuple) and len(pair) == 2 for pair in self.floors)
        if not pairs or any(low < 0 or high < 0 or low + high >= 1 for low, high in self.floors):
            raise InputError(f"floors must be pairs of at least 0 with low + high < 1, not {self.floors}.")
        if len(self.slope_range) != 2 or self.slope_range[0] > self.slope_range[1]:
            raise InputError(f"slope_range goes from the smallest to the largest slope, not {self.slope_range}.")

    @property
    def channels(self) -> int:
        """Number of (slope, floors) pairs."""
        return self.slopes * len(self.floors)

    @cached_property
    def position(self) -> Tensor:
        """`(n,)` float64: the centres."""
        return torch.linspace(0, 1, self.positions, dtype=torch.float64)

    @cached_property
    def askable(self) -> Tensor:
        """`(n - 1,)` float64: the query positions."""
        return (self.position[1:] + self.position[:-1]) / 2

    @cached_property
    def log_slope(self) -> Tensor:
        """`(C,)` float64: log10 s of each channel."""
        values = torch.linspace(*self.slope_range, self.slopes, dtype=torch.float64)
        return values.repeat(len(self.floors))

    @cached_property
    def floor(self) -> Tensor:
        """`(C, 2)` float64: low and high of each channel."""
        return torch.tensor(self.floors, dtype=torch.float64).repeat_interleave(self.slopes, dim=0)

    @cached_property
    def parameters(self) -> Tensor:
        """`(3, C)` float64: log10 s, low and high of each channel."""
        return torch.stack((self.log_slope, *self.floor.unbind(dim=1)))

    def stretched(self, belief: Tensor, factor: Tensor) -> Tensor:
        """Channel probabilities, converted to search lines `factor` times as long: `(B, C)`, `(B,)` -> `(B, C)`.

        In units of a longer line the same transition is steeper. Probability that falls between two grid slopes is
        split between them by linear interpolation. The steepest grid slope represents all steeper ones, so its
        probability stays there on shorter lines too.
        """
        if self.slopes == 1:
            return belief
        last = self.slopes - 1
        low, high = self.slope_range
        moved = torch.arange(self.slopes) + (factor.log10() * last / (high - low)).unsqueeze(1)  # (B, slopes)
        moved = moved.clamp(0, last)
        moved[:, last] = last
        below = moved.floor().clamp(max=last - 1)
        by_slope = belief.reshape(len(belief), -1, self.slopes)
        above = by_slope * (moved - below).unsqueeze(1)
        where = below.to(torch.int64).unsqueeze(1).expand_as(by_slope)
        new = torch.zeros_like(by_slope).scatter_add_(2, where, by_slope - above).scatter_add_(2, where + 1, above)
        return new.reshape(belief.shape)

    @cached_property
    def lag(self) -> Tensor:
        """`(2n - 1,)` float64, decreasing: lags between centres; rows n-1-i .. 2n-2-i are those of centre i."""
        step = 1 / (self.positions - 1)
        return torch.arange(self.positions - 1, -self.positions, -1, dtype=torch.float64) * step

    def seen_from(self, index: int) -> slice:
        """The rows of a table of p for query position `index` and the centres 0 .. n - 1."""
        return slice(self.positions - 2 - index, 2 * self.positions - 2 - index)

    @cached_property
    def exact(self) -> Tensor:
        """`(2n - 2, C)` float64: p_c by lag (query position minus centre) and channel."""
        low, high = self.floor.unbind(dim=1)
        lag = (self.lag[1:] + self.lag[:-1]) / 2
        table = noisy_sigmoid(lag.unsqueeze(1), torch.zeros(()), 10**self.log_slope, low, high)
        return table.clamp(_SURE, 1 - _SURE)

    @cached_property
    def exact_entropy(self) -> Tensor:
        """`(2n - 2, C)` float64: entropy of p_c by lag and channel."""
        return entropy(self.exact)

    @cached_property
    def likelihood(self) -> tuple[Tensor, Tensor]:
        """`(2n - 2, C)` float32 twice: probability of the answers False (the original's class) and True."""
        return self.exact.to(torch.float32), (1 - self.exact).to(torch.float32)

    @cached_property
    def windows(self) -> tuple[list[Floats], list[Floats]]:
        """Likelihoods of the answers False and True at each query position: n - 1 views `(n, C)` of `likelihood`."""
        false, true = (
            [table.numpy()[self.seen_from(index)] for index in range(self.positions - 1)] for table in self.likelihood
        )
        return false, true

    @cached_property
    def factors(self) -> LowRank:
        """Low-rank factors of the tables, for `mutual_information`."""
        # The first column sums the weights. Factoring p - 1/2 instead of p saves one rank.
        left_p, right_p = _low_rank(self.exact - 0.5)
        left_h, right_h = _low_rank(self.exact_entropy)
        left_p, right_p = (functional.pad(part, (1, 0)) for part in (left_p, right_p))
        left_p[:, 0], right_p[:, 0] = 1.0, 0.5
        left_p, right_p, left_h, right_h = map(_filled, (left_p, right_p, left_h, right_h))
        place_p = functional.pad(self._by_position(right_p), (0, 1))
        place_p[:: right_p.shape[1], -1] = 1.0
        left_p, left_h = left_p.to(torch.float32), left_h.to(torch.float32)
        return LowRank(left_p, _filled(place_p), left_h, _filled(self._by_position(right_h)))

    @cached_property
    def table(self) -> Tensor:
        """`(n C, 2n - 1)` float32, padded: p at each position, ones for the total weight, and the entropies."""
        p, h = (self._by_position(table) for table in (self.exact, self.exact_entropy))
        return _filled(torch.cat((p, torch.ones(len(p), 1), h), dim=1))

    def _by_position(self, factor: Tensor) -> Tensor:
        """Spread a `(2n - 2, r)` factor over centres and positions: float32 `(n r, n - 1)`."""
        asked = range(self.positions - 1)
        spread = torch.stack([factor[self.seen_from(i)] for i in asked], dim=-1)  # (n centres, r, n - 1)
        return spread.reshape(-1, len(asked)).to(torch.float32).contiguous()


def _filled(matrix: Tensor) -> Tensor:
    """Pad with columns of zeros to a multiple of the vector register size.

    On some processors, leftover columns make the last digits of a row depend on its place in the batch.
    """
    return functional.pad(matrix, (0, -matrix.shape[1] % REGISTER))


def _low_rank(table: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of a `(2n - 2, C)` table: `(C, r)` and `(2n - 2, r)`."""
    left, values, right = torch.linalg.svd(table, full_matrices=False)
    rank = int((values > _RANK_TOLERANCE * values[0]).sum())
    root = values[:rank].sqrt()
    return right[:rank].T * root, left[:, :rank] * root


@lru_cache(maxsize=16)
def shared_grid(grid: Grid) -> Grid:
    """The same grid, so that equal configurations share one set of tables."""
    return grid
