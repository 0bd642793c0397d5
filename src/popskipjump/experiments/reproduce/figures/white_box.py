"""Comparison of PSJ with white-box attacks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

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
from popskipjump.experiments.reproduce.drawing import COLOURS, Line, canvas, draw_lines, finish, plain_log_axis
from popskipjump.experiments.reproduce.numbers import (
    INTERVALS,
    Curve,
    all_of,
    beside_psj,
    compare,
    curve,
    ratio,
    show_named,
    show_ratios,
    what_would_decide,
)
from popskipjump.metrics import border_distance, summarise
from popskipjump.runs.data import RunData

ON_PAR = 1.25  # times the best white-box distance
BY_TEMPERATURE = "PGD"  # whose gradients change with T; the border, and what else follows it, does not


class Tempered(nn.Module):
    """A network with its logits divided by a temperature."""

    def __init__(self, network: nn.Module, temperature: float) -> None:
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(N, K)`."""
        logits: Tensor = self.network(images) / self.temperature
        return logits


def true_gradient(setup: Setup, noise: str) -> Way:
    """PSJ-TrueGrad."""
    return setup.psj(noise, true_gradient=True)


class WhiteBox(Experiment):
    """See the module."""

    name = "white-box"
    title = "PSJ against white-box attacks under logit sampling"
    claim = "PSJ's adversarial points are on par with those of white-box attacks, even under strong noise."
    needs_white_box = True

    def notes(self, setup: Setup) -> list[str]:
        """Why one of them fails at low temperatures."""
        vanishing = (
            "PGD follows the cross-entropy of the tempered logits. At low temperatures the softmax is exactly 1 in "
            "float32 and its gradient vanishes, so PGD fails there; Brendel-Bethge follows the border, which no "
            "temperature moves."
        )
        return [*super().notes(setup), vanishing]

    def plan(self, setup: Setup) -> list[Ask]:
        """PSJ, PSJ-TrueGrad and our QSJ at each temperature."""
        images = setup.images(setup.size.images)
        return [
            Ask(way, images)
            for noise in setup.levels()["logit sampling"]
            for way in (setup.psj(noise), true_gradient(setup, noise), setup.qsj(noise))
        ]

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Border distances of the white-box attacks on the images of the runs: `(T, B)` each."""
        setup = lab.setup
        count = setup.images(setup.size.images)
        images, labels = torch.from_numpy(lab.images[:count]), torch.from_numpy(lab.labels[:count])
        starts = nearest_of_another_class(lab, images, labels)
        found = {}
        for name, attack in lab.white_box.items():
            rows: list[np.ndarray] = []
            for temperature in setup.size.levels.temperatures:
                if rows and name != BY_TEMPERATURE:
                    rows.append(rows[0])
                    continue
                points = attack(
                    Tempered(lab.model.module, temperature), images, labels, starts, setup.size.white_box_steps
                )
                rows.append(border_distance(lab.model, images, points, labels).numpy())
            found[name] = np.stack(rows)
        return found

    def entries(self, evidence: Evidence) -> dict[str, np.ndarray]:
        """Border distances by attack: `(T, B)`."""
        setup = evidence.setup
        noises = setup.levels()["logit sampling"]
        own = {
            "PSJ": np.stack([evidence[setup.psj(n)].border_distances for n in noises]),
            "PSJ-TrueGrad": np.stack([evidence[true_gradient(setup, n)].border_distances for n in noises]),
            "QSJ": np.stack([evidence[setup.qsj(n)].border_distances for n in noises]),
        }
        return {**own, **evidence.measured}

    def table(self, evidence: Evidence) -> Table:
        """A row for each temperature and attack."""
        rows: list[tuple[Cell, ...]] = []
        for number, temperature in enumerate(evidence.setup.size.levels.temperatures):
            best = self.best(evidence, number)
            for name, values in self.entries(evidence).items():
                s = summarise(values[number])
                rows.append((temperature, name, *(round(v, 3) for v in s[:3]), round(ratio(s.median, best), 3)))
        return Table(
            ("T", "attack", "border distance, L2", "40%", "60%", "distance / best of PGD and Brendel-Bethge"), rows
        )

    def best(self, evidence: Evidence, number: int) -> float:
        """Median of the nearer of the white-box attacks that use the logits alone."""
        return min(summarise(values[number]).median for values in evidence.measured.values())

    def draw(self, evidence: Evidence) -> Figure:
        """Distance against the temperature."""
        figure, (axes,) = canvas(1)
        temperatures = np.array(evidence.setup.size.levels.temperatures)
        lines = []
        for number, (name, values) in enumerate(self.entries(evidence).items()):
            shown: Curve = curve(temperatures, values)
            lines.append(Line(shown, name, COLOURS[number], "s--" if name in evidence.measured else "o-"))
        draw_lines(axes, lines)
        plain_log_axis(axes)
        axes.set_xticks(temperatures, [f"{t:g}" for t in temperatures])
        axes.set_ylim(bottom=0)
        finish(axes, "temperature T", "border distance (ℓ₂)", f"Median of {evidence.images()}, 40th to 60th percentile")
        return figure

    def ours(self, evidence: Evidence) -> str:
        """QSJ beside PSJ at every temperature."""
        return beside_psj(evidence, evidence.setup.levels()["logit sampling"])

    def headline(self, evidence: Evidence) -> str:
        """The strongest temperature."""
        last = len(evidence.setup.size.levels.temperatures) - 1
        far = {name: summarise(values[last]).median for name, values in self.entries(evidence).items()}
        return f"Median border distance at T = {evidence.setup.size.levels.temperatures[last]:g}: {show_named(far)}"

    def verdict(self, evidence: Evidence) -> Finding:
        """PSJ against the better of the two."""
        temperatures = evidence.setup.size.levels.temperatures
        runs = [evidence[evidence.setup.psj(n)] for n in evidence.setup.levels()["logit sampling"]]
        shares = {}
        for number, (temperature, run) in enumerate(zip(temperatures, runs, strict=True)):
            best = min((values[number] for values in evidence.measured.values()), key=lambda v: summarise(v).median)
            shares[f"T = {temperature:g}"] = compare(run.border_distances, best)
        sentence = (
            f"PSJ's median is {show_ratios(shares)} times that of the better of "
            f"{' and '.join(evidence.measured)} (on par: up to {ON_PAR}; {INTERVALS})."
        )
        rules = all_of(found.at_most(ON_PAR) for found in shares.values())
        sentence += what_would_decide((found, ON_PAR) for found in shares.values()) if rules is None else ""
        return undecided_if_capped(evidence.setup, Finding(rules, sentence))


def nearest_of_another_class(lab: Lab, images: Tensor, labels: Tensor) -> Tensor:
    """The nearest image of the pool that the network takes for something else: `(B, *S)`."""
    if lab.pool is None:
        raise TypeError("white-box attacks start from a pool of images.")
    pool: Tensor = lab.pool.images.to(torch.float32)
    found = torch.cat([lab.model.labels(part) for part in torch.split(pool, 512)])
    distance = torch.cdist(images.flatten(1), pool.flatten(1))
    distance[labels.unsqueeze(1) == found.unsqueeze(0)] = torch.inf
    return pool[distance.argmin(dim=1)]
