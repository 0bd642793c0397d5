"""PSJ and HSJ under every noise model: by iteration, and at the end against the noise level."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
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
from popskipjump.experiments.reproduce.caps import cap_asks, caps_in_words, refuted_despite_caps, wider
from popskipjump.experiments.reproduce.drawing import (
    COLOURS,
    Line,
    canvas,
    distance_axis,
    draw_lines,
    finish,
)
from popskipjump.experiments.reproduce.figures.tables import KEPT
from popskipjump.experiments.reproduce.numbers import (
    INTERVALS,
    Curve,
    Ratio,
    all_of,
    beside_psj,
    border,
    by_iteration,
    farther,
    ratio,
    show,
    show_ratios,
    show_sides,
    what_would_decide,
)
from popskipjump.experiments.style import INK
from popskipjump.metrics import MajorityBorder, majority_border, summarise
from popskipjump.runs.data import RunData

DRAWS = 512  # answers at one place, where the majority is estimated: four times as many halve the interval


class NoiseModel(Experiment):
    """The noise models side by side, and HSJ under each."""

    name = "noise-model"
    title = "PSJ and HSJ across noise models"
    claim = "PSJ ends equally close under every noise model and level, while little noise breaks HSJ."
    uses_levels = True

    def plan(self, setup: Setup) -> list[Ask]:
        """PSJ, HSJ and our QSJ, without noise and at every level; PSJ with wider caps, to check them."""
        images = setup.images(setup.size.images)
        noises = (None, *self.noises(setup))
        asks = [Ask(way(noise), images) for noise in noises for way in (setup.psj, setup.hsj, setup.qsj)]
        return [*asks, *cap_asks(setup, self.noises(setup))]

    def noises(self, setup: Setup) -> list[str]:
        """All levels of all models."""
        return [noise for levels in setup.levels().values() for noise in levels]

    def notes(self, setup: Setup) -> list[str]:
        """Whose border it is."""
        whose = (
            "The border distance is that of the classifier without noise. Under dropout, smoothing and cropping most "
            "answers are those of another classifier, and PSJ looks for its border: the table has the distance to that "
            "border on the same rays, too, and the ends of its 99% interval (equal where the probabilities are exact)."
        )
        return [*super().notes(setup), whose]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Distance `(B,)` to the majority's border on the rays that PSJ and QSJ found, and PSJ's interval."""
        found = {}
        for noise in self.noises(lab.setup):
            border = _majority_border_of(lab, noise, runs[lab.setup.psj(noise)])
            for name, distance in ((noise, border.distance), (low(noise), border.low), (high(noise), border.high)):
                found[name] = distance.double().numpy()
            found[ours(noise)] = _majority_border_of(lab, noise, runs[lab.setup.qsj(noise)]).distance.double().numpy()
            if (way := wider(lab.setup, noise)) in runs:
                found[uncapped(noise)] = _majority_border_of(lab, noise, runs[way]).distance.double().numpy()
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row for each level: both attacks at the end."""
        setup = evidence.setup
        rows: list[tuple[Cell, ...]] = []
        for noise in (None, *self.noises(setup)):
            psj, hsj, qsj = (border(evidence[way(noise)]) for way in (setup.psj, setup.hsj, setup.qsj))
            known = evidence.measured.get(ours(noise)) if noise else None
            rows.append(
                (
                    noise or "none",
                    *(round(v, 3) for v in psj[:3]),
                    *(round(v, 3) for v in self._majority(evidence, noise)),
                    *(round(v, 3) for v in hsj[:3]),
                    *(round(grown(evidence, attack, noise).value, 3) for attack in ("psj", "hsj")),
                    round(qsj.median, 3),
                    round(qsj.median if known is None else summarise(known).median, 3),
                )
            )
        psj_columns = ("PSJ L2, median", "40%", "60%", "PSJ L2 to the majority's border, median", "from", "to")
        hsj_columns = ("HSJ L2, median", "40% ", "60% ")
        grown_columns = ("PSJ / own without noise", "HSJ / own without noise")
        qsj_columns = ("QSJ L2, median", "QSJ L2 to the majority's border, median")
        return Table(("noise", *psj_columns, *hsj_columns, *grown_columns, *qsj_columns), rows)

    def _majority(self, evidence: Evidence, noise: str | None) -> list[float]:
        """Median distance to the majority's border, and the medians of both ends of its interval."""
        if noise is None:
            return [border(evidence[evidence.setup.psj()]).median] * 3
        known = evidence.measured
        return [summarise(known.get(name, known[noise])).median for name in (noise, low(noise), high(noise))]

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
            for way, style, label in ((setup.psj, "o-", "PSJ"), (setup.hsj, "x--", "HSJ"), (setup.qsj, "s-.", "QSJ")):
                summaries = [border(evidence[way(noise)]) for noise in noises]
                middle, low, high = (np.array([s[i] for s in summaries]) for i in range(3))
                curve = Curve(np.arange(len(noises), dtype=float), middle, low, high)
                ends.append(Line(curve, label, colour, style, band=label == "PSJ"))
            medians = np.array([self._majority(evidence, noise) for noise in noises])  # (levels, 3)
            middle, low_, high_ = medians.T
            ends.append(
                Line(Curve(np.arange(len(noises), dtype=float), middle, low_, high_), "", colour, ":", band=False)
            )
        draw_lines(left, lines)
        draw_lines(right, ends)
        for axes in (left, right):
            distance_axis(axes)
        finish(left, "iterations", "border distance (ℓ₂)", f"PSJ, strongest noise: median of {evidence.images()}")
        names = ["no noise", *("\n".join(same) for same in zip(*setup.levels().values(), strict=True))]
        right.set_xticks(range(len(names)), names, fontsize=7)
        title = "At the end: PSJ solid (majority dotted), HSJ dashed, QSJ dash-dotted"
        finish(right, "", "", title, legend=False)
        right.title.set_fontsize(8)
        return figure

    def ours(self, evidence: Evidence) -> str:
        """QSJ beside PSJ under every noise."""
        return beside_psj(evidence, (None, *self.noises(evidence.setup)))

    def headline(self, evidence: Evidence) -> str:
        """The strongest level of each model: the base network's border, and the majority's."""
        base = border(evidence[evidence.setup.psj()]).median
        parts = []
        for levels in evidence.setup.levels().values():
            own, majority = border(evidence[evidence.setup.psj(levels[-1])]), self._majority(evidence, levels[-1])
            parts.append(f"{show(ratio(own.median, base))} / {show(ratio(majority[0], base))} ({levels[-1]})")
        return f"PSJ's distance in units of its noiseless one, base network / majority: {', '.join(parts)}"

    def verdict(self, evidence: Evidence) -> Finding:
        """PSJ keeps its distance everywhere; HSJ loses it at the strongest level of every model."""
        setup = evidence.setup
        kept = self._kept(evidence)
        lost = {levels[-1]: grown(evidence, "hsj", levels[-1]) for levels in setup.levels().values()}
        far = [noise for noise, found in kept.items() if found.at_most(KEPT) is False]
        whole = [noise for noise, found in lost.items() if found.above(KEPT) is False]
        sentence = (
            f"PSJ ends at {show_ratios(kept)} times its noiseless distance (kept: up to {KEPT}); HSJ at "
            f"{show_ratios(lost)} times its own; {INTERVALS}."
        )
        sentence += f" PSJ beyond that: {', '.join(far)}." if far else ""
        sentence += f" HSJ not broken by {', '.join(whole)}." if whole else ""
        sentence += f" {caps}" if (caps := caps_in_words(evidence)) else ""
        rules = [*(found.at_most(KEPT) for found in kept.values()), *(found.above(KEPT) for found in lost.values())]
        if all_of(rules) is None:
            sentence += what_would_decide((found, KEPT) for found in (*kept.values(), *lost.values()))
        finding = Finding(all_of(rules), sentence)
        return undecided_if_capped(setup, finding, self._refuted(evidence)) if far else finding

    def _refuted(self, evidence: Evidence) -> bool:
        """Whether PSJ's distance grew under some noise, whatever the caps cost."""
        return refuted_despite_caps(evidence, self._kept(evidence), KEPT)

    def claims(self, evidence: Evidence) -> dict[int, bool | None]:
        """The same distance under every noise model."""
        kept = all_of(found.at_most(KEPT) for found in self._kept(evidence).values())
        return {4: undecided_if_capped(evidence.setup, Finding(kept, ""), self._refuted(evidence)).supported}

    def reasons(self, evidence: Evidence) -> dict[int, str]:
        """Which noise models it works with."""
        return {4: f"distance relative to PSJ's own without noise: {show_sides(self._kept(evidence), KEPT)}"}

    def _kept(self, evidence: Evidence) -> dict[str, Ratio]:
        """PSJ's distance under every noise, relative to its own without noise."""
        return {noise: grown(evidence, "psj", noise) for noise in self.noises(evidence.setup)}


def _majority_border_of(lab: Lab, noise: str, run: RunData) -> MajorityBorder:
    """The majority's border on the rays of a run."""
    original, points, labels, ids = (
        torch.from_numpy(array) for array in (run.originals, run.points, run.labels, run.image_ids)
    )
    return majority_border(lab.model, noise, original, points, labels, image_ids=ids, draws=DRAWS)


def ours(noise: str) -> str:
    """The name of QSJ's distances to the majority's border."""
    return f"QSJ {noise}"


def uncapped(noise: str) -> str:
    """The name of PSJ's distances to the majority's border with wider caps, on the images of the check."""
    return f"{noise} wider caps"


def low(noise: str) -> str:
    """The name of the lower ends of the majority's intervals."""
    return f"{noise} from"


def high(noise: str) -> str:
    """The name of the upper ends."""
    return f"{noise} to"


def grown(evidence: Evidence, attack: str, noise: str | None) -> Ratio:
    """How many times its noiseless distance "psj" or "hsj" ends at."""
    way = evidence.setup.psj if attack == "psj" else evidence.setup.hsj
    return farther(evidence[way(noise)], evidence[way()])
