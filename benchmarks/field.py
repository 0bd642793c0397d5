"""A leaderboard of our own: problems x attacks x budgets, the same images and seeds for all.

    python benchmarks/field.py --problems mnist mnist-flips tables --images 20
    POPSKIPJUMP_DATA=<folder> python benchmarks/field.py --problems cifar-targeted --images 8 --budget 1000

Every cell (a problem, an attack, a seed) is a run of its own, kept in the folder field-runs here, which is not part of
the repository: a command that was interrupted goes on where it ended. Distances are those of the noiseless border on
the ray that an attack had after so many queries, geometric means over images and seeds. Differences are of logarithms,
paired by image.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import command, header, markdown, save
from field_problems import CLASSIFIERS, TABLES, flat, linf, provable, table, targeted, trades
from queries import run
from query_problems import HELD_OUT, Problem, cifar, log_distances, mnist

import popskipjump as psj
from popskipjump.attacks import (
    AdaptiveDirections,
    BoundaryAttack,
    FarMode,
    HopSkipJump,
    PatternStart,
    PopSkipJump,
    QuickSkipJump,
)

RUNS = Path(__file__).parent / "field-runs"
MARKS = (100, 250, 500, 1000, 2000, 5000, 10_000)
SEEDS = (0, 1)


@dataclass(frozen=True)
class NearestHopSkipJump(HopSkipJump):
    """HSJ from the image of the pool that QSJ begins at, so that what follows is compared alone."""

    nearest_start: bool = True


ATTACKS: dict[str, Any] = {
    "QSJ": QuickSkipJump(),
    "QSJ, plain far mode": QuickSkipJump(
        start=PatternStart(others=0), direction=AdaptiveDirections(far_mode=FarMode(growth=0, memory=0, leave=2.4))
    ),
    "QSJ without far mode": QuickSkipJump(direction=AdaptiveDirections(far_mode=None)),
    "PSJ": PopSkipJump(),
    "HSJ": HopSkipJump(),
    "HSJ from QSJ's start": NearestHopSkipJump(),
    "boundary": BoundaryAttack(),
}
USUAL = ("QSJ", "PSJ", "HSJ", "boundary")
RESAMPLED = 2000  # for intervals
PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "mnist": lambda count: mnist(None, count),
    "mnist-flips": lambda count: mnist("flip:0.1", count),
    "mnist-logit": lambda count: mnist("logit:1", count),
    "mnist-smoothing": lambda count: mnist("smoothing:0.2", count),
    "mnist-targeted": lambda count: targeted(mnist(None, count)),
    "mnist-targeted-flips": lambda count: targeted(mnist("flip:0.1", count)),
    "mnist-linf": lambda count: linf(mnist(None, count)),
    "cifar": lambda count: cifar(None, count),
    "cifar-flips": lambda count: cifar("flip:0.1", count),
    "cifar-targeted": lambda count: targeted(cifar(None, count, 200)),
    "cifar-linf": lambda count: linf(cifar(None, count)),
    "flat-targeted": flat,
    "trades": trades,
    "trades-linf": lambda count: linf(trades(count)),
    "provable": provable,
    "provable-linf": lambda count: linf(provable(count)),
} | {
    f"{data}-{model.lower()}": (lambda count, data=data, model=model: table(data, model, count))
    for data in TABLES
    for model in CLASSIFIERS
}
GROUPS = {"tables": [name for name in PROBLEMS if name.split("-")[0] in TABLES]}


def marks_up_to(budget: int) -> list[int]:
    """The marks that a budget reaches."""
    return [mark for mark in MARKS if mark <= budget]


def code() -> str:
    """What identifies the code of the attacks: a run of other code is another run."""
    folder = Path(psj.__file__).parent / "attacks"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def cell(name: str, attack: str, count: int, budget: int, seed: int) -> np.ndarray:
    """Log-distances at the marks, `(M, B)`: from the file of an earlier run, or from a new one."""
    path = RUNS / f"{name} {attack} {count} {budget} {seed} {code()}.json".replace("'", "")
    if path.exists():
        return np.array(json.loads(path.read_text())["log_distances"])
    problem, began = PROBLEMS[name](count), time.process_time()
    found = run(problem, ATTACKS[attack], None, budget, 1, seed)
    if found.points is None:
        raise SystemExit("a run without its trace cannot be measured")
    images = torch.arange(len(problem.images))
    logs = []
    for mark in marks_up_to(budget):
        paid = (found.queries <= mark).sum(dim=0)  # steps by then
        last = (paid - 1).clamp(min=0)
        reached = torch.where(paid > 0, found.distance[last, images], torch.inf)
        logs.append(log_distances(problem, found.points[last, images], reached).tolist())
    RUNS.mkdir(exist_ok=True)
    told = {"log_distances": logs, "seconds": time.process_time() - began}
    path.with_suffix(".part").write_text(json.dumps(told))
    path.with_suffix(".part").rename(path)
    return np.array(logs)


def interval(pairs: np.ndarray) -> str:
    """Mean and 95% interval by resampled images: `(B,)`."""
    draws = np.random.default_rng(0).integers(len(pairs), size=(RESAMPLED, len(pairs)))
    low, high = np.quantile(pairs[draws].mean(axis=1), (0.025, 0.975))
    return f"{pairs.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def rows_of(
    name: str, attacks: list[str], count: int, budget: int, seeds: list[int]
) -> tuple[list[Any], dict[str, Any]]:
    """The lines of a problem in the table, and the geometric means of each attack."""
    logs = {attack: np.mean([cell(name, attack, count, budget, seed) for seed in seeds], axis=0) for attack in attacks}
    first = attacks[0]
    best = np.argmin([logs[attack].mean(axis=1) for attack in attacks], axis=0)
    lines = []
    for number, attack in enumerate(attacks):
        cells = []
        for place in range(len(marks_up_to(budget))):
            mean = f"{np.exp(logs[attack][place].mean()):.4g}"
            mean = f"**{mean}**" if best[place] == number else mean
            cells.append(mean if attack == first else f"{mean}, {interval(logs[attack][place] - logs[first][place])}")
        lines.append((name, attack, *cells))
    return lines, {attack: np.exp(values.mean(axis=1)) for attack, values in logs.items()}


def draw(curves: dict[str, dict[str, Any]], marks: list[int], path: Path) -> None:
    """One panel for each problem."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    wide = min(len(curves), 4)
    high = -(-len(curves) // wide)
    figure, axes = plt.subplots(high, wide, figsize=(3.2 * wide, 2.6 * high), squeeze=False)
    for panel, (name, lines) in zip(axes.flat, curves.items(), strict=False):
        for attack, values in lines.items():
            panel.loglog(marks, values, marker=".", label=attack)
        panel.set_title(name, fontsize=8)
        panel.tick_params(labelsize=6, which="both")
    for panel in axes.flat[len(curves) :]:
        panel.axis("off")
    axes.flat[0].legend(fontsize=6)
    figure.supxlabel("queries", fontsize=8)
    figure.supylabel("border distance, geometric mean", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["mnist", "mnist-flips", "tables"], help=", ".join(PROBLEMS))
    parser.add_argument("--attacks", nargs="+", default=list(USUAL), choices=list(ATTACKS))
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=None, help="the page, with a picture of the same name beside it")
    args = parser.parse_args()
    names = [name for given in args.problems for name in GROUPS.get(given, [given])]
    unknown = [name for name in names if name not in PROBLEMS]
    if unknown or args.images < 2 or not marks_up_to(args.budget):
        parser.error(f"at least 2 images, {MARKS[0]} queries, and known problems, not {unknown}")
    torch.set_num_threads(1)
    marks = marks_up_to(args.budget)
    rows, curves = [], {}
    for name in names:
        lines, curves[name] = rows_of(name, args.attacks, args.images, args.budget, args.seeds)
        rows += lines
    columns = ("problem", "attack", *(f"{mark:,} queries" for mark in marks))
    told = (
        f"{args.images} images at most, seeds {', '.join(map(str, args.seeds))}, budgets of {args.budget:,} queries. "
        f"{HELD_OUT}\n\nGeometric means of the noiseless border distance on the ray that an attack has by then, the "
        f"nearest in bold. For all but {args.attacks[0]}: mean log-difference to {args.attacks[0]}, with its 95% "
        "interval over images (above 0: further away). An attack that has no point yet counts with the cube's "
        "diagonal."
        "\n\nNot run: what is not in the table. Other packages' attacks are in rivals.md and tables-art.md."
    )
    picture = ""
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        draw(curves, marks, args.out.with_suffix(".png"))
        picture = f"\n\n![Distance against queries]({args.out.stem}.png)"
    save(args.out, header("Field", command()) + f"\n{told}\n\n{markdown(columns, rows)}{picture}")


if __name__ == "__main__":
    main()
