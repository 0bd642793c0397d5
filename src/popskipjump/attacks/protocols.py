"""Interfaces of the parts of a walk, and what the configuration of an attack may declare.

A walk calls its parts in this order: `Start`, then in every iteration `Direction`, `StepRule`, `Search`, `Acceptance`
and `Restart`. Parts exchange data only by arguments and return values. A part's state between iterations is a
NamedTuple of tensors with one row for each image; the walk stores the state and selects its rows when images leave.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem

S = TypeVar("S")  # the state of a part


class Window(NamedTuple):
    """Where on a line to search, and how precisely: all float64 `(A,)`."""

    span: Tensor  # the part of the line from its outer end that is searched, in (0, 1]
    predicted: Tensor  # where the border is expected, as a part of the span
    tolerance: Tensor | None = None  # standard deviation to reach, in units of the distance; None for the search's own


class Move(NamedTuple):
    """A step: the outer end of the next line, and what to expect on it."""

    outer: Tensor  # (A, d) within the bounds
    angle: Tensor  # (A,) float64, between the old ray and the new one; 0 measures the old ray again
    window: Window | None = None  # None searches the whole line
    far: Tensor | None = None  # (A,) bool, turned by a ladder; None for no image


class Decision(NamedTuple):
    """Decision of an acceptance rule about a new border: all bool `(A,)` on the CPU."""

    take: Tensor  # go on from the new border
    remeasure: Tensor  # measure the kept ray again in the next iteration
    give_up: Tensor  # end the image: its answers no longer depend on the position


class Search(Protocol[S]):
    """Finds the border on a line."""

    @property
    def per_step(self) -> int:
        """Largest number of queries of an image in one call; a search ends when the budget allows fewer."""

    @property
    def models_noise(self) -> bool:
        """Whether the search still finds the border when answers are random."""

    def begin(self, images: int) -> S:
        """The state before the first search."""

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: S,
    ) -> tuple[Border, S]:
        """Search between `outer` `(A, d)` and the originals; `previous` is the border of the iteration before."""


class Locate(Protocol):
    """A search with its state, as starts and restarts call it: the walk keeps the state up to date."""

    def __call__(self, rows: Tensor, outer: Tensor, window: Window | None) -> Border:
        """Search between `outer` `(A, d)` and the originals of some images."""


class Begun(NamedTuple):
    """Where a walk begins."""

    border: Border
    compared: Tensor  # (A,) bool, whether it is the nearest of several starts: its change resembles the normal more


class Start(Protocol):
    """Finds the first border, from adversarial points."""

    def __call__(self, problem: Problem, rows: Tensor, start: Tensor, locate: Locate) -> Begun:
        """A border for each image, from adversarial points `(A, d)`."""


class Direction(Protocol[S]):
    """Estimates the border's normal, towards the adversarial side."""

    @property
    def fewest(self) -> int:
        """Smallest number of directions of an iteration, if the budget allows it."""

    def begin(self, problem: Problem, begun: Begun) -> S:
        """The state before the first iteration."""

    def __call__(self, problem: Problem, border: Border, iteration: int, state: S) -> tuple[Tensor, S]:
        """The estimate `(A, d)`, of any length, and the new state; 0 if the answers held no information."""

    def far(self, state: S) -> Tensor | None:
        """The images in far mode: bool `(A,)`, or None if there are none; see `FarMode`."""

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: S) -> S:
        """The state after the search on the new line."""


class StepRule(Protocol[S]):
    """Steps along a direction to the outer end of the next search line."""

    def begin(self, images: int) -> S:
        """The state before the first iteration."""

    def __call__(
        self,
        problem: Problem,
        border: Border,
        gradient: Tensor,
        remeasure: Tensor,
        iteration: int,
        state: S,
        far: Tensor | None = None,
    ) -> Move:
        """A step for each image; where `remeasure` `(A,)` is true, the old ray again. For `far` see `Direction`."""

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: S) -> S:
        """The state after the search on the new line."""


class Acceptance(Protocol[S]):
    """Chooses between the border just found and the one before."""

    def begin(self, images: int) -> S:
        """The state before the first iteration."""

    def __call__(self, problem: Problem, found: Border, before: Border, move: Move, state: S) -> tuple[Decision, S]:
        """Which images go on from the new border."""


class Restart(Protocol[S]):
    """Finds a new start for images whose line turned out to have no border."""

    def begin(self, images: int) -> S:
        """The state before the first iteration."""

    def __call__(
        self, problem: Problem, border: Border, move: Move | None, locate: Locate, state: S
    ) -> tuple[Border, S]:
        """The border, with lost images on new lines; `move` is None right after the start."""


@runtime_checkable
class PlansIterations(Protocol):
    """A configuration that can go on until a budget is spent."""

    def iterations_within(self, budget: int) -> int:
        """The number of iterations that no walk within the budget exceeds."""


@runtime_checkable
class NeedsGradient(Protocol):
    """A configuration that says whether it takes the direction from the white box."""

    true_gradient: bool


@runtime_checkable
class ChoosesStart(Protocol):
    """A configuration that says whether it begins at the nearest image of a pool."""

    nearest_start: bool


def needs_gradient(config: object) -> bool:
    """Whether an attack needs a white box; no, unless its configuration says so."""
    return isinstance(config, NeedsGradient) and bool(config.true_gradient)


def begins_nearest(config: object) -> bool:
    """Whether an attack begins at the nearest image of a pool; no, unless its configuration says so."""
    return isinstance(config, ChoosesStart) and bool(config.nearest_start)
