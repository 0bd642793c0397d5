"""Learning from the answers in which frequencies the border's normal lies."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.parts.basis import Basis
from popskipjump.geometry import per_row

_STRENGTHS = (0.0005, 0.002, 0.006, 0.02, 0.05, 0.1, 0.2, 0.4, 0.64)  # squared correlation of answer and normal
_EVEN = 0.03  # share of the even spectrum that no evidence removes


class Evidence(NamedTuple):
    """Decaying sums over an image's answers y and displacements z, in coefficients."""

    signal: Tensor  # (A, d) sum of (y - mean y) z
    weight: Tensor  # (A, N) sum of z^2, of one coefficient in each band
    noise: Tensor  # (A, N) variance of `signal`, of one coefficient in each band

    def after(self, new: Evidence, decay: float) -> Evidence:
        """These sums, faded, and the new ones."""
        return Evidence(
            torch.add(new.signal, self.signal, alpha=decay),
            torch.add(new.weight, self.weight, alpha=decay),
            torch.add(new.noise, self.noise, alpha=decay**2),
        )


class Belief(NamedTuple):
    """What the evidence says of the normal's spectrum."""

    variance: Tensor  # (A, N) of one coefficient of the unit normal, by band; adds up to 1 over the coefficients
    strength: Tensor  # (A,) squared correlation of the answers with the normal


def even(basis: Basis, images: int, device: torch.device) -> Belief:
    """Before any evidence."""
    variance = basis.candidates[0].to(device).expand(images, -1)
    return Belief(variance, torch.full((images,), 0.3, device=device))


def infer(basis: Basis, evidence: Evidence) -> Belief:
    """Weigh the candidate spectra by the evidence and average them.

    Under candidate j with strength s, coefficient k of the signal is normal with mean 0 and variance
    noise + s tau_jk^2 weight^2: its likelihood depends on the energies of the bands alone.
    """
    device = evidence.signal.device
    candidates, size = basis.candidates.to(device), basis.size.tolist()
    strengths = torch.tensor(_STRENGTHS).to(device)
    energy = basis.by_band(evidence.signal**2)
    prior = (strengths.reshape(-1, 1, 1) * candidates).flatten(0, 1).T.contiguous()  # (N, s J)
    squares, noise = evidence.weight**2, evidence.noise.clamp(min=1e-30)
    fits = torch.zeros(len(energy), prior.shape[1], device=device)
    # Band by band and without a sum or product over them: what an image believes must not depend on its company, as the
    # last digits of a matrix product do.
    for band, (tau, square, rest, found) in enumerate(zip(prior, squares.T, noise.T, energy.T, strict=True)):
        variance = torch.addcmul(per_row(rest), per_row(square), tau)
        fits.addcdiv_(per_row(found), variance).add_(variance.log_(), alpha=size[band])
    belief = torch.softmax(-0.5 * fits, dim=1).reshape(len(energy), len(strengths), -1)
    by_candidate = belief.sum(dim=1)  # (A, J)
    mean = (by_candidate.unsqueeze(2) * candidates).sum(dim=1)
    return Belief((1 - _EVEN) * mean + _EVEN * candidates[0], (belief.sum(dim=2) * strengths).sum(dim=1))


def amplitudes(basis: Basis, belief: Belief, least: float) -> Tensor:
    """Standard deviation of one coefficient of the directions to ask, by band, for directions of length 1: `(A, N)`.

    Directions follow the normal: variance for variance, but never below a part `least` of the largest.
    """
    share = belief.variance / belief.variance.amax(dim=1, keepdim=True)
    variance = share.clamp(min=least)
    return (variance / (variance * basis.size.to(variance.device)).sum(dim=1, keepdim=True)).sqrt()


def filtered(basis: Basis, belief: Belief, new: Evidence) -> Tensor:
    """The mean a posteriori of the normal, from one iteration's sums and the believed spectrum: `(A, d)`."""
    prior = belief.strength.unsqueeze(1) * belief.variance
    gain = prior * new.weight / (prior * new.weight**2 + new.noise).clamp(min=1e-30)
    return new.signal * basis.spread(gain)
