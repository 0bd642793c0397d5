"""Prior of the normal's spectrum, from the change of the image at the first boundary point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.directions.adaptive.dct import Basis
from popskipjump.attacks.directions.adaptive.radius import gradualness
from popskipjump.attacks.directions.adaptive.spectrum import mixed, resemblance
from popskipjump.attacks.problem import Problem
from popskipjump.elementwise import power as raised
from popskipjump.errors import InputError
from popskipjump.geometry import per_row


class FirstChange(NamedTuple):
    """State of `SpectrumPrior` for each image."""

    log_prior: Tensor  # (A, J) of the candidate spectra, by their overlap with the first change
    trust: Tensor  # (A,) float64, probability that the first change is informative


@dataclass(frozen=True)
class SpectrumPrior:
    """Prior of each candidate spectrum, by its overlap with the spectrum of the change at the first boundary point.

    The changes at later boundary points result from the posterior itself, and would confirm it in any case. In
    L-infinity all spectra are equally likely, because a step uses every coordinate, whatever its size.

    Args:
        power: exponent of the overlap; 0 makes all spectra equally likely.
        fading: factor on the exponent per iteration, because the walk moves away from the first change. On a gradual
            border it fades less: answers there are too weak to identify the spectrum themselves.
        trust: probability that the first change is informative; otherwise all spectra are equally likely.
        trust_without_patterns: trust if no patterns were tried as starts; the change may then come from any image.
    """

    power: float = 8.0
    fading: float = 0.95
    trust: float = 1.0
    trust_without_patterns: float = 0.8

    def __post_init__(self) -> None:
        check_types(self)
        shares = (self.fading, self.trust, self.trust_without_patterns)
        if not (self.power >= 0 and min(shares) >= 0 and max(shares) <= 1):
            raise InputError(f"power must be at least 0; fading, trust and trust_without_patterns are shares: {self}.")

    def begin(self, problem: Problem, basis: Basis, change: Tensor, compared: Tensor) -> FirstChange:
        """The prior from the first change `(A, d)`; `compared` `(A,)` is true where patterns were tried as starts."""
        power = 0.0 if problem.norm.follows_signs else self.power
        trust = torch.where(compared, self.trust, self.trust_without_patterns).to(torch.float64)
        # Of large images, few frequencies matter, and which ones the first change does not tell.
        return FirstChange(resemblance(basis, change, power), basis.resolved * trust)

    def __call__(self, problem: Problem, basis: Basis, state: FirstChange, width: Tensor, iteration: int) -> Tensor:
        """Logarithms `(A, J)`, up to a constant; width `(A,)` of the transition, see `Border`."""
        left = raised(self.fading, (iteration - 1) * (1 - gradualness(width)))
        likeness = state.log_prior * per_row(problem.on_device(left))
        return mixed(likeness, problem.on_device(state.trust), basis.likely.to(problem.device))
