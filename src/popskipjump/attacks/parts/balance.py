"""Where to ask so that about half of the answers are adversarial: the shift of the sampling centre along the ray."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem

_FURTHEST = (-6.0, 30.0)  # shift, in standard deviations of the directions along the normal
_LOPSIDED = 1.0  # standard deviations: an imbalance that says on which side the balance is, and little else
_TOO_LONG = 1.5, 2.0  # an imbalance at such a shift says that directions reach far beyond the border
_SMALLEST = 0.01  # gain


class Balance(NamedTuple):
    """How far out A images are asked, and what came of it: all float64 `(A,)`, on the CPU."""

    shift: Tensor  # of the centre, in standard deviations of the directions
    gain: Tensor  # how many of these one standard deviation of an imbalance is, at most 1
    imbalance: Tensor  # of the last answers: see `Answers`

    @classmethod
    def remembered(cls, problem: Problem, rows: Tensor) -> Balance:
        """Where the last iteration left it."""
        notes = problem.notes
        return cls(notes.read("shift", rows, 0.0), notes.read("gain", rows, 1.0), notes.read("imbalance", rows, 0.0))

    def corrected(self, imbalance: Tensor, asked: Tensor, rate: float) -> Balance:
        """After more answers of some images: a step on the probit scale.

        Near the nearest point of a flat border, directions across the ray hardly leave it: a small shift makes all
        answers equal, and a step of the usual length would jump from one side of the balance to the other for ever. It
        is halved at every such jump, and grows while the balance stays on one side.

        Args:
            imbalance: `(A,)`, see `Answers`.
            asked: bool `(A,)`, whose answers these are.
            rate: how much of the imbalance to correct at once; 0 corrects nothing.
        """
        if not rate:
            return self._replace(imbalance=torch.where(asked, imbalance, self.imbalance))
        sure = asked & (torch.minimum(imbalance.abs(), self.imbalance.abs()) > _LOPSIDED)
        jumped = imbalance * self.imbalance < 0
        change = torch.where(sure, torch.where(jumped, 0.5, 1.5), 1.0)
        gain = (self.gain * change).clamp(_SMALLEST, 1.0)
        shift = (self.shift - rate * gain * imbalance).clamp(*_FURTHEST)
        last = torch.where(asked, imbalance, self.imbalance)
        return Balance(torch.where(asked, shift, self.shift), gain, last)

    def note(self, problem: Problem, rows: Tensor) -> None:
        """Keep it for the next iteration; shorten the directions where no shift could balance them."""
        notes = problem.notes
        scale = notes.read("scale", rows, 1.0)
        lopsided, far = _TOO_LONG
        too_long = (self.imbalance.abs() > lopsided) & (self.shift.abs() > far)
        notes.write("scale", rows, torch.where(too_long, 0.4 * scale, 1.15 * scale).clamp(0.01, 1.0))
        notes.write("shift", rows, torch.where(too_long, 0.0, self.shift))
        notes.write("gain", rows, self.gain)
        notes.write("imbalance", rows, self.imbalance)
