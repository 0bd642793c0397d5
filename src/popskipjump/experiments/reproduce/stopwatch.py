"""Time measurements of PSJ: its search and its gradient estimate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from popskipjump import Hooks, PopSkipJump, evaluate
from popskipjump.attacks import Problem, Progress
from popskipjump.attacks.border import Border
from popskipjump.attacks.protocols import Begun, Direction, Move, Search, Window
from popskipjump.experiments.reproduce.base import AttackConfig, Lab, Way
from popskipjump.types import Status

PARTS = ("search", "direction")


@dataclass(eq=False)
class Stopwatch:
    """Seconds by part of an attack, and after each of its iterations."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    began: float = field(default_factory=time.perf_counter)
    marks: list[float] = field(default_factory=list)

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Add what happens inside to a part."""
        began = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - began

    def mark(self, progress: Progress) -> None:
        """After an iteration; see `Hooks`."""
        self.marks.append(time.perf_counter() - self.began)


@dataclass(frozen=True, eq=False)
class _TimedSearch:
    """A search, timed."""

    search: Search[Any]
    watch: Stopwatch

    @property
    def per_step(self) -> int:
        return self.search.per_step

    @property
    def models_noise(self) -> bool:
        return self.search.models_noise

    def begin(self, images: int) -> Any:
        return self.search.begin(images)

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: Any,
    ) -> tuple[Border, Any]:
        with self.watch.timing("search"):
            return self.search(problem, rows, outer, window, iteration, previous, state)


@dataclass(frozen=True, eq=False)
class _TimedDirection:
    """A gradient estimate, timed."""

    direction: Direction[Any]
    watch: Stopwatch

    @property
    def fewest(self) -> int:
        return self.direction.fewest

    def begin(self, problem: Problem, begun: Begun) -> Any:
        return self.direction.begin(problem, begun)

    def far(self, state: Any) -> Tensor | None:
        return self.direction.far(state)

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: Any) -> Any:
        return self.direction.learn(problem, before, found, move, state)

    def __call__(self, problem: Problem, border: Border, iteration: int, state: Any) -> tuple[Tensor, Any]:
        with self.watch.timing("direction"):
            return self.direction(problem, border, iteration, state)


@dataclass(frozen=True, eq=False)
class Timed:
    """PSJ with its search and its gradient estimate timed."""

    config: PopSkipJump
    watch: Stopwatch

    @property
    def iterations(self) -> int:
        """As configured."""
        return self.config.iterations

    def build(self, dimension: int) -> Any:
        """The attack for inputs of d values."""
        walk = self.config.build(dimension)
        return replace(
            walk,
            search=_TimedSearch(walk.search, self.watch),
            direction=_TimedDirection(walk.direction, self.watch),
        )


def timed_run(lab: Lab, way: Way) -> dict[str, np.ndarray]:
    """Attack the first images once, by the clock: seconds an image by part, queries by part, and the traces."""
    config: AttackConfig = way.attack
    if not isinstance(config, PopSkipJump):
        raise TypeError("only PSJ is timed by its parts.")
    count = lab.setup.images(lab.setup.size.timed_images)
    watch = Stopwatch()
    report = evaluate(
        lab.model,
        lab.images[:count],
        lab.labels[:count],
        Timed(config, watch),
        way.noise,
        starts=lab.pool,
        seed=lab.seed,
        verdict=0,
        image_ids=lab.image_ids[:count],
        hooks=Hooks(on_progress=watch.mark),
    )
    if Status.INTERRUPTED in report.status:
        raise KeyboardInterrupt
    found = {f"{part} seconds": np.array(watch.seconds[part] / count) for part in PARTS}
    nothing = np.zeros(count, dtype=np.int64)
    found |= {f"{part} queries": report.queries_by_phase.get(part, nothing) for part in PARTS}
    marks = np.array(watch.marks + [watch.marks[-1]] * (config.iterations + 1 - len(watch.marks)))
    found |= {"clock": marks / count, "border": report.border_trace(), "asked": report.trace.queries.numpy()}
    return found
