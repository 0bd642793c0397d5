"""The expected cosine of a gradient estimate: the paper's formula (eq. 3) against simulated answers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from popskipjump.experiments.reproduce.base import Evidence, Experiment, Finding, Lab, Table, Way
from popskipjump.experiments.reproduce.drawing import COLOURS, canvas, finish, plain_log_axis
from popskipjump.experiments.reproduce.numbers import show
from popskipjump.experiments.runner import RunData
from popskipjump.rng import Key, normal, uniform
from popskipjump.sigmoid import answer_correlation, expected_cosine

SPREAD = 0.01  # beta of PSJ on MNIST, in units of the search line
COUNTS = (30, 100, 300, 1000, 3000)
# what the noise is like: slope s, floor eps, offset Delta in units of beta
BORDERS = {
    "step, no noise": (math.inf, 0.0, 0.0),
    "step, offset β": (math.inf, 0.0, 1.0),
    "step, ε = 0.1": (math.inf, 0.1, 0.0),
    "s = 30, no floor": (30.0, 0.0, 0.0),
    "s = 10, ε = 0.05, offset β": (10.0, 0.05, 1.0),
}
TOLERANCE = 0.02


class Cosine(Experiment):
    """See the module."""

    name = "cosine"
    title = "Expected cosine of the gradient estimate: formula and simulation"
    claim = "Equation (3), with α from Proposition 1, gives the expected cosine between the gradient and its estimate."

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Simulated cosines: mean and standard error, `(borders, counts)` each."""
        shape = (len(BORDERS), len(COUNTS))
        mean, error = np.zeros(shape), np.zeros(shape)
        for i, (slope, floor, offset) in enumerate(BORDERS.values()):
            for j, count in enumerate(COUNTS):
                key = Key(lab.seed).child("cosine", i, j)
                found = simulated_cosines(
                    key, lab.setup.size.cosine_trials, count, lab.setup.dimension, slope, floor, offset * SPREAD
                )
                mean[i, j] = float(found.mean())
                error[i, j] = float(found.std()) / math.sqrt(len(found))
        return {"cosine": mean, "error": error, "dimension": np.array(lab.setup.dimension)}

    def table(self, evidence: Evidence) -> Table:
        """A row for each border and number of answers."""
        rows = []
        mean, error = evidence.measured["cosine"], evidence.measured["error"]
        theory = analytic(int(evidence.measured["dimension"]))
        for i, name in enumerate(BORDERS):
            for j, count in enumerate(COUNTS):
                rows.append((name, count, *(round(float(v[i, j]), 4) for v in (theory, mean, error))))
        return Table(("border", "answers n", "cosine, eq. (3)", "cosine, simulated", "standard error"), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """Lines for the formula, marks for the simulation."""
        figure, (axes,) = canvas(1)
        mean, error = evidence.measured["cosine"], evidence.measured["error"]
        fine = np.geomspace(COUNTS[0], COUNTS[-1], 60)
        theory = analytic(int(evidence.measured["dimension"]), fine)
        for i, name in enumerate(BORDERS):
            colour = COLOURS[i % len(COLOURS)]
            axes.plot(fine, theory[i], color=colour, linewidth=1.5, label=name)
            axes.errorbar(COUNTS, mean[i], 2 * error[i], fmt="o", color=colour, markersize=4, capsize=2)
        plain_log_axis(axes)
        finish(axes, "answers n", "expected cosine", "Lines: eq. (3). Marks: simulation, ±2 standard errors")
        return figure

    def verdict(self, evidence: Evidence) -> Finding:
        """Whether the largest gap is small, or within what chance explains."""
        theory = analytic(int(evidence.measured["dimension"]))
        gap = np.abs(theory - evidence.measured["cosine"])
        good = gap <= np.maximum(TOLERANCE, 4 * evidence.measured["error"])
        sentence = (
            f"The largest gap between formula and simulation is {show(float(gap.max()), 2)} (allowed: {TOLERANCE}, or 4 "
            f"standard errors); {int(good.sum())} of {good.size} cases are within it."
        )
        return Finding(bool(good.all()), sentence)


def analytic(dimension: int, counts: np.ndarray | tuple[int, ...] = COUNTS) -> np.ndarray:
    """Equation (3) for every border and number of answers: `(borders, counts)`."""
    rows = []
    for slope, floor, offset in BORDERS.values():
        alpha = answer_correlation(
            torch.tensor(offset * SPREAD, dtype=torch.float64),
            torch.tensor(slope, dtype=torch.float64),
            SPREAD,
            2 * floor,
        )
        rows.append(expected_cosine(torch.as_tensor(np.asarray(counts, dtype=float)), dimension, alpha).numpy())
    return np.stack(rows)


def simulated_cosines(
    key: Key, trials: int, count: int, dimension: int, slope: float, floor: float, offset: float
) -> Tensor:
    """Cosines of `trials` estimates of a plane's normal from `count` noisy answers each: `(trials,)`.

    Only the part of a direction along the normal decides an answer, so the other d - 1 coordinates are summed up by
    what they are: given the answers y, sum y_i delta_i across the normal is normal with variance n in each coordinate.
    """
    roots = key.roots(torch.arange(trials))
    along = normal(roots, count).to(torch.float64)  # (trials, n), in units of beta
    chance = uniform(key.child("answers").roots(torch.arange(trials)), count).to(torch.float64)
    position = offset + SPREAD * along
    rising = (position > 0).to(torch.float64) if math.isinf(slope) else torch.sigmoid(4 * slope * position)
    answer = torch.where(chance < floor + (1 - 2 * floor) * rising, 1.0, -1.0)
    signal = (answer * along).sum(dim=1)
    across = normal(key.child("across").roots(torch.arange(trials)), dimension - 1).to(torch.float64)
    noise = math.sqrt(count) * across.norm(dim=1)
    return signal / torch.sqrt(signal**2 + noise**2)
