"""Draw the pictures of docs/understand/: the sigmoid, a search, the cosine, accuracy under attack, a verdict.

usage: python scripts/draw_explanations.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import popskipjump as psj
from popskipjump.metrics.verdict import verdict_anytime
from popskipjump.sigmoid import Grid, SigmoidPosterior, answer_correlation, expected_cosine, mutual_information
from popskipjump.sigmoid.model import noisy_sigmoid

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
INK, GREY, BLUE, RED, GREEN = "#222222", "#777777", "#0072b2", "#d55e00", "#009e73"
COLOURS = (INK, BLUE, RED, GREEN)


def figure_of(columns: int, width: float = 9.6, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white", layout="constrained")
    grid = figure.subplots(1, columns, squeeze=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e6e6e6", linewidth=0.7)
    return figure, list(grid.flat)


def adversarial(position: torch.Tensor, centre: float, slope: float, low: float, high: float) -> np.ndarray:
    curve = noisy_sigmoid(position, torch.tensor(centre), torch.tensor(slope), low, high)
    return np.asarray(1 - curve)


def draw_sigmoid() -> None:
    figure, (axes,) = figure_of(1, 6.4)
    position = torch.linspace(0, 1, 801, dtype=torch.float64)
    for colour, (name, slope, low, high) in zip(
        COLOURS,
        (
            ("no noise: a step", 1e4, 0.0, 0.0),
            ("labels flipped: a step between floors", 1e4, 0.1, 0.2),
            ("sampled from logits: a slope", 2.5, 0.0, 0.0),
            ("both", 2.5, 0.1, 0.2),
        ),
        strict=True,
    ):
        axes.plot(position, adversarial(position, 0.45, slope, low, high), color=colour, linewidth=1.8, label=name)
    axes.axvline(0.45, color=GREY, linestyle=":", linewidth=1)
    axes.annotate("the border z", (0.46, 0.02), color=GREY, fontsize=9)
    axes.set_xlabel("position on the search line: 0 the adversarial end, 1 the image")
    axes.set_ylabel("P(adversarial answer)")
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(PICTURES / "explain-sigmoid.png")


def draw_search() -> None:
    figure, panels = figure_of(3)
    grid, truth = Grid(), (0.37, 6.0, 0.1, 0.1)
    posterior, random = SigmoidPosterior.uniform(grid, 1), np.random.default_rng(3)
    place, asked = grid.askable.numpy(), np.zeros((2, len(grid.askable)), dtype=int)
    share = adversarial(grid.askable, *truth)
    panel, shown = 0, (3, 15, 60)
    for count in range(1, shown[-1] + 1):
        index = int(mutual_information(posterior)[0][0].argmax())
        answer = bool(random.random() < share[index])
        asked[int(answer), index] += 1
        posterior.update([index], [answer])
        if count == shown[panel]:
            axes = panels[panel]
            axes.plot(place, share, color=GREY, linewidth=1.2, label="truth")
            belief = posterior.centre_marginal()[0]
            belief = belief / belief.max()
            axes.fill_between(
                grid.position, np.asarray(belief), color=BLUE, alpha=0.25, linewidth=0, label="belief of the border"
            )
            there = asked.sum(axis=0) > 0
            total = asked.sum(axis=0)[there]
            axes.scatter(
                place[there], asked[1][there] / total, s=12 * total, color=INK, alpha=0.55, linewidth=0, label="answers"
            )
            axes.set_title(f"after {count} answers", fontsize=10)
            axes.set_xlabel("position on the line", fontsize=9)
            panel += 1
    panels[0].set_ylabel("share of adversarial answers", fontsize=9)
    panels[0].legend(frameon=False, fontsize=8, loc="upper right")
    figure.savefig(PICTURES / "explain-search.png")


def draw_cosine() -> None:
    figure, (axes,) = figure_of(1, 6.4)
    dimension, count = 784, np.logspace(1, 4.5, 60)
    random = np.random.default_rng(0)
    for colour, (name, offset, slope, lost) in zip(
        COLOURS,
        (
            ("no noise, centred on the border", 0.0, torch.inf, 0.0),
            ("10% of the labels flipped", 0.0, torch.inf, 0.2),
            ("a gradual border, as wide as the sampling", 0.0, 0.5, 0.0),
            ("no noise, but off the border by 1.5 deviations", 1.5, torch.inf, 0.0),
        ),
        strict=True,
    ):
        alpha = answer_correlation(torch.tensor(offset), torch.tensor(slope), 1.0, lost)
        axes.plot(count, expected_cosine(torch.from_numpy(count), dimension, alpha), color=colour, label=name)
        for n in (30, 300, 3000):
            axes.plot(n, simulated(random, n, dimension, offset, slope, lost), "o", color=colour, markersize=5)
    axes.set_xscale("log")
    axes.set_xlabel("answers n (784 dimensions; lines: expected, dots: simulated)")
    axes.set_ylabel("cosine with the true normal")
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(PICTURES / "explain-cosine.png")


def simulated(
    random: np.random.Generator, count: int, dimension: int, offset: float, slope: float, lost: float, tries: int = 10
) -> float:
    """Mean cosine of the direction estimate at a flat border whose normal is the first axis."""
    found = []
    for _ in range(tries):
        step = random.normal(size=(count, dimension))
        lag = step[:, 0] - offset
        right = np.clip(0.5 + slope * lag, 0, 1) if np.isfinite(slope) else (lag > 0).astype(float)
        share = lost / 2 + (1 - lost) * right
        answer = np.where(random.random(count) < share, 1.0, -1.0)
        estimate = answer @ step
        found.append(estimate[0] / max(float(np.linalg.norm(estimate)), 1e-12))
    return float(np.mean(found))


def draw_accuracy(images: int = 30) -> None:
    figure, (axes,) = figure_of(1, 9.2)
    model, pool = psj.zoo.mnist_model(), psj.Pool(*psj.zoo.mnist_images(200))
    batch, labels = psj.zoo.mnist_images(images, start=300)
    eta = np.linspace(0, 6, 200)

    def curve(distances: np.ndarray) -> np.ndarray:
        return np.asarray((distances[None, :] > eta[:, None]).mean(axis=1))

    with psj.threads(1):
        hsj, qsj = (
            psj.evaluate(model, batch, labels, name, noise="flip:0.1", starts=pool, budget=1000)
            for name in ("hsj", "qsj")
        )
    for report, colour, name in ((hsj, RED, "HSJ"), (qsj, BLUE, "QSJ")):
        border = np.asarray(report.border_distances)
        confirmed = np.where(report.success, report.distances, np.inf)
        axes.plot(
            eta, curve(report.distances), color=colour, linestyle=":", label=f"{name}: distances of all its points"
        )
        axes.plot(eta, curve(confirmed), color=colour, linestyle="--", label=f"{name}: of confirmed points only")
        axes.plot(eta, curve(border), color=colour, label=f"{name}: border distances")
    axes.set_xlabel("η, L2 change that is allowed")
    axes.set_ylabel("accuracy under attack")
    axes.set_title(f"One network, 10% flips, 1,000 queries, {images} images", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(PICTURES / "explain-accuracy.png")


def draw_verdict() -> None:
    figure, (axes,) = figure_of(1, 6.4)
    random, most = np.random.default_rng(5), 200
    count = torch.arange(1, most + 1)
    for colour, share in ((GREEN, 0.9), (BLUE, 0.65), (RED, 0.4)):
        yes = torch.from_numpy((random.random(most) < share).cumsum())
        judged = verdict_anytime(yes, count)
        axes.fill_between(count, judged.low, judged.high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(count, judged.probability, color=colour, label=f"a point with P = {share:g}")
    axes.axhline(0.5, color=GREY, linestyle=":", linewidth=1)
    axes.set_xlabel("answers at the point")
    axes.set_ylabel("P(adversarial), with its 95% interval")
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(PICTURES / "explain-verdict.png")


if __name__ == "__main__":
    draw_sigmoid()
    draw_search()
    draw_cosine()
    draw_verdict()
    draw_accuracy()
