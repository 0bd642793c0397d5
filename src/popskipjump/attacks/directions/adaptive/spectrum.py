"""Empirical Bayes for the spectrum of the boundary's normal: its variance by frequency band."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.directions.adaptive.dct import Basis
from popskipjump.elementwise import log_of_sum
from popskipjump.geometry import per_row, row_sums

_STRENGTHS = (0.0005, 0.002, 0.006, 0.02, 0.05, 0.1, 0.2, 0.4, 0.64)  # squared correlation of answer and normal
_UNKNOWN = 0.3  # strength assumed before any answer
_USUAL = 0.7  # prior mode of the strength, relative to the one that the noise allows: boundaries are curved
_FACTOR = 1.0  # standard deviation of the log-strength in this prior
_ANY = 0.1  # share of a uniform prior of the strength
_EVEN = 0.03  # share of the flat spectrum that is always kept


class Evidence(NamedTuple):
    """Exponentially decaying sums over an image's answers y and displacements z, in DCT coefficients."""

    signal: Tensor  # (A, d) sum of (y - mean y) z
    weight: Tensor  # (A, N) sum of z^2, of one coefficient in each band
    noise: Tensor  # (A, N) variance of `signal`, of one coefficient in each band

    def after(self, new: Evidence, decay: float) -> Evidence:
        """These sums times `decay`, plus the new ones."""
        return Evidence(
            torch.add(new.signal, self.signal, alpha=decay),
            torch.add(new.weight, self.weight, alpha=decay),
            torch.add(new.noise, self.noise, alpha=decay**2),
        )


class Belief(NamedTuple):
    """Posterior estimate of the normal's spectrum and of the strength."""

    variance: Tensor  # (A, N) of one coefficient of the unit normal, by band; adds up to 1 over the coefficients
    strength: Tensor  # (A,) squared correlation of the answers with the normal


def even(basis: Basis, images: int, device: torch.device) -> Belief:
    """The belief before any answer: a flat spectrum."""
    variance = basis.candidates[0].to(device).expand(images, -1)
    return Belief(variance, torch.full((images,), _UNKNOWN, device=device))


def resemblance(basis: Basis, change: Tensor, power: float) -> Tensor:
    """Log-prior of the candidate spectra, by their overlap with the spectrum of the change: `(A, d)` -> `(A, J)`.

    At the nearest boundary point the change from the original is parallel to the normal, and elsewhere still similar.
    The prior of a candidate is a power of the overlap (Bhattacharyya's coefficient) of its spectrum and the change's.
    """
    energy = basis.by_band(basis.to_coefficients(change) ** 2)
    share = energy / per_row(row_sums(energy)).clamp(min=1e-30)
    of_candidate = (basis.candidates * basis.band_size).to(change.device)
    overlap = torch.sqrt(share.unsqueeze(1) * of_candidate).sum(dim=2)
    return torch.log_softmax(power * overlap.clamp(min=1e-6).log(), dim=1)


def mixed(prior: Tensor, trust: Tensor, other: Tensor) -> Tensor:
    """Mixture of a prior, with probability `trust` `(A,)`, and another: logarithms `(A, J)`, `(J,)` -> `(A, J)`.

    With a trust below 1, a few iterations of evidence can overrule the prior for every candidate.
    """
    share = per_row(trust)
    return log_of_sum(torch.log_softmax(prior, dim=1) + share.log(), (1 - share).log() + other)


def expected(basis: Basis, prior: Tensor) -> Tensor:
    """Prior mean of the variance by band, from the candidates' log-probabilities `(A, J)`: `(A, N)`."""
    return _mean(basis, torch.softmax(prior, dim=1))


def infer(basis: Basis, evidence: Evidence, prior: Tensor, expected_strength: Tensor) -> Belief:
    """Posterior mean of the spectrum over the candidates, from the evidence and their log-prior `(A, J)`.

    Under candidate j with strength s, coefficient k of the signal is normal with mean 0 and variance
    noise + s tau_jk^2 weight^2, so the likelihood depends only on the energies of the bands. The noise of the answers
    determines an expected strength `(A,)`. If a candidate's bands lack that strength, the prior of the strength makes
    the posterior blame the candidate rather than weak answers.
    """
    device = evidence.signal.device
    candidates, size = basis.candidates.to(device), basis.band_size.tolist()
    strengths = torch.tensor(_STRENGTHS).to(device)
    energy = basis.by_band(evidence.signal**2)
    strong = (strengths.reshape(-1, 1, 1) * candidates).flatten(0, 1).T.contiguous()  # (N, s J)
    squares, noise = evidence.weight**2, evidence.noise.clamp(min=1e-30)
    fits = torch.zeros(len(energy), strong.shape[1], device=device)
    # A loop over bands instead of a matrix product, whose last digits depend on the batch size: an image's posterior
    # must not depend on the other images of the batch.
    for band, (tau, square, rest, found) in enumerate(zip(strong, squares.T, noise.T, energy.T, strict=True)):
        variance = torch.addcmul(per_row(rest), per_row(square), tau)
        fits.addcdiv_(per_row(found), variance).add_(variance.log_(), alpha=size[band])
    fits = fits.reshape(len(fits), len(strengths), -1).mul_(-0.5).add_(prior.unsqueeze(1))
    fits.add_(_likely_strengths(strengths, expected_strength).log_().unsqueeze(2))
    belief = torch.softmax(fits.flatten(1), dim=1).reshape(fits.shape)
    return Belief(_mean(basis, belief.sum(dim=1)), (belief.sum(dim=2) * strengths).sum(dim=1))


def _likely_strengths(strengths: Tensor, expected_strength: Tensor) -> Tensor:
    """Prior of the strength: log-normal around the expected one, mixed with a uniform one: `(A, s)`."""
    off = (strengths.log() - per_row((_USUAL * expected_strength).log())) / _FACTOR
    return (1 - _ANY) * torch.softmax(-0.5 * off**2, dim=1) + _ANY / len(strengths)


def _mean(basis: Basis, weights: Tensor) -> Tensor:
    """Mean of the candidates, mixed with a little of the flat one: `(A, J)` -> `(A, N)`."""
    candidates = basis.candidates.to(weights.device)
    return (1 - _EVEN) * (weights.unsqueeze(2) * candidates).sum(dim=1) + _EVEN * candidates[0]


def amplitudes(basis: Basis, variance: Tensor, least: float) -> Tensor:
    """Standard deviation of a coefficient of the directions, by band, for directions of length 1: `(A, N)`.

    The variance is proportional to that of the normal, but at least `least` times the largest.
    """
    share = variance / variance.amax(dim=1, keepdim=True)
    variance = share.clamp(min=least)
    return (variance / (variance * basis.band_size.to(variance.device)).sum(dim=1, keepdim=True)).sqrt()


def filtered(basis: Basis, belief: Belief, new: Evidence) -> Tensor:
    """Posterior mean of the normal (Wiener filter), from one iteration's sums and the spectrum: `(A, d)`."""
    prior = belief.strength.unsqueeze(1) * belief.variance
    gain = prior * new.weight / (prior * new.weight**2 + new.noise).clamp(min=1e-30)
    return new.signal * basis.by_coefficient(gain)
