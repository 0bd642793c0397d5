"""How long directions are: short where the border is sharp, as wide as the transition where it is gradual."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError

_ROOM = 0.25  # of the range of the bounds: root mean square of a value beyond which most are clipped


@dataclass(frozen=True)
class LengthByWidth:
    """The length of directions by the width of the transition that the last search saw.

    Where the transition is gradual, directions must span its width, or every answer is a coin. Where all answers were
    equal, they were too long (`Balance` remembers the scale).

    Args:
        radius: length of a direction in units of the distance, without noise.
        widths: how many widths of a gradual transition a direction spans along the normal.
        reach: largest length under noise, in units of the distance.
        broad: the same in widths of the transition, where that is more: near a border that is wider than the distance.
    """

    radius: float = 0.25
    widths: float = 2.0
    reach: float = 1.8
    broad: float = 6.0

    def __post_init__(self) -> None:
        if not (min(self.radius, self.reach) > 0 and min(self.widths, self.broad) >= 0):
            raise InputError(f"radius and reach must be positive, widths and broad at least 0: {self}.")

    def __call__(self, problem: Problem, rows: Tensor, dimensions: Tensor, distance: Tensor) -> Tensor:
        """In units of the distance: float64 `(A,)`.

        Args:
            problem: what is asked.
            rows: `(A,)`.
            dimensions: `(A,)` over which a direction is spread.
            distance: `(A,)` of the border from the original.
        """
        width = problem.notes.read("width", rows, 0.0)
        scale = problem.notes.read("scale", rows, 1.0)
        radius = torch.sqrt((scale * self.radius) ** 2 + dimensions * (self.widths * width) ** 2)
        room = _ROOM * problem.bounds.range * problem.dimension**0.5 / distance
        limit = torch.minimum(self.broad * width, room).clamp(min=max(self.reach, self.radius))
        return torch.minimum(radius, limit)
