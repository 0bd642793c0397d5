"""The interface of an attack (`init`, then repeated `step`), and the loop that runs an attack to its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.settle import Ending, Lines, Settle, conclude, release, set_aside
from popskipjump.errors import InputError, OracleError
from popskipjump.sigmoid import Estimate
from popskipjump.types import Status

MOST_ITERATIONS = 100_000  # a trace has a row for each
_SETTLED = 1e-4  # part of the distance that the settle phase may add even without noise


def check_iterations(iterations: int) -> None:
    """Raise an error unless an attack can make so many iterations."""
    if iterations < 0:
        raise InputError(f"iterations must be at least 0, not {iterations:,}.")
    if iterations > MOST_ITERATIONS:
        raise InputError(f"iterations must be at most {MOST_ITERATIONS:,}, not {iterations:,}; see `budget`.")


class Step(NamedTuple):
    """Result of a step: the border of the images that continue, and the status of those that end."""

    border: Border  # of the images still in the batch
    ended: dict[int, Status]  # row -> why it left
    memory: object = None  # private state of the attack


class Attack(Protocol):
    """An attack on all images of a problem in lock-step."""

    @property
    def iterations(self) -> int:
        """Steps along the border, at most."""

    def init(self, problem: Problem, rows: Tensor, start: Tensor) -> Step:
        """From adversarial points `(A, d)` to the first border."""

    def step(self, problem: Problem, before: Step, iteration: int) -> Step:
        """One iteration, counted from 1, for the images of `before.border`."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Trace by iteration (0 is the first search) and image; an image that has ended keeps its last values."""

    distance: Tensor  # (T + 1, B) float64, of the border point
    queries: Tensor  # (T + 1, B) int64, asked so far
    points: Tensor | None  # (T + 1, B, d) float32, border points, on the CPU; None if not kept
    centre: Tensor  # (T + 1, B) float64, the sigmoid's centre on its search line; nan without one
    slope: Tensor  # (T + 1, B) float64, per unit of the search line
    low: Tensor  # (T + 1, B) float64, noise at the adversarial end
    high: Tensor  # (T + 1, B) float64, noise at the original
    gap: Tensor  # (T + 1, B) float64, L2 length of the search line


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Result of an attack on B images."""

    points: Tensor  # (B, d) float32, on the CPU
    distances: Tensor  # (B,) float64; inf without a point
    walked: Tensor  # (B,) float64, distances before the settle phase; inf likewise
    success: Tensor  # (B,) bool, whether the point is confirmed to be adversarial
    yes: Tensor  # (B,) int64, adversarial answers at the point in the settle phase
    asked: Tensor  # (B,) int64, answers at the point in the settle phase
    status: list[Status]
    warnings: list[str]
    error: OracleError | None  # why the run ended, if the classifier failed on every image
    trace: Trace
    estimate: Estimate | None  # (B,) of the last search lines
    probes: Tensor | None  # (B, 2, P) int64, what was asked and found adversarial there; see `Border`


class Snapshot(NamedTuple):
    """The borders after an iteration, for callbacks."""

    iteration: int
    border: Border  # of A images
    image_id: Tensor  # (A,) int64
    queries: Tensor  # (A,) int64, asked so far


class Progress(NamedTuple):
    """How far a run is, for a progress bar."""

    iteration: int
    iterations: int
    images: int  # still in the batch
    queries: int  # so far, all images


def run(
    attack: Attack,
    problem: Problem,
    rows: Tensor,
    start: Tensor,
    status: list[Status],
    *,
    stop_distance: float | None = None,
    keep_points: bool = True,
    keep_interrupted: bool = True,
    open_end: bool = False,
    settle: Settle | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_step: Callable[[Snapshot], None] | None = None,
) -> AttackResult:
    """Run an attack from starting points to the end of every image, and settle the points it returns.

    Args:
        attack: what to run.
        problem: B images.
        rows: `(A,)` the images to attack.
        start: `(A, d)` an adversarial point for each.
        status: B, the status of each image; changed in place.
        stop_distance: an image ends once its point is within this distance.
        keep_points: keep the points of every iteration in the trace.
        keep_interrupted: on Ctrl-C, return the points found so far instead of raising the interrupt.
        open_end: the number of iterations is only a limit, and the trace ends with the last iteration made.
        settle: settings of the settle phase; None for the default.
        on_progress: called after every iteration.
        on_step: called with the borders of every iteration.
    """
    record = _Record(problem, attack.iterations, keep_points)
    try:
        if len(rows):
            _walk(attack, problem, rows, start, status, record, stop_distance, on_progress, on_step)
            release(problem)
            record.settle(conclude(problem, settle or Settle(), record.lines, rows, start, status))
    except KeyboardInterrupt:
        if not keep_interrupted:
            raise
        status[:] = [Status.INTERRUPTED if s is Status.RUNNING or s.ended_well else s for s in status]
    except OracleError as error:
        record.error = error
        status[:] = [Status.ORACLE_FAILED if s is Status.RUNNING or s.ended_well else s for s in status]
    return record.result(status, open_end)


def _walk(
    attack: Attack,
    problem: Problem,
    rows: Tensor,
    start: Tensor,
    status: list[Status],
    record: _Record,
    stop_distance: float | None,
    on_progress: Callable[[Progress], None] | None,
    on_step: Callable[[Snapshot], None] | None,
) -> None:
    """All iterations of an attack; see `run`."""
    now = attack.init(problem, rows, start)
    for iteration in range(attack.iterations + 1):
        if iteration:
            now = attack.step(problem, now, iteration)
        answered = _answered(problem, now.border)
        record.write(iteration, answered)
        if on_step is not None:
            rows = answered.rows
            on_step(Snapshot(iteration, answered, problem.image_id[rows], problem.ledger.total[rows].clone()))
        set_aside(problem, now.border)
        now = _without_ended(problem, now, status, record, stop_distance)
        if on_progress is not None:
            asked = int(problem.ledger.total.sum())
            on_progress(Progress(iteration, attack.iterations, len(now.border.rows), asked))
        if not len(now.border.rows):
            break
    for row in now.border.rows.tolist():
        status[row] = Status.FINISHED


def _answered(problem: Problem, border: Border) -> Border:
    """The border without the images on which the classifier failed; these keep their earlier border."""
    if not problem.failed:
        return border
    return border.select(torch.tensor([row not in problem.failed for row in border.rows.tolist()], dtype=torch.bool))


def _without_ended(
    problem: Problem, now: Step, status: list[Status], record: _Record, stop_distance: float | None
) -> Step:
    """Remove the images that cannot or need not continue."""
    ended = dict(now.ended)
    if stop_distance is not None:
        near = (1 + _SETTLED) * record.final_distance(now.border) <= stop_distance
        ended |= dict.fromkeys(now.border.rows[near].tolist(), Status.CLOSE_ENOUGH)
    ended |= dict.fromkeys(problem.failed, Status.ORACLE_FAILED)
    for row, why in ended.items():
        if status[row] is Status.RUNNING:
            status[row] = why
    stays = torch.tensor([row not in ended for row in now.border.rows.tolist()], dtype=torch.bool)
    return now if bool(stays.all()) else now._replace(border=now.border.select(stays), ended={})


class _Record:
    """The trace as it grows, and the last border of every image."""

    def __init__(self, problem: Problem, iterations: int, keep_points: bool) -> None:
        images = len(problem.original)
        self.problem = problem
        self.last = 0
        shape = (iterations + 1, images)
        self.distance = torch.full(shape, torch.inf, dtype=torch.float64)
        self.queries = torch.zeros(shape, dtype=torch.int64)
        self.sigmoid = torch.full((4, *shape), torch.nan, dtype=torch.float64)
        self.gap = torch.full(shape, torch.nan, dtype=torch.float64)
        self.points = problem.original.to("cpu", copy=True)
        self.history: list[Tensor] | None = [] if keep_points else None
        self.final = torch.full((images,), torch.inf, dtype=torch.float64)
        self.probes: Tensor | None = None
        self.lines = Lines(problem)
        self.walked = self.final  # before the settle phase
        self.success = torch.zeros(images, dtype=torch.bool)
        self.yes = torch.zeros(images, dtype=torch.int64)
        self.asked = torch.zeros(images, dtype=torch.int64)
        self.warnings: list[str] = []
        self.error: OracleError | None = None

    def write(self, iteration: int, border: Border) -> None:
        """Note an iteration's border."""
        self.last = iteration
        if iteration:
            for table in (self.distance, self.queries, self.gap):
                table[iteration] = table[iteration - 1]
            self.sigmoid[:, iteration] = self.sigmoid[:, iteration - 1]
        rows = border.rows
        self.distance[iteration, rows] = border.distance
        self.queries[iteration] = self.problem.ledger.total
        self.gap[iteration, rows] = border.gap
        if border.estimate is not None:
            e = border.estimate
            self.sigmoid[:, iteration, rows] = torch.stack((e.centre, e.slope, e.low, e.high))
        if border.probes is not None:
            if self.probes is None:
                self.probes = border.probes.new_zeros(len(self.points), *border.probes.shape[1:])
            self.probes[rows] = border.probes
        if self.history is not None:
            self.history.append((self.history[-1] if self.history else self.problem.original.cpu()).clone())
            self.history[-1][rows] = border.point.cpu()
        final = self._final_points(border)
        self.points[rows] = final.cpu()
        self.final[rows] = self._sizes(final, rows)
        self.lines.write(border, self.final[rows])

    def settle(self, ending: Ending | None) -> None:
        """Note the points of the settle phase."""
        if ending is None:
            return
        rows, self.walked = ending.rows, self.final.clone()
        self.points[rows] = ending.points.cpu()
        self.final[rows] = self._sizes(ending.points, rows)
        self.success[rows], self.yes[rows], self.asked[rows] = ending.confirmed, ending.yes, ending.asked
        self.warnings += ending.warnings

    def _final_points(self, border: Border) -> Tensor:
        """The point to return: on the adversarial side with confidence."""
        original = self.problem.originals(border.rows)
        return self.problem.norm.blend(border.outer, original, self.problem.on_device(border.safe))

    def _sizes(self, points: Tensor, rows: Tensor) -> Tensor:
        return self.problem.on_cpu(self.problem.norm.size(points - self.problem.originals(rows)))

    def final_distance(self, border: Border) -> Tensor:
        """Distances of the points to be returned: `(A,)`."""
        return self.final[border.rows]

    def result(self, status: list[Status], open_end: bool = False) -> AttackResult:
        """The result; an image without a point has an infinite distance, a misclassified one distance 0."""
        if open_end:
            end = self.last + 1
            self.distance, self.queries, self.gap = self.distance[:end], self.queries[:end], self.gap[:end]
            self.sigmoid = self.sigmoid[:, :end]
        for later in range(self.last + 1, len(self.distance)):
            for table in (self.distance, self.queries, self.gap):
                table[later] = table[self.last]
            self.sigmoid[:, later] = self.sigmoid[:, self.last]
        without = torch.tensor([not (s.has_point or s is Status.ORACLE_FAILED) for s in status], dtype=torch.bool)
        self.final[without] = torch.inf
        self.walked[without] = torch.inf
        self.points[without] = self.problem.original.cpu()[without]
        at_once = torch.tensor([s is Status.MISCLASSIFIED for s in status], dtype=torch.bool)
        self.final[at_once] = 0.0
        self.walked[at_once] = 0.0
        self.success |= at_once  # its check has asked the image itself
        self.distance[:, at_once] = 0.0
        centre, slope, low, high = self.sigmoid
        trace = Trace(self.distance, self.queries, self._all_points(), centre, slope, low, high, self.gap)
        known = not bool(torch.isnan(centre[-1]).all())
        estimate = Estimate(centre[-1], slope[-1].log10(), low[-1], high[-1]) if known else None
        return AttackResult(
            self.points,
            self.final,
            self.walked,
            self.success,
            self.yes,
            self.asked,
            status,
            self.warnings,
            self.error,
            trace,
            estimate,
            self.probes,
        )

    def _all_points(self) -> Tensor | None:
        """The points of every iteration; those of the last one fill the rest of the trace: `(T + 1, B, d)`."""
        if self.history is None:
            return None
        made = self.history or [self.problem.original.cpu()]
        return torch.stack(made + [made[-1]] * (len(self.distance) - len(made)))
