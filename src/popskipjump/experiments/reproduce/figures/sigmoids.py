"""Class probabilities along search lines, and the sigmoids that fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.base import Ask, Cell, Evidence, Experiment, Finding, Lab, Setup, Table, Way
from popskipjump.experiments.reproduce.drawing import COLOURS, canvas, finish
from popskipjump.experiments.reproduce.numbers import show
from popskipjump.runs.data import RunData

STAGES = (1, 2, 4, 8, 16, 32)  # iterations after which the search line is looked at
PLACES = 101
SHOWN = 2  # images in the figure
GOOD = 0.05  # root mean square gap of a sigmoid that fits
ALMOST_ALL = 0.9


class Fit(NamedTuple):
    """The sigmoid nearest to a line's probabilities."""

    centre: float
    slope: float
    low: float
    high: float
    gap: float  # root mean square

    def at(self, position: np.ndarray) -> np.ndarray:
        """Its value."""
        return self.low + (self.high - self.low) * logistic(self.slope * (position - self.centre))


def logistic(x: np.ndarray) -> np.ndarray:
    """The paper's sigmoid, of slope 1 at its centre (errata E3)."""
    return np.asarray(1 / (1 + np.exp(np.clip(-4 * x, -500, 500))))


def fit_sigmoid(position: np.ndarray, probability: np.ndarray) -> Fit:
    """Least squares over a grid of centres and slopes, with both floors free: `(P,)`, `(P,)`."""
    best = Fit(0.5, 1.0, 0.0, 1.0, np.inf)
    for slope in 10 ** np.linspace(-0.5, 2.5, 61):
        rising = logistic(slope * (position[None, :] - np.linspace(0, 1, PLACES)[:, None]))  # (centres, P)
        offset = rising - rising.mean(axis=1, keepdims=True)
        size = (offset**2).sum(axis=1)
        height = np.clip((offset @ (probability - probability.mean())) / np.maximum(size, 1e-12), 0, None)
        low = probability.mean() - height * rising.mean(axis=1)
        gap = np.sqrt(((low[:, None] + height[:, None] * rising - probability) ** 2).mean(axis=1))
        place = int(gap.argmin())
        if gap[place] < best.gap:
            centre = place / (PLACES - 1)
            best = Fit(centre, float(slope), float(low[place]), float(low[place] + height[place]), float(gap[place]))
    return best


class Sigmoids(Experiment):
    """See the module."""

    name = "sigmoids"
    title = "The true class's probability along search lines"
    claim = "Along almost all search lines the probability of the true class has the shape of a sigmoid."

    def stages(self, setup: Setup) -> list[int]:
        """Iterations that are looked at."""
        return [stage for stage in STAGES if stage <= setup.size.iterations]

    def plan(self, setup: Setup) -> list[Ask]:
        """PSJ without noise, ended after ever more iterations: its result lies on its last search line."""
        images = setup.images(setup.size.images)
        return [Ask(setup.psj(iterations=stage), images) for stage in self.stages(setup)]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Softmax of the true class at even places from the adversarial end (0) to the image (1): `(stages, B, P)`."""
        places = torch.linspace(0, 1, PLACES)
        stages = []
        for stage in self.stages(lab.setup):
            run = runs[lab.setup.psj(iterations=stage)]
            rows = []
            for number, length in enumerate(run.trace_sigmoid["gap"][-1]):
                original, point = (torch.from_numpy(a[number]) for a in (run.originals, run.points))
                ray = point - original
                outer = original + ray * (float(length) / float(ray.norm().clamp(min=1e-12)))
                line = torch.lerp(
                    outer.unsqueeze(0), original.unsqueeze(0), places.reshape(-1, *(1 for _ in original.shape))
                )
                rows.append(lab.model.log_probs(line)[:, int(run.labels[number])].exp().numpy())
            stages.append(np.stack(rows))
        return {"probability": np.stack(stages)}

    def fits(self, evidence: Evidence) -> list[list[Fit]]:
        """The nearest sigmoids, by stage and image."""
        places = np.linspace(0, 1, PLACES)
        return [[fit_sigmoid(places, line) for line in stage] for stage in evidence.measured["probability"]]

    def table(self, evidence: Evidence) -> Table:
        """A row for each stage."""
        rows: list[tuple[Cell, ...]] = []
        for stage, fits in zip(self.stages(evidence.setup), self.fits(evidence), strict=True):
            gaps = np.array([fit.gap for fit in fits])
            middle = [float(np.median([fit[i] for fit in fits])) for i in range(4)]
            rows.append(
                (
                    stage,
                    len(fits),
                    *(round(v, 3) for v in middle),
                    round(float(np.median(gaps)), 4),
                    int((gaps <= GOOD).sum()),
                )
            )
        columns = ("iteration", "lines", "centre z", "slope s", "floor at 0", "ceiling at 1", "RMS gap, median")
        return Table((*columns, f"RMS gap up to {GOOD}"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """The lines of two images, with their sigmoids dashed."""
        lines = evidence.measured["probability"]
        shown = min(SHOWN, lines.shape[1])
        figure, panels = canvas(shown, share_y=True) if shown > 1 else canvas(1)
        places = np.linspace(0, 1, PLACES)
        ids = evidence[evidence.setup.psj(iterations=self.stages(evidence.setup)[0])].image_ids
        for image, axes in enumerate(panels):
            for number, stage in enumerate(self.stages(evidence.setup)):
                colour = COLOURS[number % len(COLOURS)]
                axes.plot(places, lines[number, image], color=colour, linewidth=1.6, label=f"iteration {stage}")
                axes.plot(
                    places, fit_sigmoid(places, lines[number, image]).at(places), "--", color=colour, linewidth=0.9
                )
            finish(
                axes,
                "position on the line (0: adversarial end, 1: image)",
                "probability of the true class" if not image else "",
                f"Image {ids[image]}; dashed: the nearest sigmoid",
            )
        return figure

    def headline(self, evidence: Evidence) -> str:
        """How many lines a sigmoid fits."""
        gaps = np.array([[fit.gap for fit in stage] for stage in self.fits(evidence)])
        return f"A sigmoid fits {int((gaps <= GOOD).sum())} of {gaps.size} search lines"

    def verdict(self, evidence: Evidence) -> Finding:
        """How many lines a sigmoid fits."""
        gaps = np.array([[fit.gap for fit in stage] for stage in self.fits(evidence)])
        share = float((gaps <= GOOD).mean())
        sentence = (
            f"A sigmoid fits {int((gaps <= GOOD).sum())} of {gaps.size} search lines with a root mean square gap of at "
            f"most {GOOD} (almost all: {ALMOST_ALL:.0%}); the median gap is {show(float(np.median(gaps)), 2)}."
        )
        return Finding(share >= ALMOST_ALL, sentence)
