"""PSJ under every noise model: its distance by iteration and by query, and at the end against the noise level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import (
    Ask,
    Cell,
    Evidence,
    Experiment,
    Finding,
    Lab,
    Setup,
    Table,
    Way,
    undecided_if_capped,
)
from popskipjump.experiments.reproduce.drawing import (
    COLOURS,
    Line,
    canvas,
    distance_axis,
    draw_lines,
    finish,
    plain_log_axis,
)
from popskipjump.experiments.reproduce.majority import majority_distance
from popskipjump.experiments.reproduce.numbers import (
    INTERVALS,
    Curve,
    Ratio,
    all_of,
    border,
    by_iteration,
    by_queries,
    farther,
    queries,
    ratio,
    show,
    show_ratio,
    show_ratios,
)
from popskipjump.experiments.reproduce.tables import FEW_MORE, KEPT
from popskipjump.experiments.run_data import RunData
from popskipjump.experiments.style import INK
from popskipjump.metrics import summarise

REFERENCE = "dropout"  # the paper's noise model for the figure in its main text


class NoiseLevels(Experiment):
    """What the two figures share: PSJ at growing levels of some noise models, beside HSJ without noise."""

    uses_levels = True

    def models(self, setup: Setup) -> dict[str, tuple[str, ...]]:
        """The noise models shown, with their levels."""
        return setup.levels()

    def plan(self, setup: Setup) -> list[Ask]:
        """HSJ and PSJ without noise, PSJ at every level."""
        images = setup.images(setup.size.images)
        noises = [noise for levels in self.models(setup).values() for noise in levels]
        return [Ask(way, images) for way in (setup.hsj(), setup.psj(), *(setup.psj(noise) for noise in noises))]

    def table(self, evidence: Evidence) -> Table:
        """A row for each level."""
        setup = evidence.setup
        base = evidence[setup.hsj()]
        rows: list[tuple[Cell, ...]] = []
        entries = [("none", setup.hsj(), "HSJ"), ("none", setup.psj(), "PSJ")]
        entries += [(noise, setup.psj(noise), "PSJ") for levels in self.models(setup).values() for noise in levels]
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
            draw_lines(right, [Line(by_queries(run), label, colour, style) for label, run, colour, style in runs])
            label_pair(left, right, name, evidence.images())
        return figure

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
        return undecided_if_capped(
            setup, Finding(all_of([self._on_par(evidence), self._converges(evidence)]), sentence)
        )

    def claims(self, evidence: Evidence) -> dict[int, bool | None]:
        """HSJ's quality at every level, which needs all its queries; HSJ's queries as the noise vanishes."""
        on_par = undecided_if_capped(evidence.setup, Finding(self._on_par(evidence), "")).supported
        return {2: on_par, 3: self._converges(evidence)}

    def _calls(self, evidence: Evidence, noises: Sequence[str | None]) -> list[float]:
        """PSJ's queries under some noises, relative to HSJ's without noise."""
        asked = queries(evidence[evidence.setup.hsj()]).median
        return [ratio(queries(evidence[evidence.setup.psj(noise)]).median, asked) for noise in noises]

    def _on_par(self, evidence: Evidence) -> bool | None:
        setup = evidence.setup
        noises = [noise for levels in self.models(setup).values() for noise in levels]
        return all_of(farther(evidence[setup.psj(n)], evidence[setup.hsj()]).at_most(KEPT) for n in noises)

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


class NoiseModel(Experiment):
    """The noise models side by side, and HSJ under each."""

    name = "noise-model"
    title = "PSJ and HSJ across noise models"
    claim = "PSJ ends equally close under every noise model and level, while little noise breaks HSJ."
    uses_levels = True

    def plan(self, setup: Setup) -> list[Ask]:
        """PSJ and HSJ, without noise and at every level."""
        images = setup.images(setup.size.images)
        noises = (None, *self.noises(setup))
        return [Ask(way, images) for noise in noises for way in (setup.psj(noise), setup.hsj(noise))]

    def noises(self, setup: Setup) -> list[str]:
        """All levels of all models."""
        return [noise for levels in setup.levels().values() for noise in levels]

    def notes(self, setup: Setup) -> list[str]:
        """Whose border it is."""
        whose = (
            "The border distance is that of the classifier without noise. Under dropout, smoothing and cropping most "
            "answers are those of another classifier, and PSJ looks for its border: the table has the distance to that "
            "border on the same rays, too."
        )
        return [*super().notes(setup), whose]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Distance `(B,)` to the border of the majority of the answers, on the rays that PSJ found."""
        found = {}
        for noise in self.noises(lab.setup):
            run = runs[lab.setup.psj(noise)]
            if noise.startswith("logit"):  # the likeliest answer is the noiseless one
                found[noise] = run.border_distances
                continue
            pictures = (torch.from_numpy(array) for array in (run.originals, run.points, run.labels))
            found[noise] = majority_distance(lab.model, noise, *pictures).numpy().astype(float)
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row for each level: both attacks at the end."""
        setup = evidence.setup
        rows: list[tuple[Cell, ...]] = []
        for noise in (None, *self.noises(setup)):
            psj, hsj = border(evidence[setup.psj(noise)]), border(evidence[setup.hsj(noise)])
            rows.append(
                (
                    noise or "none",
                    *(round(v, 3) for v in psj[:3]),
                    round(psj.median if noise is None else summarise(evidence.measured[noise]).median, 3),
                    *(round(v, 3) for v in hsj[:3]),
                    *(round(grown(evidence, attack, noise).value, 3) for attack in ("psj", "hsj")),
                )
            )
        psj_columns = ("PSJ L2, median", "40%", "60%", "PSJ L2 to the majority's border, median")
        hsj_columns = ("HSJ L2, median", "40% ", "60% ")
        return Table(("noise", *psj_columns, *hsj_columns, "PSJ / own without noise", "HSJ / own without noise"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """By iteration at the strongest noise, and at the end against the level."""
        setup = evidence.setup
        figure, (left, right) = canvas(2)
        lines = [Line(by_iteration(evidence[setup.psj()]), "no noise", INK, "--")]
        ends = []
        for number, (_, levels) in enumerate(setup.levels().items()):
            colour = COLOURS[number]
            lines.append(Line(by_iteration(evidence[setup.psj(levels[-1])]), levels[-1], colour))
            noises = (None, *levels)
            for way, style, label in ((setup.psj, "o-", "PSJ"), (setup.hsj, "x--", "HSJ")):
                summaries = [border(evidence[way(noise)]) for noise in noises]
                middle, low, high = (np.array([s[i] for s in summaries]) for i in range(3))
                curve = Curve(np.arange(len(noises), dtype=float), middle, low, high)
                ends.append(Line(curve, label, colour, style, band=label == "PSJ"))
        draw_lines(left, lines)
        draw_lines(right, ends)
        for axes in (left, right):
            distance_axis(axes)
        finish(left, "iterations", "border distance (ℓ₂)", f"PSJ, strongest noise: median of {evidence.images()}")
        names = ["no noise", *("\n".join(same) for same in zip(*setup.levels().values(), strict=True))]
        right.set_xticks(range(len(names)), names, fontsize=7)
        title = f"After {setup.size.iterations} iterations: PSJ solid, HSJ dashed, colours as on the left"
        finish(right, "", "", title, legend=False)
        return figure

    def verdict(self, evidence: Evidence) -> Finding:
        """PSJ keeps its distance everywhere; HSJ loses it at the strongest level of every model."""
        setup = evidence.setup
        kept = {noise: grown(evidence, "psj", noise) for noise in self.noises(setup)}
        lost = {levels[-1]: grown(evidence, "hsj", levels[-1]) for levels in setup.levels().values()}
        far = [noise for noise, found in kept.items() if found.at_most(KEPT) is False]
        whole = [noise for noise, found in lost.items() if found.above(KEPT) is False]
        sentence = (
            f"PSJ ends at {show_ratios(kept)} times its noiseless distance (kept: up to {KEPT}); HSJ at "
            f"{show_ratios(lost)} times its own; {INTERVALS}."
        )
        sentence += f" PSJ beyond that: {', '.join(far)}." if far else ""
        sentence += f" HSJ not broken by {', '.join(whole)}." if whole else ""
        rules = [*(found.at_most(KEPT) for found in kept.values()), *(found.above(KEPT) for found in lost.values())]
        finding = Finding(all_of(rules), sentence)
        return undecided_if_capped(setup, finding) if far else finding

    def claims(self, evidence: Evidence) -> dict[int, bool | None]:
        """The same distance under every noise model."""
        kept = all_of(grown(evidence, "psj", noise).at_most(KEPT) for noise in self.noises(evidence.setup))
        return {4: undecided_if_capped(evidence.setup, Finding(kept, "")).supported}


def grown(evidence: Evidence, attack: str, noise: str | None) -> Ratio:
    """How many times its noiseless distance "psj" or "hsj" ends at."""
    way = evidence.setup.psj if attack == "psj" else evidence.setup.hsj
    return farther(evidence[way(noise)], evidence[way()])
