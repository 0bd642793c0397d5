"""Steps along the estimated normal: PopSkipJump's full step and HopSkipJump's halved one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.arguments import check_types
from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Move
from popskipjump.errors import InputError
from popskipjump.geometry import clip, per_row


def step_size(border: Border, iteration: int) -> Tensor:
    """xi_t = ||x_t - x_*|| / sqrt(t): `(A,)`."""
    return border.distance / math.sqrt(iteration)


def _turned(remeasure: Tensor, iteration: int) -> Tensor:
    """The angle between the old ray and the new one after a step orthogonal to it; 0 if the ray is kept: `(A,)`."""
    return torch.where(remeasure, 0.0, math.atan(1 / math.sqrt(iteration))).to(torch.float64)


@dataclass(frozen=True)
class FullStep:
    """PSJ's step of full length xi_t without a test, and an enlarged search line that reaches across the boundary.

    Args:
        enlarge: length of the line, in units of the distance between the original and the new point; 1.5 in the paper.
    """

    enlarge: float = 1.5

    def __post_init__(self) -> None:
        check_types(self)
        if not self.enlarge >= 1:
            raise InputError(f"enlarge is at least 1, not {self.enlarge!r}.")

    def begin(self, images: int) -> tuple[()]:
        """See `StepRule`: no state, because the step size is a function of the iteration."""
        return ()

    def __call__(
        self,
        problem: Problem,
        border: Border,
        gradient: Tensor,
        remeasure: Tensor,
        iteration: int,
        state: tuple[()],
        far: Tensor | None = None,
    ) -> Move:
        """See `StepRule`."""
        original = problem.originals(border.rows)
        size = torch.where(remeasure, 0.0, step_size(border, iteration))
        ahead = border.point + per_row(problem.on_device(size)) * problem.norm.ascent(gradient)
        outer = clip(original + self.enlarge * (ahead - original), problem.bounds)
        return Move(outer, _turned(remeasure, iteration))

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: tuple[()]) -> tuple[()]:
        """See `StepRule`."""
        return state


@dataclass(frozen=True)
class HalvingStep:
    """HSJ's step, which is halved until its end is adversarial ("geometric progression").

    Args:
        halvings: largest number of halvings; after that the image stays where it is.
    """

    halvings: int = 30

    def __post_init__(self) -> None:
        check_types(self)
        if self.halvings < 1:
            raise InputError(f"halvings is at least 1, not {self.halvings!r}.")

    def begin(self, images: int) -> tuple[()]:
        """See `StepRule`: no state, because the step size is a function of the iteration."""
        return ()

    def __call__(
        self,
        problem: Problem,
        border: Border,
        gradient: Tensor,
        remeasure: Tensor,
        iteration: int,
        state: tuple[()],
        far: Tensor | None = None,
    ) -> Move:
        """See `StepRule`: a remeasured ray keeps its old outer end, which was adversarial."""
        direction = problem.norm.ascent(gradient)
        outer = border.point.clone()
        again = problem.index(remeasure.nonzero().flatten())
        outer[again] = border.outer[again]
        step = step_size(border, iteration)
        trying = (~remeasure).nonzero().flatten()
        for _ in range(self.halvings):
            trying = trying[problem.affordable(border.rows[trying]) > 0]
            if not len(trying):
                break
            chosen = problem.index(trying)
            ahead = border.point[chosen] + per_row(problem.on_device(step[trying])) * direction[chosen]
            success = problem.decide(ahead, border.rows[trying], "step")
            outer[chosen[success]] = ahead[success]
            trying = trying[~success.cpu()]
            step = step / 2
        return Move(outer, _turned(remeasure, iteration))

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: tuple[()]) -> tuple[()]:
        """See `StepRule`."""
        return state
