"""HSJ with several times its number of random directions."""

from __future__ import annotations

from matplotlib.figure import Figure

from popskipjump import DirectionCount
from popskipjump.experiments.reproduce.base import Ask, Cell, Evidence, Experiment, Finding, Setup, Table, Way
from popskipjump.experiments.reproduce.drawing import COLOURS, Line, canvas, draw_lines
from popskipjump.experiments.reproduce.figures.levels import label_pair
from popskipjump.experiments.reproduce.numbers import (
    at_queries,
    border,
    by_iteration,
    by_queries,
    queries,
    show,
    spread,
)

FACTORS = (1, 2, 3, 4, 5)
SAME = 1.15  # medians at equal queries within this factor are the same


def way_of(setup: Setup, factor: int) -> Way:
    """HSJ with `factor` times 100 sqrt(t) directions."""
    usual = setup.hsj()
    return usual if factor == 1 else setup.hsj(count=DirectionCount(factor=float(factor), limit=10_000))


class SampleFactor(Experiment):
    """See the module."""

    name = "sample-factor"
    title = "HSJ without noise with r times its gradient queries"
    claim = "More gradient queries make HSJ better by iteration but no better by query."

    def plan(self, setup: Setup) -> list[Ask]:
        """A run for each factor."""
        return [Ask(way_of(setup, factor), setup.images(setup.size.images)) for factor in FACTORS]

    def table(self, evidence: Evidence) -> Table:
        """A row for each factor."""
        rows: list[tuple[Cell, ...]] = []
        equal = self._at_equal_queries(evidence)
        for factor, reached in zip(FACTORS, equal, strict=True):
            run = evidence[way_of(evidence.setup, factor)]
            far = border(run)
            rows.append((factor, *(round(v, 3) for v in far[:3]), round(queries(run).median), round(reached, 3)))
        columns = ("r", "border distance, L2", "40%", "60%", "queries", "distance at the queries of r = 1")
        return Table(columns, rows)

    def draw(self, evidence: Evidence) -> Figure:
        """By iteration and by query."""
        figure, (left, right) = canvas(2, share_y=True)
        runs = [evidence[way_of(evidence.setup, factor)] for factor in FACTORS]
        for axes, curve in ((left, by_iteration), (right, by_queries)):
            draw_lines(axes, [Line(curve(r), f"r = {f}", c) for r, f, c in zip(runs, FACTORS, COLOURS, strict=False)])
        label_pair(left, right, "HSJ", evidence.images())
        return figure

    def headline(self, evidence: Evidence) -> str:
        """Five times the queries against one time."""
        equal = self._at_equal_queries(evidence)
        ends = [border(evidence[way_of(evidence.setup, factor)]).median for factor in FACTORS]
        return (
            f"5 times the directions: {show(ends[-1] / ends[0])} times the distance after as many iterations, "
            f"{show(equal[-1] / equal[0])} times after as many queries"
        )

    def verdict(self, evidence: Evidence) -> Finding:
        """Better by iteration, alike by query."""
        ends = [border(evidence[way_of(evidence.setup, factor)]).median for factor in FACTORS]
        equal = self._at_equal_queries(evidence)
        sentence = (
            f"After {evidence.setup.size.iterations} iterations r = 5 ends at {show(ends[-1])}, r = 1 at "
            f"{show(ends[0])}. At the queries of r = 1 the medians are {', '.join(map(show, equal))} for r = 1 to 5, "
            f"a factor of {show(spread(equal))} (alike: up to {SAME})."
        )
        return Finding(ends[-1] < ends[0] and spread(equal) <= SAME, sentence)

    def _at_equal_queries(self, evidence: Evidence) -> list[float]:
        """Each factor's median after the queries of r = 1."""
        runs = [evidence[way_of(evidence.setup, factor)] for factor in FACTORS]
        last = by_queries(runs[0]).x[-1]
        return [at_queries(by_queries(run), last) for run in runs]
