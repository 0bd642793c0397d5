"""Centring: a shift of the sampling centre along the ray, so that about half of the answers are adversarial."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_FURTHEST = (-6.0, 30.0)  # limits of the shift, in standard deviations of the directions along the normal
_LOPSIDED = 1.0  # imbalance, in standard deviations, above which only its sign is informative
_TOO_LONG = 1.5, 2.0  # imbalance and shift beyond which the directions are too long
_SMALLEST = 0.01  # smallest gain
_SHORTEN, _RECOVER, _SHORTEST = 0.4, 1.15, 0.01  # of the radius: cut fast, recover by 15% per iteration


class CentreShift(NamedTuple):
    """Shift of the sampling centre of A images, and its controller: all float64 `(A,)`, on the CPU."""

    shift: Tensor  # of the centre, in standard deviations of the directions
    gain: Tensor  # change of the shift per standard deviation of an imbalance, at most 1
    imbalance: Tensor  # of the last answers: see `Answers`
    scale: Tensor  # factor on the radius of the directions

    @classmethod
    def begin(cls, images: int) -> CentreShift:
        """The initial state: the centre is on the boundary."""
        zero = torch.zeros(images, dtype=torch.float64)
        return cls(zero, zero + 1, zero, zero + 1)

    def corrected(self, imbalance: Tensor, asked: Tensor, rate: float) -> CentreShift:
        """The shift corrected by a block of answers: a step on the probit scale.

        Near the optimum on a flat boundary, directions across the ray hardly leave the boundary, so that a small shift
        makes all answers equal. A fixed gain would then overshoot the balance forever. The gain is therefore halved at
        each change of sign of the imbalance, and grows while the sign stays the same.

        Args:
            imbalance: `(A,)`, see `Answers`.
            asked: bool `(A,)`, the images that got new answers.
            rate: fraction of the imbalance that one step corrects; 0 corrects nothing.
        """
        if not rate:
            return self._replace(imbalance=torch.where(asked, imbalance, self.imbalance))
        sure = asked & (torch.minimum(imbalance.abs(), self.imbalance.abs()) > _LOPSIDED)
        jumped = imbalance * self.imbalance < 0
        change = torch.where(sure, torch.where(jumped, 0.5, 1.5), 1.0)
        gain = (self.gain * change).clamp(_SMALLEST, 1.0)
        shift = (self.shift - rate * gain * imbalance).clamp(*_FURTHEST)
        last = torch.where(asked, imbalance, self.imbalance)
        return CentreShift(torch.where(asked, shift, self.shift), gain, last, self.scale)

    def next_iteration(self) -> CentreShift:
        """The state for the next iteration: the radius is reduced for images whose answers no shift could balance."""
        lopsided, far = _TOO_LONG
        too_long = (self.imbalance.abs() > lopsided) & (self.shift.abs() > far)
        scale = torch.where(too_long, _SHORTEN * self.scale, _RECOVER * self.scale).clamp(_SHORTEST, 1.0)
        return self._replace(scale=scale, shift=torch.where(too_long, 0.0, self.shift))
