"""Islands: inputs whose label differs from all of their neighbours', by a thin region or by noise fixed per input.

A region of a class, however thin, has neighbours of its own class, and on a line through it the answers change once on
each side. Remembered noise is drawn anew for every input, however close.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

SIDE_STEPS = (1 / 32, 1 / 16, 1 / 8)  # of the way to a neighbour, the nearest first
SURROUNDINGS = 2 * len(SIDE_STEPS)
_FINEST = 1e-5  # of the range: neighbours nearer than this differ by little more than rounding


class Island(NamedTuple):
    """An input whose answer differs from those of its neighbours on both sides."""

    point: Tensor  # (*S)
    step: Tensor  # (*S) to one of the neighbours; the other one lies as far on the other side
    adversarial: bool  # its answer

    def surroundings(self) -> Tensor:
        """Inputs close to it, on both sides, the nearest first: `(SURROUNDINGS, *S)`."""
        weight = torch.tensor([*(-s for s in SIDE_STEPS), *SIDE_STEPS], dtype=self.point.dtype)
        return self.point + weight.reshape(-1, *(1 for _ in self.point.shape)) * self.step


def on_line(look: np.ndarray, image: Tensor, change: Tensor, extent: float) -> list[Island]:
    """Islands among evenly spaced places of a line.

    Args:
        look: `(P, 1 + R)` places in increasing order, and R answers 0 or 1 at each; nan for none.
        image: `(*S)`, place 0.
        change: `(*S)`, from place 0 to place 1.
        extent: range of an input value.
    """
    places, share = look[:, 0], look[:, 1:].mean(axis=1)
    if len(places) < 3 or np.isnan(share).any():
        return []
    spacing = float(places[1] - places[0])
    if spacing * float(change.norm()) < _FINEST * extent * change.numel() ** 0.5:
        return []
    alone = (share[1:-1] != share[:-2]) & (share[1:-1] != share[2:])
    return [
        Island(image + float(places[row]) * change, spacing * change, bool(share[row] > 0.5))
        for row in np.flatnonzero(alone) + 1
    ]


def remembered(agrees: np.ndarray) -> bool:
    """Whether the surroundings of an island contradict it, as no region of a class can.

    Args:
        agrees: `(SURROUNDINGS,)` bool, whether each answer is that of the island; see `Island.surroundings`.
    """
    sides = agrees.reshape(2, -1)
    both_nearest_differ = not sides[:, 0].any()
    returns = bool((sides[:, 1:] & ~sides[:, :-1]).any())  # differs, and further away agrees once more
    return both_nearest_differ or returns
