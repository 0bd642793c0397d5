"""Number of queries that HSJ with majority votes needs to reach PSJ's distance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import Ask, Cell, Evidence, Experiment, Finding, Setup, Table, Way
from popskipjump.experiments.reproduce.drawing import COLOURS, canvas, finish, plain_log_axis
from popskipjump.experiments.reproduce.numbers import all_of, beside_psj, border, farther, queries, ratio, show
from popskipjump.metrics import Summary

RADII = ("HSJ's radius", "PSJ's radius")
MUCH = 2.0  # times PSJ's queries, at least, wherever HSJ-r comes as close at all


def psj_way(setup: Setup, temperature: float) -> Way:
    """PSJ under logit sampling."""
    return setup.psj(f"logit:{temperature:g}")


def hsj_way(setup: Setup, temperature: float, radius: str, votes: int) -> Way:
    """HSJ-r under logit sampling."""
    return setup.hsj(f"logit:{temperature:g}", votes, psj_radius=radius == RADII[1])


class Match(NamedTuple):
    """The smallest number of votes with which HSJ-r came as close as PSJ."""

    votes: int | None  # None: none of those tried
    distance: float  # of HSJ-r at these votes, or at the most that were tried
    queries: float
    psj: Summary  # its queries

    @property
    def ratio(self) -> float:
        """N_HSJr / N_PSJ; a lower bound where no number of votes sufficed."""
        return ratio(self.queries, self.psj.median)


class VotesRatio(Experiment):
    """See the module."""

    name = "votes-ratio"
    title = "Queries of HSJ with repeated queries, relative to PSJ at equal distance"
    claim = (
        "At every noise level HSJ with majority votes needs many times PSJ's queries to come as close, also with PSJ's "
        "sampling radius."
    )

    def plan(self, setup: Setup) -> list[Ask]:
        """PSJ, our QSJ, and HSJ-r with both radii, at each temperature."""
        images = setup.images(setup.size.votes_images)
        asks = []
        for temperature in setup.size.votes_temperatures:
            asks += [Ask(psj_way(setup, temperature), images), Ask(setup.qsj(f"logit:{temperature:g}"), images)]
            for radius in RADII:
                asks += [Ask(hsj_way(setup, temperature, radius, votes), images) for votes in setup.size.votes]
        return asks

    def match(self, evidence: Evidence, temperature: float, radius: str) -> Match:
        """Look for the votes that suffice."""
        setup = evidence.setup
        psj = evidence[psj_way(setup, temperature)]
        goal = border(psj).median
        best = Match(None, math.inf, 0.0, queries(psj))
        for votes in setup.size.votes:
            run = evidence[hsj_way(setup, temperature, radius, votes)]
            far, asked = border(run).median, queries(run).median
            if far <= goal:
                return Match(votes, far, asked, queries(psj))
            best = best._replace(distance=far, queries=asked)
        return best

    def table(self, evidence: Evidence) -> Table:
        """A row for each temperature and radius."""
        rows: list[tuple[Cell, ...]] = []
        for temperature in evidence.setup.size.votes_temperatures:
            goal = border(evidence[psj_way(evidence.setup, temperature)]).median
            for radius in RADII:
                m = self.match(evidence, temperature, radius)
                rows.append(
                    (
                        temperature,
                        radius,
                        round(goal, 3),
                        round(m.psj.median),
                        m.votes if m.votes is not None else f"more than {evidence.setup.size.votes[-1]}",
                        round(m.distance, 3),
                        round(m.queries),
                        f"{'' if m.votes is not None else '> '}{m.ratio:.3g}",
                    )
                )
        columns = ("T", "HSJ-r with", "PSJ distance, L2", "PSJ queries", "votes r", "HSJ-r distance", "HSJ-r queries")
        return Table((*columns, "N_HSJr / N_PSJ"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """The ratio against the temperature; arrows where it is only known to be larger."""
        figure, (axes,) = canvas(1)
        temperatures = np.array(evidence.setup.size.votes_temperatures)
        for number, (radius, style) in enumerate(zip(RADII, ("o-", "s--"), strict=True)):
            found = [self.match(evidence, t, radius) for t in temperatures]
            colour = COLOURS[number]
            middle = np.array([m.ratio for m in found])
            low = np.array([ratio(m.queries, m.psj.high) for m in found])
            high = np.array([ratio(m.queries, m.psj.low) for m in found])
            axes.fill_between(temperatures, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(temperatures, middle, style, color=colour, linewidth=1.6, markersize=4, label=radius)
            for x, m in zip(temperatures, found, strict=True):
                if m.votes is None:
                    axes.annotate(
                        "",
                        (x, m.ratio * 1.8),
                        (x, m.ratio),
                        arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.4},
                    )
        top = max(self.match(evidence, t, radius).ratio for t in temperatures for radius in RADII)
        axes.set_ylim(0.8, 2.5 * top)
        axes.axhline(1.0, color="#777777", linewidth=0.8, linestyle=":")
        plain_log_axis(axes)
        plain_log_axis(axes, "y")
        axes.set_xticks(temperatures, [f"{t:g}" for t in temperatures])
        title = f"Median of {evidence.images()}; arrow: more, {evidence.setup.size.votes[-1]} votes did not suffice"
        finish(axes, "temperature T", "N(HSJ-r) / N(PSJ) at equal distance", title)
        return figure

    def surely(self, evidence: Evidence, temperature: float, radius: str) -> bool | None:
        """Whether HSJ-r surely needs many times PSJ's queries; None where the images cannot tell.

        It does if no number of votes that costs less may come as close, and does not if one of these surely does.
        """
        psj = evidence[psj_way(evidence.setup, temperature)]
        cheap, dear = [], False
        for votes in evidence.setup.size.votes:
            run = evidence[hsj_way(evidence.setup, temperature, radius, votes)]
            if ratio(queries(run).median, queries(psj).median) < MUCH:
                cheap.append(farther(run, psj).at_most(1.0))
            else:
                dear = True
        if any(close is True for close in cheap):
            return False
        return True if dear and all(close is False for close in cheap) else None

    def ours(self, evidence: Evidence) -> str:
        """QSJ beside PSJ at every temperature."""
        return beside_psj(evidence, (f"logit:{t:g}" for t in evidence.setup.size.votes_temperatures))

    def headline(self, evidence: Evidence) -> str:
        """The smallest ratio."""
        found = [self.match(evidence, t, radius) for t in evidence.setup.size.votes_temperatures for radius in RADII]
        return f"HSJ with votes needs at least {show(min(m.ratio for m in found))} times PSJ's queries to come as close"

    def verdict(self, evidence: Evidence) -> Finding:
        """Every ratio must be large, surely."""
        levels = evidence.setup.size.votes_temperatures
        sentence = (
            f'N(HSJ-r) / N(PSJ) {self._ratios(evidence)} (many times: at least {MUCH:g}; "more than": HSJ-r did not '
            f"come as close with {evidence.setup.size.votes[-1]} votes). It is decided where resampled images agree, "
            "in 80% intervals, on which votes for fewer queries than that come as close."
        )
        return Finding(all_of(self.surely(evidence, t, radius) for radius in RADII for t in levels), sentence)

    def claims(self, evidence: Evidence) -> dict[int, bool | None]:
        """Its own claim is the first."""
        return {1: self.verdict(evidence).supported}

    def reasons(self, evidence: Evidence) -> dict[int, str]:
        """The ratios."""
        return {1: f"N(HSJ-r) / N(PSJ) {self._ratios(evidence)}"}

    def _ratios(self, evidence: Evidence) -> str:
        levels = evidence.setup.size.votes_temperatures
        parts = []
        for radius in RADII:
            found = [self.match(evidence, t, radius) for t in levels]
            texts = [f"{'' if m.votes is not None else 'more than '}{show(m.ratio)}" for m in found]
            parts.append(f"with {radius} {', '.join(texts)}")
        return f"at T = {', '.join(f'{t:g}' for t in levels)}: {'; '.join(parts)}"
