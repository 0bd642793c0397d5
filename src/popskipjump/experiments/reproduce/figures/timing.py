"""Queries and time of the parts of PSJ, and the effect of the two acceleration tricks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import (
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
from popskipjump.experiments.reproduce.figures.levels import label_pair
from popskipjump.experiments.reproduce.figures.tables import KEPT
from popskipjump.experiments.reproduce.numbers import curve, ratio, show, show_named
from popskipjump.experiments.reproduce.stopwatch import PARTS, timed_run
from popskipjump.runs.data import RunData

NAMES = {"search": "noisy binary search", "direction": "gradient estimation"}
MANY = 100.0  # times the queries of the search, in the paper


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

    def headline(self, evidence: Evidence) -> str:
        """Queries and seconds of both parts, over all noises."""
        noises = self.noises(evidence.setup)
        asked, taken = (
            [ratio(median_part(evidence, n, "direction")[i], median_part(evidence, n, "search")[i]) for n in noises]
            for i in range(2)
        )
        return (
            f"Gradient estimation asks {show(min(asked))} to {show(max(asked))} times what the search asks, and takes "
            f"{show(min(taken))} to {show(max(taken))} times its seconds"
        )

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

    def headline(self, evidence: Evidence) -> str:
        """Both tricks together, relative to none."""
        names = list(VARIANTS)
        taken = {
            v: median_part(evidence, v, "search")[1] / median_part(evidence, names[0], "search")[1] for v in names[1:]
        }
        return f"Seconds of the search, in those without a trick: {show_named(taken)}"

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
