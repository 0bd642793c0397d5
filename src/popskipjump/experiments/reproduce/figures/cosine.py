"""The expected cosine of a gradient estimate: the paper's formula (eq. 3) against simulated answers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from popskipjump.experiments.reproduce.base import Cell, Evidence, Experiment, Finding, Lab, Table, Way
from popskipjump.experiments.reproduce.drawing import COLOURS, canvas, finish, plain_log_axis
from popskipjump.experiments.reproduce.numbers import show
from popskipjump.rng import Key, normal, uniform
from popskipjump.runs.data import RunData
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
SHAPES = ("clipped", "sigmoid")  # the proposition speaks of a clipped line, which the paper takes for the sigmoid
TOLERANCE = 0.02
CLOSE = 0.2  # relative gap that "close approximation" allows


class Cosine(Experiment):
    """See the module."""

    name = "cosine"
    title = "Expected cosine of the gradient estimate: formula and simulation"
    claim = (
        "Equation (3), with α from Proposition 1, gives the expected cosine between the gradient and its estimate; the "
        "clipped line of the proposition is a close approximation of the sigmoid."
    )

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """Simulated cosines, for each shape mean and standard error `(borders, counts)`."""
        dimension, trials = lab.setup.dimension, lab.setup.size.cosine_trials
        found = {"dimension": np.array(dimension)}
        for shape in SHAPES:
            mean, error = np.zeros((2, len(BORDERS), len(COUNTS)))
            for i, border in enumerate(BORDERS.values()):
                for j, count in enumerate(COUNTS):
                    cosines = simulated_cosines(
                        Key(lab.seed).child("cosine", i, j), trials, count, dimension, *border, shape
                    )
                    mean[i, j] = float(cosines.mean())
                    error[i, j] = float(cosines.std()) / math.sqrt(trials)
            found |= {f"{shape} cosine": mean, f"{shape} error": error}
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row for each border and number of answers."""
        rows: list[tuple[Cell, ...]] = []
        columns = [analytic(int(evidence.measured["dimension"]))]
        columns += [evidence.measured[f"{shape} {what}"] for shape in SHAPES for what in ("cosine", "error")]
        for i, name in enumerate(BORDERS):
            for j, count in enumerate(COUNTS):
                rows.append((name, count, *(round(float(values[i, j]), 4) for values in columns)))
        spans = ("clipped line, simulated", "standard error", "sigmoid, simulated", "standard error ")
        return Table(("border", "answers n", "cosine, eq. (3)", *spans), rows)

    def draw(self, evidence: Evidence) -> Figure:
        """Lines for the formula, marks for the simulations."""
        figure, (axes,) = canvas(1)
        fine = np.geomspace(COUNTS[0], COUNTS[-1], 60)
        theory = analytic(int(evidence.measured["dimension"]), fine)
        for i, name in enumerate(BORDERS):
            colour = COLOURS[i % len(COLOURS)]
            axes.plot(fine, theory[i], color=colour, linewidth=1.5, label=name)
            for shape, mark in zip(SHAPES, ("o", "x"), strict=True):
                mean, error = evidence.measured[f"{shape} cosine"][i], evidence.measured[f"{shape} error"][i]
                axes.errorbar(COUNTS, mean, 2 * error, fmt=mark, color=colour, markersize=5, capsize=2, linewidth=1)
        plain_log_axis(axes)
        title = "Lines: eq. (3). Simulated, ±2 standard errors: ○ clipped line, × sigmoid"
        finish(axes, "answers n", "expected cosine", title)
        return figure

    def headline(self, evidence: Evidence) -> str:
        """The largest gap."""
        gap = np.abs(analytic(int(evidence.measured["dimension"])) - evidence.measured["clipped cosine"])
        return f"Equation (3) predicts the simulated cosine to within {show(float(gap.max()), 2)}"

    def verdict(self, evidence: Evidence) -> Finding:
        """The formula where it should be exact, and how far the sigmoid is from it."""
        theory = analytic(int(evidence.measured["dimension"]))
        gap = np.abs(theory - evidence.measured["clipped cosine"])
        good = gap <= np.maximum(TOLERANCE, 4 * evidence.measured["clipped error"])
        sigmoid, error = evidence.measured["sigmoid cosine"], evidence.measured["sigmoid error"]
        beyond = (np.abs(theory - sigmoid) - 2 * error).clip(min=0)  # what chance does not explain
        far = float((beyond / theory).max())
        sentence = (
            f"On the clipped line the largest gap between formula and simulation is {show(float(gap.max()), 2)} "
            f"({TOLERANCE} or 4 standard errors allowed; {int(good.sum())} of {good.size} cases within). With the "
            f"sigmoid itself the formula is off by up to {far:.0%} (close: up to {CLOSE:.0%})."
        )
        return Finding(bool(good.all()) and far <= CLOSE, sentence)


def analytic(dimension: int, counts: np.ndarray | tuple[int, ...] = COUNTS) -> np.ndarray:
    """Equation (3) for every border and number of answers: `(borders, counts)`."""
    rows = []
    for slope, floor, offset in BORDERS.values():
        place, steep = (torch.tensor(value, dtype=torch.float64) for value in (offset * SPREAD, slope))
        alpha = answer_correlation(place, steep, SPREAD, 2 * floor)
        rows.append(expected_cosine(torch.as_tensor(np.asarray(counts, dtype=float)), dimension, alpha).numpy())
    return np.stack(rows)


def simulated_cosines(
    key: Key, trials: int, count: int, dimension: int, slope: float, floor: float, offset: float, shape: str
) -> Tensor:
    """Cosines of `trials` estimates of a plane's normal from `count` noisy answers each: `(trials,)`.

    Only the part of a direction along the normal decides an answer, so the other d - 1 coordinates need not be drawn
    one by one: given the answers y, the sum of y_i delta_i across the normal is normal with variance n per coordinate.

    Args:
        key: of all draws.
        trials: repetitions.
        count: n.
        dimension: d.
        slope: s; `inf` is a step.
        floor: eps.
        offset: Delta, in units of beta.
        shape: "clipped" or "sigmoid".
    """
    rows = torch.arange(trials)
    along = normal(key.roots(rows), count).to(torch.float64)  # (trials, n), in units of beta
    chance = uniform(key.child("answers").roots(rows), count).to(torch.float64)
    position = SPREAD * (offset + along)
    if math.isinf(slope):
        rising = (position > 0).to(torch.float64)
    elif shape == "clipped":
        rising = (slope * position + 0.5).clamp(0, 1)
    else:
        rising = torch.sigmoid(4 * slope * position)
    answer = torch.where(chance < floor + (1 - 2 * floor) * rising, 1.0, -1.0)
    signal = (answer * along).sum(dim=1)
    across = normal(key.child("across").roots(rows), dimension - 1).to(torch.float64)
    return signal / torch.sqrt(signal**2 + count * across.square().sum(dim=1))
