"""The boundary walk shared by HopSkipJump, PopSkipJump and QuickSkipJump: direction, step, search, acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor

from popskipjump.attacks.acceptance.unless_faint import is_faint
from popskipjump.attacks.base import Step
from popskipjump.attacks.border import Border, merge
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Acceptance, Direction, Restart, Search, Start, StepRule, Window
from popskipjump.attacks.rows import replace_rows, select_rows
from popskipjump.types import Status

_FEWEST_DIRECTIONS = 10  # fewer are not worth a step

Q = TypeVar("Q")  # state of the search
D = TypeVar("D")  # state of the direction
T = TypeVar("T")  # state of the step
A = TypeVar("A")  # state of the acceptance
R = TypeVar("R")  # state of the restart


@dataclass(frozen=True, eq=False)
class WalkState(Generic[Q, D, T, A, R]):
    """State of all parts for each image, carried from one iteration to the next."""

    rows: Tensor  # (A,) int64, on the CPU
    remeasure: Tensor  # (A,) bool, whether the next step keeps its ray
    search: Q
    direction: D
    step: T
    acceptance: A
    restart: R

    def of(self, rows: Tensor) -> WalkState[Q, D, T, A, R]:
        """The state of the images that are left; images leave between two steps, and keep their order."""
        if len(rows) == len(self.rows):
            return self
        stays = torch.isin(self.rows, rows)
        return WalkState(
            rows=rows,
            remeasure=self.remeasure[stays],
            search=select_rows(self.search, stays),
            direction=select_rows(self.direction, stays),
            step=select_rows(self.step, stays),
            acceptance=select_rows(self.acceptance, stays),
            restart=select_rows(self.restart, stays),
        )


class _Locator(Generic[Q]):
    """A search with its state: see `Locate`."""

    def __init__(self, search: Search[Q], problem: Problem, rows: Tensor, state: Q) -> None:
        self.search, self.problem, self.rows, self.state = search, problem, rows, state

    def __call__(self, rows: Tensor, outer: Tensor, window: Window | None) -> Border:
        """See `Locate`."""
        return self.within(rows, outer, window, 0, None)

    def within(
        self, rows: Tensor, outer: Tensor, window: Window | None, iteration: int, previous: Border | None
    ) -> Border:
        """Search in an iteration of the walk, and store the new state of the search."""
        if len(rows) == len(self.rows):
            border, self.state = self.search(self.problem, rows, outer, window, iteration, previous, self.state)
            return border
        index = torch.searchsorted(self.rows, rows)
        mine = select_rows(self.state, index)
        border, learned = self.search(self.problem, rows, outer, window, iteration, previous, mine)
        self.state = replace_rows(self.state, index, learned)
        return border


@dataclass(frozen=True)
class BoundaryWalk(Generic[Q, D, T, A, R]):
    """An attack composed of six parts; a variant is another part or another argument of one.

    Args:
        start: finds the first border.
        direction: estimates the border's normal.
        step_rule: chooses the next search line from the estimated normal.
        search: finds the border on the line to the new point.
        acceptance: chooses between the new border and the one before.
        restart: finds a new start for an image whose line has no border.
        iterations: largest number of iterations.
    """

    start: Start
    direction: Direction[D]
    step_rule: StepRule[T]
    search: Search[Q]
    acceptance: Acceptance[A]
    restart: Restart[R]
    iterations: int

    def init(self, problem: Problem, rows: Tensor, start: Tensor) -> Step:
        """See `Attack`."""
        images = len(rows)
        locate = _Locator(self.search, problem, rows, self.search.begin(images))
        begun = self.start(problem, rows, start, locate)
        border, restarted = self.restart(problem, begun.border, None, locate, self.restart.begin(images))
        state = WalkState(
            rows=rows,
            remeasure=torch.zeros(images, dtype=torch.bool),
            search=locate.state,
            direction=self.direction.begin(problem, begun._replace(border=border)),
            step=self.step_rule.begin(images),
            acceptance=self.acceptance.begin(images),
            restart=restarted,
        )
        return Step(border, dict.fromkeys(rows[is_faint(border)].tolist(), Status.NO_SIGNAL), state)

    def step(self, problem: Problem, before: Step, iteration: int) -> Step:
        """See `Attack`."""
        enough = problem.affordable(before.border.rows) >= before.border.searched + _FEWEST_DIRECTIONS
        ended = dict.fromkeys(before.border.rows[~enough].tolist(), Status.BUDGET_SPENT)
        border = before.border if bool(enough.all()) else before.border.select(enough)
        if not len(border.rows):
            return Step(border, ended)
        state = self._state(before).of(border.rows)
        gradient, direction = self.direction(problem, border, iteration, state.direction)
        far = self.direction.far(direction)
        move = self.step_rule(problem, border, gradient, state.remeasure, iteration, state.step, far)
        locate = _Locator(self.search, problem, border.rows, state.search)
        found = locate.within(border.rows, move.outer, move.window, iteration, border)
        step = self.step_rule.learn(problem, border, found, move, state.step)
        direction = self.direction.learn(problem, border, found, move, direction)
        decision, acceptance = self.acceptance(problem, found, border, move, state.acceptance)
        # A search cut short by the budget has no reliable result: keep the border before it.
        broke = ~found.settled & (problem.affordable(border.rows) < self.search.per_step)
        taken = merge(decision.take & ~broke, found, border)
        taken, restart = self.restart(problem, taken, move, locate, state.restart)
        ended |= dict.fromkeys(border.rows[decision.give_up].tolist(), Status.FLAT)
        memory = WalkState(border.rows, decision.remeasure, locate.state, direction, step, acceptance, restart)
        return Step(taken, ended, memory)

    @staticmethod
    def _state(before: Step) -> WalkState[Q, D, T, A, R]:
        """What `init` or the last `step` of this walk left."""
        if not isinstance(before.memory, WalkState):
            raise TypeError(f"a step of a walk goes on from a step of a walk, not from {before.memory!r}.")
        return before.memory


AnyWalk: TypeAlias = BoundaryWalk[Any, Any, Any, Any, Any]
