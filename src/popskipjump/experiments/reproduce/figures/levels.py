"""PSJ at growing levels of noise: its distance by iteration and by query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import (
    Ask,
    Cell,
    Evidence,
    Experiment,
    Finding,
    Setup,
    Table,
    undecided_if_capped,
)
from popskipjump.experiments.reproduce.caps import cap_asks, caps_in_words, refuted_despite_caps
from popskipjump.experiments.reproduce.drawing import (
    COLOURS,
    Line,
    canvas,
    distance_axis,
    draw_lines,
    finish,
    plain_log_axis,
)
from popskipjump.experiments.reproduce.figures.tables import FEW_MORE, KEPT
from popskipjump.experiments.reproduce.numbers import (
    INTERVALS,
    Ratio,
    all_of,
    beside_psj,
    border,
    by_iteration,
    by_queries,
    farther,
    queries,
    ratio,
    show,
    show_ratio,
    show_sides,
    what_would_decide,
)
from popskipjump.experiments.style import INK

REFERENCE = "dropout"  # the paper's noise model for the figure in its main text


class NoiseLevels(Experiment):
    """What the two figures share: PSJ at growing levels of some noise models, beside HSJ without noise."""

    uses_levels = True

    def models(self, setup: Setup) -> dict[str, tuple[str, ...]]:
        """The noise models shown, with their levels."""
        return setup.levels()

    def plan(self, setup: Setup) -> list[Ask]:
        """HSJ without noise; PSJ and our QSJ without noise and at every level; PSJ with wider caps, to check them."""
        images = setup.images(setup.size.images)
        noises = self._noises(setup)
        ways = [way(noise) for noise in noises for way in (setup.psj, setup.qsj)]
        return [*(Ask(way, images) for way in (setup.hsj(), *ways)), *cap_asks(setup, [n for n in noises if n])]

    def _noises(self, setup: Setup) -> list[str | None]:
        """No noise, and every level of every model that is shown."""
        return [None, *(noise for levels in self.models(setup).values() for noise in levels)]

    def table(self, evidence: Evidence) -> Table:
        """A row for each level."""
        setup = evidence.setup
        base = evidence[setup.hsj()]
        rows: list[tuple[Cell, ...]] = []
        entries = [("none", setup.hsj(), "HSJ")]
        ways = ((setup.psj, "PSJ"), (setup.qsj, "QSJ"))
        entries += [(noise or "none", way(noise), name) for way, name in ways for noise in self._noises(setup)]
        for noise, way, attack in entries:
            far, asked = border(evidence[way]), queries(evidence[way])
            rows.append(
                (
                    attack,
                    noise,
                    *(round(v, 3) for v in far[:3]),
                    round(ratio(far.median, border(base).median), 3),
                    round(asked.median),
                    round(ratio(asked.median, queries(base).median), 2),
                )
            )
        columns = ("attack", "noise", "border distance, L2", "40%", "60%", "distance / HSJ without noise")
        return Table((*columns, "queries", "queries / HSJ without noise"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """A row for each noise model: by iteration, and by query."""
        models = self.models(evidence.setup)
        figure, panels = canvas(2, max(len(models), 1), share_y=True)
        for number, (name, levels) in enumerate(models.items()):
            left, right = panels[2 * number : 2 * number + 2]
            setup = evidence.setup
            runs = [
                ("HSJ, no noise", evidence[setup.hsj()], INK, "--"),
                ("PSJ, no noise", evidence[setup.psj()], "#777777", "-"),
            ]
            runs += [(f"PSJ, {n}", evidence[setup.psj(n)], COLOURS[i], "-") for i, n in enumerate(levels)]
            draw_lines(left, [Line(by_iteration(run), label, colour, style) for label, run, colour, style in runs])
            quick = [(f"QSJ, {n}", evidence[setup.qsj(n)], COLOURS[i], ":") for i, n in enumerate(levels)]
            draw_lines(
                right, [Line(by_queries(run), label, colour, style) for label, run, colour, style in (*runs, *quick)]
            )
            label_pair(left, right, name, evidence.images())
            right.set_title(f"{name}, by query (dotted: QSJ)", fontsize=9, color=INK, loc="left")
        return figure

    def ours(self, evidence: Evidence) -> str:
        """QSJ beside PSJ at every level."""
        return beside_psj(evidence, self._noises(evidence.setup))

    def headline(self, evidence: Evidence) -> str:
        """Distance and queries at the strongest level of each model."""
        found = self._distances(evidence)
        parts = [f"{show(found[levels[-1]].value)} ({levels[-1]})" for levels in self.models(evidence.setup).values()]
        return f"PSJ's final distance, in HSJ's without noise: {', '.join(parts)}"

    def verdict(self, evidence: Evidence) -> Finding:
        """Distances on par with HSJ's at every level; queries that fall to HSJ's with the noise."""
        setup = evidence.setup
        base = evidence[setup.hsj()]
        parts = []
        for name, levels in self.models(setup).items():
            distances = [farther(evidence[setup.psj(n)], base) for n in levels]
            parts.append(
                f"{name} ({', '.join(levels)}): {', '.join(map(show_ratio, distances))} times HSJ's noiseless distance "
                f"with {', '.join(map(show, self._calls(evidence, levels)))} times its queries"
            )
        (limit,) = self._calls(evidence, (None,))
        sentence = (
            f"{'; '.join(parts)}. Without noise PSJ asks {show(limit)} times HSJ's queries. On par: up to {KEPT}; "
            f"queries must grow with the noise, from at most {FEW_MORE} times HSJ's; {INTERVALS}."
        )
        sentence += f" {caps}" if (caps := caps_in_words(evidence)) else ""
        if self._on_par(evidence) is None:
            sentence += what_would_decide((found, KEPT) for found in self._distances(evidence).values())
        finding = Finding(all_of([self._on_par(evidence), self._converges(evidence)]), sentence)
        return undecided_if_capped(setup, finding, self._refuted(evidence))

    def _refuted(self, evidence: Evidence) -> bool:
        """Whether PSJ falls behind HSJ under some noise, whatever the caps cost."""
        return refuted_despite_caps(evidence, self._distances(evidence), KEPT)

    def claims(self, evidence: Evidence) -> dict[int, bool | None]:
        """HSJ's quality at every level, which needs all its queries; HSJ's queries as the noise vanishes."""
        found = Finding(self._on_par(evidence), "")
        on_par = undecided_if_capped(evidence.setup, found, self._refuted(evidence)).supported
        return {2: on_par, 3: self._converges(evidence)}

    def reasons(self, evidence: Evidence) -> dict[int, str]:
        """Where HSJ's quality is kept, and where not."""
        return {2: f"distance relative to HSJ's without noise: {show_sides(self._distances(evidence), KEPT)}"}

    def _distances(self, evidence: Evidence) -> dict[str, Ratio]:
        """PSJ's distance at every level, relative to HSJ's without noise."""
        setup = evidence.setup
        noises = self._noises(setup)[1:]
        return {noise: farther(evidence[setup.psj(noise)], evidence[setup.hsj()]) for noise in noises if noise}

    def _calls(self, evidence: Evidence, noises: Sequence[str | None]) -> list[float]:
        """PSJ's queries under some noises, relative to HSJ's without noise."""
        asked = queries(evidence[evidence.setup.hsj()]).median
        return [ratio(queries(evidence[evidence.setup.psj(noise)]).median, asked) for noise in noises]

    def _on_par(self, evidence: Evidence) -> bool | None:
        return all_of(found.at_most(KEPT) for found in self._distances(evidence).values())

    def _converges(self, evidence: Evidence) -> bool:
        calls = [self._calls(evidence, (None, *levels)) for levels in self.models(evidence.setup).values()]
        return all(few <= more * 1.05 for found in calls for few, more in pairwise(found)) and calls[0][0] <= FEW_MORE


def label_pair(left: Axes, right: Axes, name: str, images: str) -> None:
    """Axes of a panel by iteration and one by query."""
    distance_axis(left)
    plain_log_axis(right, dense=False)
    distance_axis(right)
    finish(left, "iterations", "border distance (ℓ₂)", f"{name}, by iteration: median of {images}")
    finish(right, "queries per image", "", f"{name}, by query", legend=False)


class NoiseLevel(NoiseLevels):
    """One noise model, as in the main text."""

    name = "noise-level"
    title = "PSJ at growing levels of one noise model"
    claim = (
        "PSJ's distance by iteration does not depend on the noise level and is on par with HSJ's without noise; as the "
        "noise vanishes, its queries approach HSJ's."
    )

    def models(self, setup: Setup) -> dict[str, tuple[str, ...]]:
        """Dropout, or the first noise model that can act."""
        known = setup.levels()
        name = REFERENCE if REFERENCE in known else next(iter(known))
        return {name: known[name]}


class NoiseLevelComplete(NoiseLevels):
    """Every noise model, as in the appendix."""

    name = "noise-level-complete"
    title = "PSJ at growing levels of every noise model"
    claim = (
        "For every noise model PSJ's distance by iteration is largely independent of the level and on par with HSJ's "
        "without noise, and its queries approach HSJ's as the noise vanishes."
    )
