"""HSJ with sampling radii from 1/d to 1."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import Ask, Cell, Evidence, Experiment, Finding, Setup, Table, Way
from popskipjump.experiments.reproduce.drawing import (
    COLOURS,
    Line,
    canvas,
    distance_axis,
    draw_lines,
    finish,
    plain_log_axis,
)
from popskipjump.experiments.reproduce.figures.tables import KEPT
from popskipjump.experiments.reproduce.numbers import (
    INTERVALS,
    Curve,
    all_of,
    border,
    by_iteration,
    farther,
    queries,
    ratio,
    show,
    show_ratios,
    spread,
    what_would_decide,
)


def radii(setup: Setup) -> list[float]:
    """delta_t in units of the distance: evenly in ratio from 1/d to 1, and PSJ's own."""
    even = np.geomspace(1 / setup.dimension, 1.0, setup.size.radii)
    return sorted({float(f"{value:.3g}") for value in (*even, psj_radius(setup))})


def psj_radius(setup: Setup) -> float:
    """sqrt(d)/100 on MNIST, sqrt(d)/300 on CIFAR-10 (errata E6)."""
    return float(f"{setup.dimension**0.5 / (100 if setup.dimension <= 1024 else 300):.3g}")


def way_of(setup: Setup, radius: float) -> Way:
    """HSJ with one radius throughout; the end of its bisection keeps the published ratio to it."""
    return setup.hsj(radius=radius)


class Radius(Experiment):
    """See the module."""

    name = "radius"
    title = "HSJ without noise against its sampling radius"
    claim = (
        "Without noise HSJ's result is largely independent of the sampling radius, so that it can be enlarged from 1/d "
        "by orders of magnitude."
    )

    def plan(self, setup: Setup) -> list[Ask]:
        """A run for each radius."""
        return [Ask(way_of(setup, radius), setup.images(setup.size.images)) for radius in radii(setup)]

    def table(self, evidence: Evidence) -> Table:
        """A row for each radius."""
        values = radii(evidence.setup)
        first = border(evidence[way_of(evidence.setup, values[0])]).median
        rows: list[tuple[Cell, ...]] = []
        for radius in values:
            far, asked = (
                border(evidence[way_of(evidence.setup, radius)]),
                queries(evidence[way_of(evidence.setup, radius)]),
            )
            rows.append(
                (radius, *(round(v, 3) for v in far[:3]), round(ratio(far.median, first), 3), round(asked.median))
            )
        return Table(("radius β", "border distance, L2", "40%", "60%", "distance / that at 1/d", "queries"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """By iteration, and at the end."""
        figure, (left, right) = canvas(2)
        values = radii(evidence.setup)
        runs = [evidence[way_of(evidence.setup, radius)] for radius in values]
        colours = [COLOURS[i % len(COLOURS)] for i in range(len(values))]
        draw_lines(
            left,
            [
                Line(by_iteration(run), f"β = {value:g}", colour, band=False)
                for run, value, colour in zip(runs, values, colours, strict=True)
            ],
        )
        ends = [border(run) for run in runs]
        middle, low, high = (np.array([s[i] for s in ends]) for i in range(3))
        draw_lines(right, [Line(Curve(np.array(values), middle, low, high), "HSJ", COLOURS[0], "o-")])
        right.axvline(psj_radius(evidence.setup), color="#777777", linestyle=":", linewidth=1, label="PSJ's")
        distance_axis(left)
        plain_log_axis(right, dense=False)
        right.set_ylim(bottom=0)
        finish(left, "iterations", "border distance (ℓ₂)", f"Median of {evidence.images()}")
        finish(
            right, "sampling radius β (units of the distance)", "", f"After {evidence.setup.size.iterations} iterations"
        )
        return figure

    def headline(self, evidence: Evidence) -> str:
        """The spread of the medians over all radii."""
        ends = [border(evidence[way_of(evidence.setup, radius)]).median for radius in radii(evidence.setup)]
        return f"From radius 1/d to 1, HSJ's median distance without noise changes by a factor of {show(spread(ends))}"

    def verdict(self, evidence: Evidence) -> Finding:
        """No radius may cost more than a tenth of the distance."""
        values = radii(evidence.setup)
        runs = [evidence[way_of(evidence.setup, radius)] for radius in values]
        shares = {f"β = {value:g}": farther(run, runs[0]) for value, run in zip(values[1:], runs[1:], strict=True)}
        worse = [name for name, found in shares.items() if found.at_most(KEPT) is False]
        sentence = (
            f"Relative to β = {values[0]:g} the median is {show_ratios(shares)} "
            f"(independent: up to {KEPT}; PSJ's is {psj_radius(evidence.setup):g}; {INTERVALS})."
        )
        sentence += f" Worse at {', '.join(worse)}." if worse else ""
        rules = all_of(found.at_most(KEPT) for found in shares.values())
        sentence += what_would_decide((found, KEPT) for found in shares.values()) if rules is None else ""
        return Finding(rules, sentence)
