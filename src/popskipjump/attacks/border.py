"""The border that a search finds, for each image of a walk."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from popskipjump.attacks.rows import replace_rows, select_rows
from popskipjump.sigmoid import Estimate


class Border(NamedTuple):
    """An estimated boundary point for each of A images, with the search line and its noise estimates."""

    rows: Tensor  # (A,) int64, on the CPU
    outer: Tensor  # (A, d) the adversarial end of the line; the other end is the original
    point: Tensor  # (A, d) where the border was found
    position: Tensor  # (A,) of the point on the line, 0 = outer
    safe: Tensor  # (A,) the position nearest to the original that is adversarial with confidence
    distance: Tensor  # (A,) of the point from the original, in the norm of the problem
    gap: Tensor  # (A,) L2 length of the line
    sample_ratio: Tensor  # (A,) how many times the noiseless number of directions this noise needs
    searched: Tensor  # (A,) int64, decisions asked in the search
    settled: Tensor  # (A,) bool, False where the budget or a cap cut the search short
    deviation: Tensor  # (A,) standard deviation of the point's place on the line, as an L2 length
    seen: Tensor  # (A,) bool, False where the border may lie at the outer end of the line, or beyond it
    width: Tensor  # (A,) of the transition, in units of the distance, as the last search of this image measured it
    lost: Tensor  # (A,) contrast that the noise takes far from the border, as the last search measured it
    estimate: Estimate | None = None  # (A,) of the sigmoid along the line; None for a search without noise
    probes: Tensor | None = None  # (A, 2, P) int64, how often each place was asked, and was adversarial; None likewise

    def select(self, chosen: Tensor) -> Border:
        """Some of the images: an index or a mask `(A,)` on the CPU."""
        return select_rows(self, chosen)


def merge(take: Tensor, new: Border, old: Border) -> Border:
    """Row by row, the new border where `take` is true, else the old one: bool `(A,)` on the CPU.

    Width and lost contrast always come from the new search, because a search measures the noise even if its boundary
    point is rejected.
    """
    stay = (~take).nonzero().flatten()
    if not len(stay):
        return new
    return replace_rows(new, stay, old.select(stay))._replace(width=new.width, lost=new.lost)
