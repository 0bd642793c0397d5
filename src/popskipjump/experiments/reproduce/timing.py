"""Queries and time of the parts of PSJ, and what the two acceleration tricks do to them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from popskipjump import PopSkipJump, evaluate
from popskipjump.attacks import Problem, Progress
from popskipjump.attacks.border import Border, Direction, Locate
from popskipjump.experiments.reproduce.base import (
    AttackConfig,
    Cell,
    Evidence,
    Experiment,
    Finding,
    Lab,
    Setup,
    Table,
    Way,
)
from popskipjump.experiments.reproduce.drawing import (
    COLOURS,
    Line,
    bars,
    canvas,
    distance_axis,
    draw_lines,
    finish,
    plain_log_axis,
)
from popskipjump.experiments.reproduce.levels import label_pair
from popskipjump.experiments.reproduce.numbers import curve, ratio, show, show_named
from popskipjump.experiments.reproduce.tables import KEPT
from popskipjump.experiments.run_data import RunData
from popskipjump.types import Status

PARTS = ("search", "direction")
NAMES = {"search": "noisy binary search", "direction": "gradient estimation"}
MANY = 100.0  # times the queries of the search, in the paper


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
        """After an iteration; see `evaluate(on_progress=)`."""
        self.marks.append(time.perf_counter() - self.began)


@dataclass(frozen=True, eq=False)
class _TimedSearch:
    """A search, timed."""

    search: Locate
    watch: Stopwatch

    def __call__(
        self, problem: Problem, rows: Tensor, outer: Tensor, iteration: int, previous: Border | None
    ) -> Border:
        with self.watch.timing("search"):
            return self.search(problem, rows, outer, iteration, previous)


@dataclass(frozen=True, eq=False)
class _TimedDirection:
    """A gradient estimate, timed."""

    direction: Direction
    watch: Stopwatch

    def __call__(self, problem: Problem, border: Border, iteration: int) -> Tensor:
        with self.watch.timing("direction"):
            return self.direction(problem, border, iteration)


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
            locate=_TimedSearch(walk.locate, self.watch),
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
        on_progress=watch.mark,
    )
    if Status.INTERRUPTED in report.status:
        raise KeyboardInterrupt
    found = {f"{part} seconds": np.array(watch.seconds[part] / count) for part in PARTS}
    nothing = np.zeros(count, dtype=np.int64)
    found |= {f"{part} queries": report.queries_by_phase.get(part, nothing) for part in PARTS}
    marks = np.array(watch.marks + [watch.marks[-1]] * (config.iterations + 1 - len(watch.marks)))
    found |= {"clock": marks / count, "border": report.border_trace(), "asked": report.trace.queries.numpy()}
    return found


class TimedExperiment(Experiment):
    """What is measured by the clock, on images of its own."""

    def sample(self, evidence: Evidence) -> list[int]:
        """The timed ones."""
        return [evidence.setup.images(evidence.setup.size.timed_images)]


class QueriesAndTime(TimedExperiment):
    """Where queries and time go at the strongest noise."""

    name = "queries-and-time"
    title = "Queries and time of PSJ's two parts under strong noise"
    claim = "Gradient estimation needs at least 100 times the queries of the noisy binary search, but less time."
    uses_levels = True

    def noises(self, setup: Setup) -> list[str]:
        """The strongest level of each noise model."""
        return [levels[-1] for levels in setup.levels().values()]

    def notes(self, setup: Setup) -> list[str]:
        """The caps count here too."""
        return [*super().notes(setup), *([f"{setup.capped}."] if setup.capped else []), timed_on(setup)]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """A timed run under each noise."""
        return {
            f"{noise} {name}": values
            for noise in self.noises(lab.setup)
            for name, values in timed_run(lab, lab.setup.psj(noise)).items()
        }

    def table(self, evidence: Evidence) -> Table:
        """A row for each noise and part."""
        rows: list[tuple[Cell, ...]] = []
        for noise in self.noises(evidence.setup):
            for part in PARTS:
                asked, seconds = median_part(evidence, noise, part)
                rows.append((noise, NAMES[part], round(asked), round(seconds, 3)))
        return Table(("noise", "part", "queries an image", "seconds an image"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """Bars for queries and for time."""
        figure, panels = canvas(2)
        noises = self.noises(evidence.setup)
        for which, (axes, label) in enumerate(zip(panels, ("queries per image", "seconds per image"), strict=True)):
            series = [(NAMES[part], [median_part(evidence, n, part)[which] for n in noises]) for part in PARTS]
            bars(axes, noises, series)
            finish(axes, "", label, "Strongest level of each noise model")
        return figure

    def verdict(self, evidence: Evidence) -> Finding:
        """Many more queries, less time."""
        noises = self.noises(evidence.setup)
        parts = {n: {part: median_part(evidence, n, part) for part in PARTS} for n in noises}
        asked = {n: ratio(p["direction"][0], p["search"][0]) for n, p in parts.items()}
        taken = {n: ratio(p["direction"][1], p["search"][1]) for n, p in parts.items()}
        sentence = (
            f"Gradient estimation takes {show_named(asked)} times the queries of the search (the paper: at "
            f"least {MANY:g}) and {show_named(taken)} times its seconds."
        )
        good = all(v >= MANY for v in asked.values()) and all(v < 1 for v in taken.values())
        finding = Finding(good, sentence)
        if good or not evidence.setup.capped:
            return finding
        return Finding(None, f"{sentence} The queries of both parts were capped, so this does not refute it.")


def timed_on(setup: Setup) -> str:
    """What a time means here."""
    count = setup.images(setup.size.timed_images)
    return f"Times: {count} images attacked together, divided by {count}, on this machine; queries do not depend on it."


def median_part(evidence: Evidence, name: str, part: str) -> tuple[float, float]:
    """Median queries and seconds of an image in one part of a timed run."""
    asked, seconds = evidence.measured[f"{name} {part} queries"], evidence.measured[f"{name} {part} seconds"]
    return float(np.median(asked)), float(seconds)


VARIANTS: dict[str, dict[str, Any]] = {
    "no trick": {},
    "(1) 5 queries a step": {"per_step": 5},
    "(2) narrow priors": {"shrink_priors": True},
    "both": {"per_step": 5, "shrink_priors": True},
}


class Acceleration(TimedExperiment):
    """The two tricks of the appendix."""

    name = "acceleration"
    title = "Two tricks that accelerate the noisy binary search"
    claim = (
        "Asking 5 times after each look and narrowing the priors both save time in the search, the first for more "
        "queries there, the second for fewer, without a worse result."
    )
    noise = "flip:0.1"

    def notes(self, setup: Setup) -> list[str]:
        """What was timed."""
        return [f"Noise: {self.noise}.", timed_on(setup)]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """A timed run with each choice of tricks."""
        return {
            f"{variant} {name}": values
            for variant, changes in VARIANTS.items()
            for name, values in timed_run(lab, lab.setup.psj(self.noise, **changes)).items()
        }

    def table(self, evidence: Evidence) -> Table:
        """A row for each choice."""
        rows: list[tuple[Cell, ...]] = []
        for variant in VARIANTS:
            parts = {part: median_part(evidence, variant, part) for part in PARTS}
            rows.append(
                (
                    variant,
                    round(self.distance(evidence, variant), 3),
                    *(round(parts[part][0]) for part in PARTS),
                    *(round(parts[part][1], 3) for part in PARTS),
                )
            )
        spans = [f"{what}, {NAMES[part]}" for what in ("queries", "seconds") for part in PARTS]
        return Table(("tricks", "border distance, L2", *spans), rows)

    def distance(self, evidence: Evidence, variant: str) -> float:
        """Median border distance at the end."""
        return float(np.median(evidence.measured[f"{variant} border"][-1]))

    def draw(self, evidence: Evidence) -> Figure:
        """Time and queries of the parts, and the distance by iteration, by time and by query."""
        figure, panels = canvas(3, 2)
        for which, (axes, label) in enumerate(zip(panels[:2], ("queries per image", "seconds per image"), strict=True)):
            series = [(v, [median_part(evidence, v, part)[which] for part in PARTS]) for v in VARIANTS]
            bars(axes, [NAMES[part] for part in PARTS], series)
            finish(axes, "", label, f"Noise {self.noise}")
        panels[2].set_axis_off()
        lines: dict[str, list[Line]] = {"iteration": [], "clock": [], "asked": []}
        for number, variant in enumerate(VARIANTS):
            traced = curve(
                np.arange(len(evidence.measured[f"{variant} border"])), evidence.measured[f"{variant} border"]
            )
            clock = evidence.measured[f"{variant} clock"]
            asked = np.median(evidence.measured[f"{variant} asked"], axis=1)
            for name, shown in (
                ("iteration", traced),
                ("clock", traced._replace(x=clock)),
                ("asked", traced._replace(x=asked)),
            ):
                lines[name].append(Line(shown, variant, COLOURS[number]))
        for axes, name in zip(panels[3:], ("iteration", "clock", "asked"), strict=True):
            draw_lines(axes, lines[name])
        label_pair(panels[3], panels[5], "PSJ", f"{evidence.setup.images(evidence.setup.size.timed_images)} images")
        plain_log_axis(panels[4], dense=False)
        distance_axis(panels[4])
        finish(panels[4], "seconds per image", "", "PSJ, by time", legend=False)
        return figure

    def verdict(self, evidence: Evidence) -> Finding:
        """Time and queries of the search, and the distance, relative to no trick."""
        names = list(VARIANTS)
        base = median_part(evidence, names[0], "search")
        asked = {v: ratio(median_part(evidence, v, "search")[0], base[0]) for v in names[1:]}
        taken = {v: ratio(median_part(evidence, v, "search")[1], base[1]) for v in names[1:]}
        far = {v: ratio(self.distance(evidence, v), self.distance(evidence, names[0])) for v in names[1:]}
        sentence = "Relative to no trick, in the search: " + "; ".join(
            f"{v}: {show(taken[v])} of the time, {show(asked[v])} of the queries, {show(far[v])} of the final distance"
            for v in names[1:]
        )
        faster = all(value < 1 for value in taken.values())
        queries = asked[names[1]] > 1 > asked[names[2]]
        kept = all(value <= KEPT for value in far.values())
        return Finding(faster and queries and kept, f"{sentence} (no worse: up to {KEPT}).")
