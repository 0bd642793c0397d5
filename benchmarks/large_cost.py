"""Time and memory of attacks on photographs of 224 x 224 x 3: what is spent outside of the model, and page faults.

    POPSKIPJUMP_DATA=<folder> python benchmarks/large_cost.py --attacks qsj hsj --budget 200 --ways kept plain

The net and the photographs are those of large.py. Every line is a process of its own, so that the peak of its memory
is its own. The way "kept" calls `popskipjump.keep_memory()` first, as `psj` does, "plain" leaves glibc as it is, and
"unfused" also leaves out `optimize=True`. Times are the processor's.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from common import command, header, markdown, save
from large import REPORTED, problem_of
from torch import Tensor

import popskipjump as psj

WAYS = ("kept", "plain", "unfused")


class Timed(psj.TorchModel):
    """A module whose calls are timed by the processor's clock."""

    seconds, rows = 0.0, 0

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        began = time.process_time()
        answer = super().labels(points)
        self.seconds += time.process_time() - began
        self.rows += len(points)
        return answer


def measured(attack: str, way: str, images: int, budget: int) -> dict[str, float]:
    """One run in this process."""
    torch.set_num_threads(1)
    if way == "kept" and not psj.keep_memory():
        raise SystemExit("skipped: this C library is not glibc")
    problem = problem_of(None, False, tuple(REPORTED)[:images])
    model = Timed(problem.model.module, optimize=way != "unfused")
    model.labels(problem.images[:2])  # the frozen copy is made once
    model.seconds, model.rows = 0.0, 0
    faults, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    psj.evaluate(
        model, problem.images, problem.labels, attack=attack, budget=budget, starts=problem.starts, verdict=0, seed=0
    )
    total, use = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "total": total,
        "model": model.seconds,
        "rows": model.rows,
        "faults": use.ru_minflt - faults,
        "peak": use.ru_maxrss / 2**20,
    }


def main() -> None:
    """Run what was asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", nargs="+", default=["qsj"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--alone", action="store_true", help="the first of each in this process, as JSON")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    if args.alone:
        sys.stdout.write(json.dumps(measured(args.attacks[0], args.ways[0], args.images, args.budget)) + "\n")
        return
    lines = []
    for attack in args.attacks:
        for way in args.ways:
            own = [sys.executable, __file__, "--alone", "--attacks", attack, "--ways", way]
            own += ["--images", str(args.images), "--budget", str(args.budget)]
            found = subprocess.run(own, check=True, capture_output=True, text=True).stdout  # noqa: S603
            told = json.loads(found.splitlines()[-1])
            ratio, each = told["total"] / told["model"], 1000 * told["total"] / told["rows"]
            cells = (f"{ratio:.3f}", f"{each:.1f}", f"{told['faults'] / told['rows']:,.0f}", f"{told['peak']:.2f}")
            lines.append((attack, way, f"{told['rows']:,.0f}", *cells))
    columns = (
        "attack",
        "way",
        "inputs asked",
        "total / in the model",
        "ms per input",
        "page faults per input",
        "peak GB",
    )
    about = (
        f"{args.images} photographs, {args.budget} queries each, border distances included; EfficientNet-Lite0, 4.7 "
        "million parameters. Must for qsj: at most 1.05 of the time in the model, and 1.5 GB."
    )
    save(args.out, header("Cost at 224 x 224 x 3", command()) + f"\n{about}\n\n{markdown(columns, lines)}")


if __name__ == "__main__":
    main()
