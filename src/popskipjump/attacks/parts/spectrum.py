"""Learning from the answers in which frequencies the border's normal lies."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.parts.basis import Basis
from popskipjump.geometry import per_row, row_sums

_STRENGTHS = (0.0005, 0.002, 0.006, 0.02, 0.05, 0.1, 0.2, 0.4, 0.64)  # squared correlation of answer and normal
_UNKNOWN = 0.3  # the same, before any answer
_USUAL = 0.7  # of the strength that the noise leaves to be expected: borders are not flat
_FACTOR = 1.0  # natural logarithm of a usual factor between the strength and this
_ANY = 0.1  # share of a prior of the strength that knows nothing
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
    """Nothing is known of the spectrum."""
    variance = basis.candidates[0].to(device).expand(images, -1)
    return Belief(variance, torch.full((images,), _UNKNOWN, device=device))


def resemblance(basis: Basis, change: Tensor, power: float) -> Tensor:
    """How likely each candidate is before any evidence: `(A, d)` -> logarithms `(A, J)`.

    Where the border is nearest, the change from the original is parallel to the normal, and elsewhere still alike: a
    candidate counts by a power of the overlap (Bhattacharyya's coefficient) of its spectrum and the change's.
    """
    energy = basis.by_band(basis.to_coefficients(change) ** 2)
    share = energy / per_row(row_sums(energy)).clamp(min=1e-30)
    of_candidate = (basis.candidates * basis.size).to(change.device)
    overlap = torch.sqrt(share.unsqueeze(1) * of_candidate).sum(dim=2)
    return torch.log_softmax(power * overlap.clamp(min=1e-6).log(), dim=1)


def mixed(prior: Tensor, trust: Tensor) -> Tensor:
    """A prior that holds with some probability, where otherwise all are equally likely: logarithms, `(A, J)` twice.

    Below a trust of 1, `(A,)`, no candidate is so unlikely that a few iterations of evidence could not bring it back.
    """
    share = per_row(trust)
    return torch.logaddexp(torch.log_softmax(prior, dim=1) + share.log(), (1 - share).log() - math.log(prior.shape[1]))


def expected(basis: Basis, prior: Tensor) -> Belief:
    """Before any evidence, with the candidates as likely as `prior` says: logarithms `(A, J)`, but for a constant."""
    strength = torch.full((len(prior),), _UNKNOWN, device=prior.device)
    return Belief(_mean(basis, torch.softmax(prior, dim=1)), strength)


def infer(basis: Basis, evidence: Evidence, prior: Tensor, expected_strength: Tensor) -> Belief:
    """Weigh the candidate spectra by the evidence and their prior, logarithms `(A, J)`, and average them.

    Under candidate j with strength s, coefficient k of the signal is normal with mean 0 and variance
    noise + s tau_jk^2 weight^2: its likelihood depends on the energies of the bands alone. The noise of the answers
    leaves a strength to be expected, `(A,)`: where it does not show in the bands that a candidate favours, the
    candidate is wrong, and not the answers weak.
    """
    device = evidence.signal.device
    candidates, size = basis.candidates.to(device), basis.size.tolist()
    strengths = torch.tensor(_STRENGTHS).to(device)
    energy = basis.by_band(evidence.signal**2)
    strong = (strengths.reshape(-1, 1, 1) * candidates).flatten(0, 1).T.contiguous()  # (N, s J)
    squares, noise = evidence.weight**2, evidence.noise.clamp(min=1e-30)
    fits = torch.zeros(len(energy), strong.shape[1], device=device)
    # Band by band and without a sum or product over them: what an image believes must not depend on its company, as the
    # last digits of a matrix product do.
    for band, (tau, square, rest, found) in enumerate(zip(strong, squares.T, noise.T, energy.T, strict=True)):
        variance = torch.addcmul(per_row(rest), per_row(square), tau)
        fits.addcdiv_(per_row(found), variance).add_(variance.log_(), alpha=size[band])
    fits = fits.reshape(len(fits), len(strengths), -1).mul_(-0.5).add_(prior.unsqueeze(1))
    fits.add_(_likely_strengths(strengths, expected_strength).log_().unsqueeze(2))
    belief = torch.softmax(fits.flatten(1), dim=1).reshape(fits.shape)
    return Belief(_mean(basis, belief.sum(dim=1)), (belief.sum(dim=2) * strengths).sum(dim=1))


def _likely_strengths(strengths: Tensor, expected_strength: Tensor) -> Tensor:
    """A prior around what is expected, normal on the logarithmic scale, and a little of an even one: `(A, s)`."""
    off = (strengths.log() - per_row((_USUAL * expected_strength).log())) / _FACTOR
    return (1 - _ANY) * torch.softmax(-0.5 * off**2, dim=1) + _ANY / len(strengths)


def _mean(basis: Basis, weights: Tensor) -> Tensor:
    """The mean of the candidates, and a little of the even one: `(A, J)` -> `(A, N)`."""
    candidates = basis.candidates.to(weights.device)
    return (1 - _EVEN) * (weights.unsqueeze(2) * candidates).sum(dim=1) + _EVEN * candidates[0]


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
