"""Posterior of the noisy sigmoids of a batch of search lines: weights on a grid of (z, s, eps)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.elementwise import power
from popskipjump.sigmoid.model import Floats, Grid

_TOTAL = 2.0**60  # total of new and rescaled weights: far above 1, so that cells can shrink long without underflow
_SMALL = 2.0**20  # weights are rescaled below this total, long before float32 underflows
# Weights below _GONE are set to 0, because arithmetic with subnormal float32 takes twice the time. One answer shrinks a
# weight at most by 10^-6, and checking all weights takes time, so they are checked every _LOOK_EVERY answers.
_GONE, _LOOK_EVERY = 1e-18, 3


class Estimate(NamedTuple):
    """Point estimate of each image's sigmoid."""

    centre: Tensor  # (B,) z
    log_slope: Tensor  # (B,) log10 s
    low: Tensor  # (B,) noise at the adversarial end
    high: Tensor  # (B,) noise at the original

    @property
    def slope(self) -> Tensor:
        """`(B,)` s."""
        return power(10.0, self.log_slope)

    @property
    def lost(self) -> Tensor:
        """`(B,)` loss of contrast by the floors, low + high; 2 eps in the paper."""
        return self.low + self.high


class Marginals(NamedTuple):
    """Marginal posteriors of the centre and of the channel."""

    grid: Grid
    centre: Tensor  # (B, n) float64
    channel: Tensor  # (B, C) float64

    def mean(self) -> Estimate:
        """Posterior mean; for the slope, the mean of log10 s, in which the prior is uniform."""
        centre = (self.centre * self.grid.position).sum(dim=1)
        log_slope, low, high = (self.channel.unsqueeze(1) * self.grid.parameters).sum(dim=2).unbind(dim=1)
        return Estimate(centre, log_slope, low, high)

    def likely_floors(self) -> Tensor:
        """The most probable pair of floors (ties: the first): float64 `(B, 2)`."""
        belief = self.channel.reshape(len(self.channel), -1, self.grid.slopes).sum(dim=2)
        best = torch.from_numpy(belief.numpy().argmax(axis=1))
        return self.grid.floor[best * self.grid.slopes]

    def centre_quantile(self, level: float) -> Tensor:
        """Posterior quantile of the centre, interpolated between grid points: `(B,)` float64."""
        below = self.centre.cumsum(dim=1)
        upper = (below < level).sum(dim=1).clamp(max=self.grid.positions - 1)
        rows = torch.arange(len(below))
        before = torch.where(upper > 0, below[rows, (upper - 1).clamp(min=0)], 0.0)
        share = ((level - before) / (below[rows, upper] - before).clamp(min=1e-12)).clamp(0, 1)
        # Each grid point represents the cell around it.
        return ((upper - 0.5 + share) / (self.grid.positions - 1)).clamp(0, 1)

    def centre_moments(self) -> tuple[Tensor, Tensor]:
        """Posterior mean and standard deviation of the centre: `(B,)` float64 each."""
        # NumPy has half of torch's call overhead, and a search calls this after every answer.
        belief, place = self.centre.numpy(), self.grid.position.numpy()
        mean = (belief * place).sum(axis=1)
        off = place - mean[:, np.newaxis]
        off *= off
        off *= belief
        return torch.from_numpy(mean), torch.from_numpy(np.sqrt(off.sum(axis=1)))


class SigmoidPosterior:
    """Posterior on a grid for each image, as unnormalised weights; every method divides by their sum.

    `update` works in place, because the weights are the largest array that a search reads and writes.
    """

    def __init__(self, grid: Grid, weights: Tensor, learned: int = 0) -> None:
        self.grid = grid
        self.weights = weights  # (B, n, C) float32
        self._learned = learned  # number of answers per image so far

    @classmethod
    def uniform(cls, grid: Grid, images: int) -> SigmoidPosterior:
        """Uniform prior: the same weight in every cell."""
        cells = grid.positions * grid.channels
        return cls(grid, torch.full((images, grid.positions, grid.channels), _TOTAL / cells, dtype=torch.float32))

    @classmethod
    def product(cls, grid: Grid, centre: Tensor, channel: Tensor) -> SigmoidPosterior:
        """Prior with independent centre and channel: probabilities `(B, n)` and `(B, C)`, each summing to 1."""
        return cls(grid, (_TOTAL * centre.unsqueeze(2) * channel.unsqueeze(1)).to(torch.float32))

    def __len__(self) -> int:
        return len(self.weights)

    def select(self, rows: Tensor) -> SigmoidPosterior:
        """The posteriors of a subset of the images, given by indices `(A,)` or by a mask `(B,)`."""
        if rows.dtype == torch.bool:
            rows = rows.nonzero().flatten()
        return SigmoidPosterior(self.grid, self.weights.index_select(0, rows), self._learned)

    def update(self, index: list[int], answers: list[bool]) -> None:
        """Bayes update with one answer for each image.

        Args:
            index: the query position of each image, B indices into the grid's query positions.
            answers: B answers, True = adversarial.
        """
        windows = self.grid.windows
        # A loop is faster than one gather, because it reads views of the table instead of copying it for every image.
        # NumPy has half of torch's call overhead, and there is one product for every image and query of a search.
        for weight, place, answer in zip(self.weights.numpy(), index, answers, strict=True):
            np.multiply(weight, windows[answer][place], out=weight)
        self._learned += 1
        if self._learned % _LOOK_EVERY == 0:
            torch.threshold_(self.weights, _GONE, 0.0)

    def rescale(self, total: Tensor | Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Rescale weights whose total `(B,)` has become small, by powers of two, which cause no rounding.

        Returns:
            bool `(B,)`: the images whose weights were rescaled.
        """
        small = (total.numpy() if isinstance(total, Tensor) else total) < _SMALL
        for row in np.flatnonzero(small).tolist() if small.any() else ():
            mass = float(self.weights[row].sum())
            if mass > 0:
                self.weights[row].mul_(_TOTAL * 2.0 ** -math.frexp(mass)[1])
            else:  # every weight is 0: restart from the uniform prior rather than divide by zero
                self.weights[row].fill_(_TOTAL / self.weights[row].numel())
        return small

    def marginals(self) -> Marginals:
        """Marginal posteriors of the centre and of the channel."""
        return Marginals(self.grid, self.centre_marginal(), self.channel_marginal())

    def centre_marginal(self) -> Tensor:
        """Posterior probability of each centre: float64 `(B, n)`."""
        mass = self.weights.sum(dim=2).to(torch.float64)
        return mass / mass.sum(dim=1, keepdim=True)

    def channel_marginal(self) -> Tensor:
        """Posterior probability of each channel (slope, floors): float64 `(B, C)`."""
        mass = self.weights.sum(dim=1).to(torch.float64)
        return mass / mass.sum(dim=1, keepdim=True)

    def mean(self) -> Estimate:
        """See `Marginals`."""
        return self.marginals().mean()

    def mode(self) -> Estimate:
        """Maximum a posteriori estimate (ties: the first cell)."""
        best = torch.from_numpy(self.weights.flatten(1).numpy().argmax(axis=1))
        place, channel = best // self.grid.channels, best % self.grid.channels
        low, high = self.grid.floor[channel].unbind(dim=1)
        return Estimate(self.grid.position[place], self.grid.log_slope[channel], low, high)

    def likely_floors(self) -> Tensor:
        """See `Marginals`."""
        return self.marginals().likely_floors()

    def centre_quantile(self, level: float) -> Tensor:
        """See `Marginals`."""
        return self.marginals().centre_quantile(level)

    def centre_deviation(self) -> Tensor:
        """Posterior standard deviation of the centre: `(B,)` float64."""
        return self.marginals().centre_moments()[1]
