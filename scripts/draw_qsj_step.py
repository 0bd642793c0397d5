"""Draw docs/pictures/qsj-step.svg: one step of QuickSkipJump on a flat border.

usage: python scripts/draw_qsj_step.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "qsj-step.svg"
INK, SOFT, BLUE, RED = "#222222", "#888888", "#2b6cb0", "#c53030"
RADIUS, TURN, NORMAL = 1.0, math.radians(32), math.radians(48)  # distance of x, the step's angle, the normal's angle


def direction(angle: float) -> np.ndarray:
    """A unit vector at an angle to the ray, which points up."""
    return np.array([math.sin(angle), math.cos(angle)])


def at(point: np.ndarray, offset: tuple[float, float] = (0.0, 0.0)) -> tuple[float, float]:
    """A place for a text, as matplotlib wants it."""
    return float(point[0]) + offset[0], float(point[1]) + offset[1]


def main() -> None:
    figure = Figure(figsize=(6.4, 4.6))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    x = RADIUS * direction(0)
    foot = RADIUS * math.cos(NORMAL) * direction(NORMAL)
    along = np.array([direction(NORMAL)[1], -direction(NORMAL)[0]])
    line = np.stack([foot + t * along for t in (-1.25, 0.62)])
    axes.fill_between(line[:, 0], line[:, 1], 1.45, color=RED, alpha=0.08, linewidth=0)
    axes.plot(*line.T, color=RED, linewidth=1.6)
    axes.annotate("border", at(line[-1], (0.02, 0.0)), color=RED, fontsize=11, va="center")
    axes.annotate("adversarial", (0.45, 1.32), color=RED, fontsize=11)
    circle = np.stack([RADIUS / 2 * (direction(0) + direction(a)) for a in np.linspace(0, 2 * math.pi, 200)])
    axes.plot(*circle.T, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("circle over x⋆ x", (-0.50, 0.22), color=SOFT, fontsize=10, ha="right")
    axes.plot(*np.stack([np.zeros(2), 1.25 * x]).T, color=INK, linewidth=1)
    axes.annotate("ray u", at(1.27 * x), color=INK, fontsize=11, ha="center")
    ahead = RADIUS * math.cos(TURN) * direction(TURN)
    axes.plot(*np.stack([np.zeros(2), 1.42 * ahead]).T, color=BLUE, linewidth=1)
    meets = RADIUS * math.cos(NORMAL) / math.cos(NORMAL - TURN)
    window = np.stack([t * direction(TURN) for t in (meets - 0.13, meets + 0.2)])
    axes.plot(*window.T, color=BLUE, linewidth=7, alpha=0.35, solid_capstyle="butt")
    axes.annotate("window of the next search", at(window[1], (0.09, -0.10)), color=BLUE, fontsize=10)
    arc = np.stack([0.3 * direction(a) for a in np.linspace(0, TURN, 40)])
    axes.plot(*arc.T, color=BLUE, linewidth=1.2)
    axes.annotate("φ", at(0.35 * direction(TURN / 2)), color=BLUE, fontsize=12, ha="center")
    axes.annotate("", at(x, (0.42, 0)), at(x), arrowprops={"arrowstyle": "->", "color": BLUE, "linewidth": 1.6})
    axes.annotate("estimated normal, across the ray", at(x, (0.06, 0.06)), color=BLUE, fontsize=10)
    for point, name, offset in ((np.zeros(2), "x⋆  original", (0.06, -0.03)), (x, "x", (-0.09, 0.02))):
        axes.plot(*point, "o", color=INK, markersize=6)
        axes.annotate(name, at(point, offset), color=INK, fontsize=12, va="center")
    axes.plot(*foot, "o", color=RED, markersize=6)
    axes.annotate("nearest point", at(foot, (0.05, -0.08)), color=RED, fontsize=11)
    axes.plot(*ahead, "o", color=BLUE, markersize=6)
    axes.annotate("x(φ)", at(ahead, (0.04, 0.03)), color=BLUE, fontsize=11)
    axes.set_aspect("equal")
    axes.set_xlim(-1.15, 1.35)
    axes.set_ylim(-0.15, 1.45)
    axes.axis("off")
    with rc_context({"svg.hashsalt": "qsj-step"}):  # the same file every time
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
