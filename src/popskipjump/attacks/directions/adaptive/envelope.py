"""Envelope of the directions: their standard deviation at each coordinate, large where the input has changed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from popskipjump.attacks.directions.adaptive.dct import Basis
from popskipjump.geometry import l2_size, per_row
from popskipjump.types import Bounds

_FLOOR = 0.03  # square of the envelope where nothing has changed, in units of its mean
_LEAST = 0.02  # smallest ratio of the clipped to the unclipped deviation, because it is a divisor
_FAR = 8.0  # standard deviations; bounds farther away have no effect


def envelope(basis: Basis, change: Tensor) -> Tensor:
    """Relative standard deviation of the directions at each coordinate, with mean square 1: `(A, d)` -> `(A, d)`.

    It is the square root of the local size of the change from the original. Normals are large where the change is
    large, but less unevenly, and coordinates without a change must still be sampled.
    """
    if not basis.has_spectrum:
        return torch.ones_like(change)
    mean = per_row(l2_size(change)) ** 2 / basis.dimension
    local = basis.blurred(change**2).div_(mean.clamp(min=1e-20))
    strength = local.clamp_(min=0).sqrt_().add_(_FLOOR).sqrt_()
    return strength.mul_(math.sqrt(basis.dimension) / per_row(l2_size(strength)))


def evenness(spread: Tensor) -> Tensor:
    """Participation ratio of an envelope: the fraction of the coordinates that it covers, `(A, d)` -> `(A,)`."""
    size: Tensor = l2_size(spread**2)
    return spread.shape[1] / size**2


def within_bounds(centre: Tensor, deviation: Tensor, bounds: Bounds) -> Tensor:
    """Standard deviation of a normal number clipped to the bounds, relative to the unclipped one.

    Args:
        centre: `(A, d)`.
        deviation: `(A, d)` before clipping.
        bounds: of the inputs.
    """
    scale = deviation.clamp(min=1e-12).reciprocal_()
    below = _cut_off((bounds.low - centre).mul_(scale))
    above = _cut_off((centre - bounds.high).mul_(scale))
    mean = below[0].sub_(above[0])
    variance = below[1].add_(above[1]).add_(1).sub_(mean.square_())
    return variance.clamp_(min=_LEAST**2).sqrt_()


def _cut_off(bound: Tensor) -> tuple[Tensor, Tensor]:
    """Change of the mean and mean square of a standard normal number by clipping at a lower bound: any shape."""
    bound = bound.clamp_(-_FAR, _FAR)
    density = torch.exp(bound.square().mul_(-0.5)).mul_(1 / math.sqrt(2 * math.pi))
    share = torch.erf(bound * math.sqrt(0.5)).add_(1).mul_(0.5)
    mean = torch.addcmul(density, bound, share)
    return mean, (bound * mean).sub_(share)
