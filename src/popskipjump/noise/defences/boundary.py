"""Boundary defence: noise on the logits of uncertain inputs (Aithal and Li, 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from popskipjump.errors import InputError, OracleError
from popskipjump.noise.checks import gives_logits, number, spelled
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, exactly, in_chunks, one_hot
from popskipjump.oracles.traits import HasLogits
from popskipjump.rng import Key, normal

# Nodes of the trapezoidal rule for an integral against the normal density: its error is below float32's there.
_STEP = 0.125
_REACH = 9.0
_VALUES = 1 << 22  # of the integrands that are computed at once


@dataclass(frozen=True)
class BoundaryDefence:
    """Where the largest softmax probability is below `confidence`, every logit gets an independent N(0, sigma^2).

    Far from the border the answers have no noise at all, so that the accuracy on clean images hardly suffers.

    Args:
        confidence: in [0, 1]; 0 is the noiseless classifier, 1 puts noise on (almost) every answer.
        sigma: standard deviation on each logit, at least 0.
    """

    confidence: float
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", number("confidence", self.confidence, 0, 1))
        object.__setattr__(self, "sigma", number("sigma", self.sigma, 0))

    def __str__(self) -> str:
        return spelled("boundary-defence", self.confidence, self.sigma)

    def check(self, model: Any, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`."""
        if not gives_logits(model):
            raise InputError(
                f"the boundary defence needs logits, and this {type(model).__name__} gives labels only: pass a torch "
                "module that returns logits, or another noise model."
            )

    def sample(self, model: Any, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        logits, unsure = self._logits(model, points)
        noise = normal(roots, logits.shape[1]).to(logits.dtype)
        return torch.where(unsure, logits + self.sigma * noise, logits).argmax(dim=1)

    def truth(self, model: Any, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact: an integral of one dimension for each class."""
        logits, unsure = self._logits(model, points)
        shares = one_hot(logits.argmax(dim=1), logits.shape[1])
        (rows,) = torch.nonzero(unsure.squeeze(1), as_tuple=True)
        if self.sigma >= torch.finfo(torch.float32).tiny and len(rows):
            shares[rows] = largest_of_normals(logits[rows] / self.sigma)
        return exactly(shares)

    def _logits(self, model: Any, points: Tensor) -> tuple[Tensor, Tensor]:
        """float32 logits `(M, K)`, and which of the points get noise `(M, 1)`."""
        self.check(model, tuple(points.shape[1:]))
        logits = in_chunks(model.logits if isinstance(model, HasLogits) else model.log_probs, points).to(torch.float32)
        bad = int(logits.isnan().any(dim=1).sum())
        if bad:
            raise OracleError(f"the model's logits are not numbers at {bad} of {len(points)} inputs.")
        return logits, logits.softmax(dim=1).amax(dim=1, keepdim=True) < self.confidence


def largest_of_normals(means: Tensor) -> Tensor:
    r"""P(X_k is the largest) for independent X_k ~ N(m_k, 1): `(M, K)` -> `(M, K)`.

    The integral of phi(u) prod_{j != k} Phi(u + m_k - m_j) over u, by the trapezoidal rule, which converges
    exponentially fast for such integrands.
    """
    nodes = torch.arange(-_REACH, _REACH + _STEP / 2, _STEP, dtype=means.dtype, device=means.device)  # (Q,)
    rows = max(1, _VALUES // (means.shape[1] * len(nodes)))
    total = torch.cat([_integrals(part, nodes) for part in torch.split(means, rows)])  # (M, K)
    return total / total.sum(dim=1, keepdim=True)


def _integrals(means: Tensor, nodes: Tensor) -> Tensor:
    """Sums of the integrands over the nodes `(Q,)`, up to one factor: `(R, K)` -> `(R, K)`."""
    sums = []
    for k in range(means.shape[1]):
        ahead = (means[:, k : k + 1] - means).unsqueeze(-1) + nodes  # (R, K, Q)
        logs = torch.special.log_ndtr(ahead)
        logs[:, k] = -0.5 * nodes**2  # the density of X_k itself
        sums.append(logs.sum(dim=1).exp().sum(dim=1))
    return torch.stack(sums, dim=1)
