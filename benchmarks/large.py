"""QuickSkipJump on photographs of 224 x 224 x 3, beside HopSkipJump with a radius that float32 can tell.

    POPSKIPJUMP_DATA=<folder> python benchmarks/large.py none flips smoothing targeted --seeds 0 1
    POPSKIPJUMP_DATA=<folder> python benchmarks/large.py none --tuning --variants default direction.gain=null

The net is EfficientNet-Lite0, the folder holds `imagenet` with its definition, its weights and 42 photographs; neither
is part of the repository. Images 0 to 9 are for tuning, 10 to 25 for reports, 26 to 41 are starting points. Every run
is kept in the folder field-runs here: a command that was interrupted goes on where it ended. Each run takes 8 ms of a
processor for each query and image; set the MALLOC variables of docs/performance.md first, or it takes four times as
long.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import command, header, markdown, save
from field import RUNS, interval
from query_problems import Problem, data_folder, nothing
from tuning import variant

import popskipjump as psj
from popskipjump.attacks import HopSkipJump
from popskipjump.metrics import border_distance, majority_border

TUNING, REPORTED, POOL = range(10), range(10, 26), range(26, 42)
MARKS = (100, 250, 500, 1000, 2000, 5000)
HSJ = "HSJ"
PLACES, HALVINGS = 16, 8  # of a border distance: these calls are not counted, and cost as much as queries
DRAWS, MAJORITY_HALVINGS = 128, 5  # of a majority's border, where an attack under smoothing looks for it
HSJ_FILES = ("hop_skip_jump.py", "walk.py", "directions/monte_carlo.py", "steps/straight.py", "searches/bisection.py")


class Row(NamedTuple):
    """A row of the table of what must be shown."""

    noise: str | None
    targeted: bool
    images: int
    must: dict[int, float]  # queries -> largest ratio
    against: str = "HSJ"  # without noise; or "first": QSJ's own first border
    majority: bool = False  # measured at the border of the most frequent answer, instead of that without noise


ROWS = {
    "none": Row(None, False, 16, {250: 0.35, 500: 0.42, 1000: 0.42, 2000: 0.5}),
    "flips": Row("flip:0.1", False, 16, {1000: 0.8, 2000: 0.8}),
    "smoothing": Row("smoothing:0.1", False, 16, {5000: 0.5}, "first"),
    "smoothing-majority": Row("smoothing:0.1", False, 16, {5000: 0.5}, "first", majority=True),
    "targeted": Row(None, True, 8, {1000: 0.7, 2000: 0.7, 5000: 0.7}),
}


@lru_cache(maxsize=1)
def _net() -> Any:
    folder = data_folder() / "imagenet"
    spec = importlib.util.spec_from_file_location("net_of_the_data", folder / "efficientnet_lite0.py")
    if not (folder / "imagenet42.npz").is_file() or spec is None or spec.loader is None:
        raise SystemExit("skipped: no imagenet/imagenet42.npz and imagenet/efficientnet_lite0.py in the folder of data")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return psj.TorchModel(module.make(fused=True).eval(), optimize=True)


@lru_cache(maxsize=8)
def problem_of(noise: str | None, targeted: bool, chosen: tuple[int, ...]) -> Problem:
    """Photographs and their starting points; the target of the k-th is the class of the k-th starting point."""
    model = _net()
    x, y = (torch.as_tensor(values) for values in psj.zoo.read_npz(data_folder() / "imagenet" / "imagenet42.npz"))
    index, pool = list(chosen), list(POOL)
    targets = y[[pool[place % len(pool)] for place in range(len(index))]] if targeted else None
    if targets is not None and bool((targets == y[index]).any()):
        raise SystemExit("an image has the class of its starting point")
    which, name = f"images {chosen[0]} to {chosen[-1]}", f"224 x 224, {noise or 'no noise'}"
    name += ", targeted" if targeted else ""
    starts = psj.Pool(x[pool], y[pool])
    return Problem(name, which, model, model, None, x[index], y[index], starts, noise, targets=targets)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _code(attack: str) -> str:
    """What identifies the code of an attack: a run of other code is another run."""
    folder = Path(psj.__file__).parent / "attacks"
    return _digest([folder / name for name in HSJ_FILES] if attack == HSJ else folder.rglob("*.py"))


def measured(problem: Problem, points: torch.Tensor, reached: torch.Tensor) -> np.ndarray:
    """Log-distances of the noiseless border on the rays of points `(B, d)`: `(B,)`."""
    there = points.reshape(problem.images.shape)
    found = border_distance(
        problem.white_box, problem.images, there, problem.labels, targets=problem.targets, steps=PLACES,
        bisections=HALVINGS,
    ).double().numpy()  # fmt: skip
    known = np.isfinite(found) & (found > 0) & np.isfinite(reached.numpy())
    return np.where(known, np.log(np.where(known, found, 1.0)), nothing(problem))


def of_majority(problem: Problem, points: torch.Tensor) -> np.ndarray:
    """Log-distances of the border of the most frequent answer on the rays of points `(B, d)`: `(B,)`.

    nan where the most frequent answer is wrong at the image itself: there is nothing to attack.
    """
    there = points.reshape(problem.images.shape)
    found = majority_border(
        problem.model, problem.noise, problem.images, there, problem.labels, steps=PLACES,
        bisections=MAJORITY_HALVINGS, draws=DRAWS,
    ).distance.double().numpy()  # fmt: skip
    known = np.isfinite(found) & (found > 0)
    logs = np.where(known, np.log(np.where(known, found, 1.0)), nothing(problem))
    return np.where(found == 0, np.nan, logs)


def cell(problem: Problem, attack: str, budget: int, seed: int, majority: bool = False) -> dict[str, Any]:
    """Log-distances by mark, `(B,)` each, and those of the first border (mark 0), of a run with a budget."""
    name = f"large {problem.name} {problem.which} {attack} {budget} {seed} {_code(attack)}"
    name += " majority" if majority else ""
    path = RUNS / (hashlib.sha256(name.encode()).hexdigest()[:24] + ".json")
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text())
        return known
    began = time.process_time()
    report = psj.evaluate(
        problem.model, problem.images, problem.labels, attack=HopSkipJump(radius=0.01) if attack == HSJ else
        variant("" if attack == "default" else attack), noise=problem.noise, targets=problem.targets,
        starts=problem.starts, budget=budget, seed=seed, verdict=0,
    )  # fmt: skip
    trace, images, logs = report.trace, torch.arange(len(problem.images)), {}
    if trace.points is None:
        raise SystemExit("a run without its trace cannot be measured")
    for mark in (0, budget) if majority else (0, *(mark for mark in MARKS if mark <= budget)):
        paid = (trace.queries <= mark).sum(dim=0)  # steps by then
        last = (paid - 1).clamp(min=0)
        reached = torch.where((paid > 0) | (mark == 0), trace.distance[last, images], torch.inf)
        rays = trace.points[last, images]
        logs[str(mark)] = (of_majority(problem, rays) if majority else measured(problem, rays, reached)).tolist()
    told = {"name": name, "log_distances": logs, "steps": len(trace.queries), "seconds": time.process_time() - began}
    RUNS.mkdir(exist_ok=True)
    path.with_suffix(".part").write_text(json.dumps(told))
    path.with_suffix(".part").rename(path)
    print(f"{name}: {told['seconds']:.0f} s, {told['steps']} steps", flush=True)
    return told


def compared(row: Row, attack: str, chosen: tuple[int, ...], marks: tuple[int, ...], seeds: list[int]) -> list[Any]:
    """The lines of one attack: at each mark its mean, the yardstick's, their ratio and what it must be."""
    problem = problem_of(row.noise, row.targeted, chosen)
    clean = problem_of(None, row.targeted, chosen)
    mine = [cell(problem, attack, max(marks), seed, row.majority)["log_distances"] for seed in seeds]
    best = [cell(clean, HSJ, max(marks), seed)["log_distances"] for seed in seeds] if row.against == "HSJ" else mine
    at = marks if row.against == "HSJ" else [0] * len(marks)
    logs = np.array([np.mean([run[str(mark)] for run in mine], axis=0) for mark in marks])
    yard = np.array([np.mean([run[str(mark)] for run in best], axis=0) for mark in at])
    kept = np.isfinite(logs).all(axis=0) & np.isfinite(yard).all(axis=0)
    logs, yard, lines = logs[:, kept], yard[:, kept], []
    for place, mark in enumerate(marks):
        ratio = float(np.exp((logs[place] - yard[place]).mean()))
        must = row.must.get(mark)
        judged = "" if must is None else f"{'pass' if ratio <= must else 'FAIL'} ({must:g})"
        means = [f"{np.exp(values[place].mean()):.4g}" for values in (logs, yard)]
        lines.append((attack, f"{mark:,}", *means, f"{ratio:.3f}", interval(logs[place] - yard[place]), judged))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", choices=list(ROWS))
    parser.add_argument("--variants", nargs="+", default=["default"], help="settings of QSJ, see tuning.py, or HSJ")
    parser.add_argument("--tuning", action="store_true", help="images 0 to 9")
    parser.add_argument("--images", type=int, default=None)
    parser.add_argument("--marks", type=int, nargs="+", default=None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[Any] = []
    for name in args.rows:
        row = ROWS[name]
        images = tuple(TUNING if args.tuning else REPORTED)[: args.images or row.images]
        marks = tuple(args.marks or row.must)
        for attack in args.variants:
            lines += [(name, *line) for line in compared(row, attack, images, marks, args.seeds)]
    columns = ("row", "attack", "queries", "distance", "yardstick", "ratio", "log-ratio, 95% interval", "must")
    told = (
        f"{'Tuning images.' if args.tuning else 'Images that were not used for tuning.'} Seeds "
        f"{', '.join(map(str, args.seeds))}. Geometric means of the noiseless border distance on the ray that an "
        "attack has after so many queries. The yardstick is `HopSkipJump(radius=0.01)` without noise, or, under "
        "smoothing, the first border of the attack itself. A row on the majority is measured where the most frequent "
        "answer changes on the ray, by a sequential test with up to 128 answers at a place."
    )
    save(args.out, header("224 x 224 x 3", command()) + f"\n{told}\n\n{markdown(columns, lines)}")


if __name__ == "__main__":
    main()
