"""The boundary attack (Brendel, Rauber and Bethge, ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.base import Step, check_iterations
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.rows import select_rows
from popskipjump.attacks.searches.bisection import BinarySearch
from popskipjump.attacks.searches.lines import Found, border_at
from popskipjump.errors import InputError
from popskipjump.geometry import clip, inner, l2_size, per_row
from popskipjump.rng import normal
from popskipjump.types import Status

_WINDOW = 100  # answers over which a success rate is averaged


class _Walk(NamedTuple):
    """State of the walk for each image."""

    rows: Tensor  # (A,) the images, as in the border
    point: Tensor  # (A, d) adversarial, as far as is known
    orthogonal: Tensor  # (A,) size of the step across, in units of the distance
    forward: Tensor  # (A,) size of the step towards the original, in units of the distance
    across: Tensor  # (A,) running rate of adversarial answers after the step across alone
    whole: Tensor  # (A,) running rate of accepted proposals


@dataclass(frozen=True)
class BoundaryAttack:
    """A random walk along the border: a step across, then a step towards the original, kept if adversarial.

    Args:
        iterations: number of entries of the trace.
        proposals: number of proposals per iteration; 32 x 780 is the published 25,000.
        orthogonal: first size of the step across, in units of the distance.
        forward: first size of the step towards the original.
        test_every: number of proposals after which the step across is also queried alone, to adapt its size.
        adapt: factor by which the sizes of steps change.
    """

    iterations: int = 32
    proposals: int = 780
    orthogonal: float = 0.01
    forward: float = 0.01
    test_every: int = 10
    adapt: float = 1.5

    def __post_init__(self) -> None:
        check_types(self)
        check_iterations(self.iterations)
        if min(self.proposals, self.test_every) < 1 or min(self.orthogonal, self.forward) <= 0 or self.adapt < 1:
            raise InputError("proposals and test_every must be at least 1, step sizes positive and adapt at least 1.")

    def build(self, dimension: int) -> BoundaryAttack:
        """The attack for inputs of d values: the same for all."""
        return self

    def init(self, problem: Problem, rows: Tensor, start: Tensor) -> Step:
        """See `Attack`."""
        border, _ = BinarySearch(theta=0.01)(problem, rows, start, None, 0, None, ())
        ones = torch.ones(len(rows))
        walk = _Walk(rows, border.point, self.orthogonal * ones, self.forward * ones, 0.5 * ones, 0.25 * ones)
        return Step(border, {}, walk)

    def step(self, problem: Problem, before: Step, iteration: int) -> Step:
        """See `Attack`."""
        rows = before.border.rows
        if not isinstance(before.memory, _Walk):
            raise TypeError(f"a step of the boundary attack goes on from one, not from {before.memory!r}.")
        # Images leave between two steps, and keep their order.
        walk = select_rows(before.memory, torch.isin(before.memory.rows, rows))
        for proposal in range(self.proposals):
            number = (iteration - 1) * self.proposals + proposal
            going = (problem.affordable(rows) >= 2).nonzero().flatten()
            if not len(going) or len(problem.failed) == len(rows):
                break
            walk = self._propose(problem, rows, walk, going, number)
        zero = torch.zeros(len(rows), dtype=torch.float64)
        yes, none = torch.ones(len(rows), dtype=torch.bool), torch.zeros(len(rows), dtype=torch.int64)
        # The point is adversarial, and nothing is known about the line inward of it: its outer end is the border.
        border = border_at(problem, rows, walk.point, Found(zero, zero, zero, yes, zero, zero, zero + 1, none, yes))
        ended = dict.fromkeys(rows[problem.affordable(rows) < 2].tolist(), Status.BUDGET_SPENT)
        return Step(border, ended, walk)

    def _propose(self, problem: Problem, rows: Tensor, walk: _Walk, going: Tensor, number: int) -> _Walk:
        """Make one proposal for each image in `going`."""
        chosen = problem.index(going)
        original = problem.originals(rows[going])
        point = walk.point[chosen]
        aside = self._aside(problem, rows[going], point, original, walk.orthogonal[going], number)
        across, whole = walk.across.clone(), walk.whole.clone()
        if number % self.test_every == 0:
            fine = problem.decide(aside.clone(), rows[going], "step").cpu()
            across[going] += (fine.float() - across[going]) * self.test_every / _WINDOW
        shrink = per_row(problem.on_device(walk.forward[going]))
        ahead = clip(aside + shrink * (original - aside), problem.bounds)
        accepted = problem.decide(ahead, rows[going], "walk")
        whole[going] += (accepted.cpu().float() - whole[going]) / _WINDOW
        moved = walk.point.clone()
        moved[chosen] = torch.where(per_row(accepted), ahead, point)
        if number % self.test_every:
            return walk._replace(point=moved, across=across, whole=whole)
        return self._adapt(walk._replace(point=moved, across=across, whole=whole), number)

    def _aside(
        self, problem: Problem, rows: Tensor, point: Tensor, original: Tensor, size: Tensor, number: int
    ) -> Tensor:
        """A random point at the same distance from the original, about `size` distances away: `(A, d)`."""
        image = problem.image_id[rows]
        roots = problem.index(problem.key.child("boundary").roots(image, torch.full_like(image, number)))
        noise = normal(roots, problem.dimension)
        out = point - original
        length = per_row(l2_size(out)).clamp(min=1e-12)
        unit = out / length
        noise = noise - per_row(inner(noise, unit)) * unit
        noise = noise / per_row(l2_size(noise)).clamp(min=1e-12)
        size = per_row(problem.on_device(size))
        turned = (unit + size * noise) / torch.sqrt(1 + size**2)
        return clip(original + length * turned, problem.bounds)

    def _adapt(self, walk: _Walk, number: int) -> _Walk:
        """Keep 20 to 50% of the steps across adversarial, and 10 to 25% of the proposals accepted."""
        if number < _WINDOW:
            return walk
        gentle = self.adapt ** (self.test_every / _WINDOW)  # one factor in a window
        across = torch.where(walk.across > 0.5, gentle, 1.0) / torch.where(walk.across < 0.2, gentle, 1.0)
        whole = torch.where(walk.whole > 0.25, gentle, 1.0) / torch.where(walk.whole < 0.1, gentle, 1.0)
        forward = walk.forward * across * whole  # the two keep their ratio where only the step across is off
        return walk._replace(orthogonal=(walk.orthogonal * across).clamp(1e-6, 1.0), forward=forward.clamp(1e-6, 0.5))
