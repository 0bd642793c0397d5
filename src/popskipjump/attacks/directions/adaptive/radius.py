"""QuickSkipJump's sampling radius: short on a sharp boundary, about the transition width on a gradual one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError

_HALF_WAY = 0.03  # width of a transition, in units of the distance, half-way between sharp and gradual
_ROOM = 0.25  # cap on the root mean square of a coordinate, in units of the range; beyond it most are clipped


@dataclass(frozen=True)
class AdaptiveRadius:
    """The length of directions, from the width of the transition that the last search measured.

    On a gradual transition, directions must span its width, or every answer is a coin flip. If all answers of an
    iteration were equal, the directions were too long, and `CentreShift` reduces `scale`.

    Args:
        radius: length of a direction in units of the distance, without noise.
        widths: transition widths that a direction spans along the normal.
        reach: largest length under noise, in units of the distance.
        broad: alternative cap, in transition widths; used when it exceeds `reach`, that is, when the transition is
            wider than the distance.
    """

    radius: float = 0.25
    widths: float = 2.0
    reach: float = 1.8
    broad: float = 6.0

    def __post_init__(self) -> None:
        check_types(self)
        if not (min(self.radius, self.reach) > 0 and min(self.widths, self.broad) >= 0):
            raise InputError(f"radius and reach must be positive, widths and broad at least 0: {self}.")

    def __call__(self, problem: Problem, width: Tensor, scale: Tensor, dimensions: Tensor, distance: Tensor) -> Tensor:
        """Length of a direction in units of the distance: float64 `(A,)`.

        Args:
            problem: the images and their oracle.
            width: `(A,)` of the transition, see `Border`.
            scale: `(A,)` factor on the radius, see `CentreShift`.
            dimensions: `(A,)` effective number of dimensions of a direction.
            distance: `(A,)` of the boundary point from the original.
        """
        radius = torch.sqrt((scale * self.radius) ** 2 + dimensions * (self.widths * width) ** 2)
        room = _ROOM * problem.bounds.range * problem.dimension**0.5 / distance
        limit = torch.minimum(self.broad * width, room).clamp(min=max(self.reach, self.radius))
        return torch.minimum(radius, limit)


def gradualness(width: Tensor) -> Tensor:
    """How gradual a border is, from 0 (sharp) to 1, by the width of its transition: `(A,)` -> `(A,)`."""
    return width / (width + _HALF_WAY)
