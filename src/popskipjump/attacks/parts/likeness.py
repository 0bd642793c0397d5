"""What the first change of an image says of the border's normal before any answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.parts.basis import Basis
from popskipjump.attacks.parts.spectrum import mixed, resemblance
from popskipjump.attacks.parts.transition import gradual
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import per_row


@dataclass(frozen=True)
class Likeness:
    """How likely each candidate spectrum is, by its overlap with that of the change at the first border.

    Not by that at later ones, which follow what was believed and would confirm it whatever it was. For L-infinity all
    spectra are equally likely: there every value counts, whatever its size.

    Args:
        power: of the overlap; 0 takes all spectra for equally likely.
        fading: what is left of the power with each iteration, because the walk uses up what it began with; more where
            the border is gradual, and answers too weak to tell of the spectrum themselves.
        trust: how likely it is that the first change says anything; if not, all spectra are equally likely.
        untried: the same where no other starts were tried (`PatternStart`), and the change may be that of any image.
    """

    power: float = 8.0
    fading: float = 0.95
    trust: float = 1.0
    untried: float = 0.8

    def __post_init__(self) -> None:
        shares = (self.fading, self.trust, self.untried)
        if not (self.power >= 0 and min(shares) >= 0 and max(shares) <= 1):
            raise InputError(f"power must be at least 0, and fading, trust and untried are shares: {self}.")

    def note(self, problem: Problem, rows: Tensor, basis: Basis, change: Tensor) -> None:
        """Write down what the first change of some images, `(A, d)`, is like."""
        power = self.power if problem.norm.round else 0.0
        problem.notes.write("likely", rows, resemblance(basis, change, power))

    def __call__(self, problem: Problem, rows: Tensor, iteration: int) -> Tensor:
        """Logarithms `(A, J)`, but for a constant, of what was noted."""
        notes = problem.notes
        trust = torch.where(notes.read("patterns tried", rows, 0.0) > 0, self.trust, self.untried)
        left = self.fading ** ((iteration - 1) * (1 - gradual(problem, rows)))
        return mixed(notes.read("likely", rows, 0.0) * per_row(problem.on_device(left)), problem.on_device(trust))
