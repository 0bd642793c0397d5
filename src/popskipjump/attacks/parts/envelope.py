"""Where in the input directions should be strong: where the walk has changed it already, and where there is room."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from popskipjump.attacks.parts.basis import Basis
from popskipjump.geometry import l2_size, per_row
from popskipjump.types import Bounds

_FLOOR = 0.03  # square of the envelope where nothing has changed, in units of its mean
_LEAST = 0.02  # of a deviation that the bounds cut short: not nothing, to divide by
_FAR = 8.0  # standard deviations


def envelope(basis: Basis, change: Tensor) -> Tensor:
    """How strong directions should be at each value of the input, with mean square 1: `(A, d)` -> `(A, d)`.

    The square root of the change's local size: normals are large where the change is, but not as unevenly, and what
    has not been changed yet must remain within reach.
    """
    if not basis.has_spectrum:
        return torch.ones_like(change)
    mean = per_row(l2_size(change)) ** 2 / basis.dimension
    local = basis.blurred(change**2).div_(mean.clamp(min=1e-20))
    strength = local.clamp_(min=0).sqrt_().add_(_FLOOR).sqrt_()
    return strength.mul_(math.sqrt(basis.dimension) / per_row(l2_size(strength)))


def evenness(spread: Tensor) -> Tensor:
    """The share of the input that an envelope is spread over, as a participation ratio: `(A, d)` -> `(A,)`."""
    size: Tensor = l2_size(spread**2)
    return spread.shape[1] / size**2


def within_bounds(centre: Tensor, deviation: Tensor, bounds: Bounds) -> Tensor:
    """Standard deviation of a clipped normal number, in units of that without clipping.

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
    """What raising a standard normal number to a lower bound does to its mean and to its mean square: any shape."""
    bound = bound.clamp_(-_FAR, _FAR)
    density = torch.exp(bound.square().mul_(-0.5)).mul_(1 / math.sqrt(2 * math.pi))
    share = torch.erf(bound * math.sqrt(0.5)).add_(1).mul_(0.5)
    mean = torch.addcmul(density, bound, share)
    return mean, (bound * mean).sub_(share)
