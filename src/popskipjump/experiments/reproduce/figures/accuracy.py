"""Adversarial accuracy against the size of the attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import (
    QSJ_BUDGET,
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
from popskipjump.experiments.reproduce.drawing import COLOURS, canvas, finish
from popskipjump.experiments.reproduce.numbers import show, show_named
from popskipjump.experiments.style import INK
from popskipjump.metrics import adversarial_accuracy
from popskipjump.noise import noise_of
from popskipjump.noise.selection import correct_probability
from popskipjump.runs.data import RunData

DRAWS = 200  # answers for each point where a noise model has no closed form
ETAS = 200
SAME = 0.05  # mean difference of two accuracy curves that coincide


def ways_of(setup: Setup) -> dict[str, Callable[[str | None], Way]]:
    """The attacks of the figure, each for a noise."""
    return {"psj": setup.psj, "hsj": setup.hsj, "qsj": setup.qsj}


class AdversarialAccuracy(Experiment):
    """See the module."""

    name = "adversarial-accuracy"
    title = "Adversarial accuracy under PSJ and HSJ"
    claim = "PSJ's accuracy curves lie well below HSJ's under every noise, and both coincide without noise."
    uses_levels = True

    def groups(self, setup: Setup) -> tuple[tuple[str | None, ...], tuple[str | None, ...]]:
        """The levels of logit sampling, and the strongest level of every noise model; none first in both."""
        levels = setup.levels()
        return (None, *levels["logit sampling"]), (None, *(values[-1] for values in levels.values()))

    def noises(self, setup: Setup) -> list[str | None]:
        """All of them, each once."""
        return list(dict.fromkeys(noise for group in self.groups(setup) for noise in group))

    def plan(self, setup: Setup) -> list[Ask]:
        """PSJ, HSJ and our QSJ under each noise."""
        images = setup.images(setup.size.images)
        return [Ask(way(noise), images) for noise in self.noises(setup) for way in ways_of(setup).values()]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Probability of the true class at the images and at the points that each attack returned: `(B,)` each."""
        found = {}
        for noise in self.noises(lab.setup):
            probability = correct_probability(noise_of(noise), lab.model, DRAWS)
            for name, way in ways_of(lab.setup).items():
                run = runs[way(noise)]
                labels = torch.from_numpy(run.labels)
                for what, points in (("clean", run.originals), ("point", run.points)):
                    found[f"{name} {noise or 'none'} {what}"] = (
                        probability(torch.from_numpy(points), labels).cpu().numpy()
                    )
        return found

    def accuracy(self, evidence: Evidence, attack: str, noise: str | None, etas: np.ndarray) -> np.ndarray:
        """Adversarial accuracy at sizes `(E,)`: `(E,)`."""
        way = ways_of(evidence.setup)[attack](noise)
        clean, point = (
            torch.from_numpy(evidence.measured[f"{attack} {noise or 'none'} {what}"]) for what in ("clean", "point")
        )
        distances = torch.from_numpy(evidence[way].distances).to(clean)
        return adversarial_accuracy(distances, torch.from_numpy(etas), clean, point).numpy()

    def sizes(self, evidence: Evidence) -> np.ndarray:
        """From 0 to beyond what PSJ needs on most images: `(E,)`."""
        ends = [evidence[evidence.setup.psj(noise)].distances for noise in self.noises(evidence.setup)]
        finite = np.concatenate(ends)
        finite = finite[np.isfinite(finite)]
        return np.linspace(0, 2 * float(np.median(finite)) if len(finite) else 1.0, ETAS)

    def table(self, evidence: Evidence) -> Table:
        """A row for each noise: the accuracy without attack, and averaged over all sizes."""
        etas = self.sizes(evidence)
        rows: list[tuple[Cell, ...]] = []
        for noise in self.noises(evidence.setup):
            psj, hsj, qsj = (self.accuracy(evidence, attack, noise, etas) for attack in ("psj", "hsj", "qsj"))
            half = len(etas) // 2
            values = (psj[0], psj[half], hsj[half], psj.mean(), hsj.mean(), hsj.mean() - psj.mean(), qsj.mean())
            rows.append((noise or "none", *(round(float(v), 3) for v in values)))
        at = f"{etas[len(etas) // 2]:.2f}"
        columns = ("noise", "accuracy at η = 0", f"PSJ at η = {at}", f"HSJ at η = {at}", "PSJ, mean", "HSJ, mean")
        return Table((*columns, "HSJ - PSJ, mean", "QSJ, mean"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """Six panels: PSJ, HSJ and QSJ, by temperature and by noise model."""
        figure, panels = canvas(3, 2, share_y=True)
        etas = self.sizes(evidence)
        titles = ("logit sampling", "strongest level of each model")
        for row, (group, title) in enumerate(zip(self.groups(evidence.setup), titles, strict=True)):
            for column, attack in enumerate(("psj", "hsj", "qsj")):
                axes = panels[3 * row + column]
                self._panel(axes, evidence, attack, group, etas)
                letter = "abcdef"[3 * row + column]
                finish(
                    axes,
                    "size of the attack η (ℓ₂)",
                    "accuracy" if not column else "",
                    f"({letter}) {attack.upper()}, {title}",
                )
                axes.set_ylim(0, 1.03)
        return figure

    def _panel(
        self, axes: Axes, evidence: Evidence, attack: str, group: tuple[str | None, ...], etas: np.ndarray
    ) -> None:
        for number, noise in enumerate(group):
            colour = INK if noise is None else COLOURS[number - 1]
            values = self.accuracy(evidence, attack, noise, etas)
            axes.plot(
                etas, values, "--" if noise is None else "-", color=colour, linewidth=1.6, label=noise or "no noise"
            )

    def ours(self, evidence: Evidence) -> str:
        """QSJ's mean accuracies beside PSJ's."""
        etas = self.sizes(evidence)
        gaps = {
            noise or "no noise": float(
                np.subtract(*(self.accuracy(evidence, a, noise, etas).mean() for a in ("qsj", "psj")))
            )
            for noise in self.noises(evidence.setup)
        }
        return (
            f"QSJ's mean accuracy over all sizes, with {QSJ_BUDGET:,} queries an image, minus PSJ's: "
            f"{show_named(gaps, 2)}. Below 0: QSJ found nearer points."
        )

    def headline(self, evidence: Evidence) -> str:
        """The gap between the attacks, averaged."""
        etas = self.sizes(evidence)
        gaps = [
            float(
                self.accuracy(evidence, "hsj", noise, etas).mean() - self.accuracy(evidence, "psj", noise, etas).mean()
            )
            for noise in self.noises(evidence.setup)
        ]
        return (
            f"HSJ leaves {show(float(np.mean(gaps[1:])), 2)} more accuracy than PSJ under noise (mean over sizes), "
            f"{show(gaps[0], 2)} without"
        )

    def verdict(self, evidence: Evidence) -> Finding:
        """Compare the mean accuracies."""
        etas = self.sizes(evidence)
        gaps = {}
        for noise in self.noises(evidence.setup):
            psj, hsj = (self.accuracy(evidence, attack, noise, etas).mean() for attack in ("psj", "hsj"))
            gaps[noise or "none"] = float(hsj - psj)
        same = gaps.pop("none")
        above = [noise for noise, gap in gaps.items() if not gap > SAME]
        sentence = (
            f"HSJ's mean accuracy over all sizes exceeds PSJ's by {show_named(gaps, 2)} "
            f"(well below: more than {SAME}), and by {show(same, 2)} without noise (coincide: within {SAME})."
        )
        sentence += f" Not well below: {', '.join(above)}." if above else ""
        return undecided_if_capped(evidence.setup, Finding(not above and abs(same) <= SAME, sentence))
