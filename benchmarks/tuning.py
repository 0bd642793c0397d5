"""Variants of QuickSkipJump beside its default, on images that no report uses.

    python benchmarks/tuning.py direction.count.gradual_growth=0 --noise smoothing:0.2 --marks 1000 4000 12000
    python benchmarks/tuning.py "step.rate=0.5 step.first=0.4" direction.rivals=null --images 100 --seeds 2
    POPSKIPJUMP_DATA=<folder> python benchmarks/tuning.py direction.prior.trust=0.8 --data cifar --targets

A variant is one or several settings, `argument=value` or `part.argument=value` with a value as in JSON, of the default
attack. Log-distances are means over the seeds, and their differences are paired by image: a seed gives each variant the
same noise, but from the first different question on their ways part, and half a percent is chance.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import command, header, markdown, save
from queries import run
from query_problems import Problem, for_tuning, log_distances

import popskipjump as psj
from popskipjump.attacks import QuickSkipJump

DEFAULT = "default"


def variant(settings: str) -> QuickSkipJump:
    """The attack with some arguments of its own or of its parts changed."""
    attack = QuickSkipJump()
    for setting in settings.split():
        place, equals, text = setting.partition("=")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            equals = ""
        if not equals:
            raise SystemExit(f"{setting!r} is not of the form part.argument=value, with a value as in JSON")
        attack = changed(attack, place.split("."), value, setting)
    return attack


def changed(part: Any, path: list[str], value: object, setting: str) -> Any:
    """A part with one argument changed, however deep it lies."""
    known = [entry.name for entry in fields(part)] if is_dataclass(part) else []
    name, *rest = path
    if name not in known:
        where = type(part).__name__
        raise SystemExit(f"{setting!r}: {where} has no argument {name!r}, but {', '.join(known) or 'none at all'}")
    new = changed(getattr(part, name), rest, value, setting) if rest else value
    try:
        return replace(part, **{name: new})
    except (psj.InputError, TypeError) as error:
        raise SystemExit(f"{setting!r}: {error}") from error


def distances(problem: Problem, attack: QuickSkipJump, marks: list[int], seeds: int) -> np.ndarray:
    """Log-distances after so many queries, means over the seeds: `(M, B)`."""
    images = torch.arange(len(problem.images))
    logs = np.zeros((len(marks), len(images)))
    for seed in range(seeds):
        found = run(problem, attack, None, max(marks), 1, seed)
        if found.points is None:
            raise SystemExit("a run without its trace cannot be measured")
        for number, mark in enumerate(marks):
            paid = (found.queries <= mark).sum(dim=0)  # steps by then
            last = (paid - 1).clamp(min=0)
            reached = torch.where(paid > 0, found.distance[last, images], torch.inf)
            logs[number] += log_distances(problem, found.points[last, images], reached) / seeds
    return logs


def cell(logs: np.ndarray, reference: np.ndarray) -> str:
    """Geometric mean and median, and the difference to the default: `(B,)` twice."""
    pairs = logs - reference
    error = pairs.std(ddof=1) / len(pairs) ** 0.5
    return f"{np.exp(logs.mean()):.4g} / {np.exp(np.median(logs)):.4g}, {pairs.mean():+.4f} ± {error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="+", help="settings, apart by spaces within quotes")
    parser.add_argument("--data", choices=("mnist", "cifar"), default="mnist")
    parser.add_argument("--noise", default=None, help="such as flip:0.1; none without it")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--marks", type=int, nargs="+", default=[300, 1000, 3000], help="queries")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--targets", action="store_true", help="the next class of each image")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="a file to write the page to")
    args = parser.parse_args()
    if min(args.images - 1, args.seeds, *args.marks) < 1:
        parser.error("at least 2 images, 1 seed and 1 query")
    torch.set_num_threads(args.threads)
    attacks = {DEFAULT: QuickSkipJump()} | {settings: variant(settings) for settings in args.variants}
    problem = for_tuning(args.data, args.noise, args.images, args.targets)
    reference: np.ndarray | None = None
    rows = []
    for name, attack in attacks.items():
        found = distances(problem, attack, args.marks, args.seeds)
        reference = found if reference is None else reference
        rows.append((name, *(cell(logs, usual) for logs, usual in zip(found, reference, strict=True))))
    told = f"{problem.name}; {problem.which}; {args.seeds} seed{'s' if args.seeds > 1 else ''}."
    columns = ("variant", *(f"after {mark:,} queries" for mark in args.marks))
    legend = (
        "Border distance, geometric mean / median; mean difference of the logarithm to the default, paired by image."
    )
    save(args.out, header("Tuning", command()) + f"\n{told}\n\n{markdown(columns, rows)}\n\n{legend}")


if __name__ == "__main__":
    main()
