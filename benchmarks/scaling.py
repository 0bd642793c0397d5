"""Time and memory per image against the number of images, the size of the input, and the grid.

    python benchmarks/scaling.py --out benchmarks/results/scaling.md

Every case runs in a process of its own, so that its peak memory is its own; the cases take turns in every repetition.
Times are of the whole call, without a verdict. MNIST cases run on the optimised net, where the engine shows most.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import (
    CLOCKS,
    Goal,
    apart,
    command,
    correct_images,
    embedded_pool,
    header,
    markdown,
    peak_mb,
    save,
    seconds,
    spread,
)

import popskipjump as psj

Row = dict[str, float]


def mnist(images: int, resolution: int, iterations: int, clock: str) -> Row:
    """PSJ on the embedded net, images repeated under new ids where there are too few."""
    x, y = correct_images(min(images, 900))
    rows = np.arange(images) % len(x)
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    config = psj.PopSkipJump(iterations=iterations, resolution=resolution)
    return _run(model, x[rows], y[rows], config, embedded_pool(), clock)


def linear(shape: tuple[int, ...], images: int, iterations: int, clock: str) -> Row:
    """PSJ on a random plane through the middle of the box."""
    d = int(np.prod(shape))
    normal = np.random.default_rng(0).standard_normal(d).astype(np.float32)
    plane = psj.Plane(torch.from_numpy(normal), offset=float(0.5 * normal.sum() + 2 * np.linalg.norm(normal)))
    x = np.random.default_rng(1).uniform(0.3, 0.7, (images, *shape)).astype(np.float32)
    ahead = x + 6 * (normal / np.linalg.norm(normal)).reshape(shape)
    config = psj.PopSkipJump(iterations=iterations)
    return _run(plane, x, np.zeros(images, dtype=np.int64), config, np.clip(ahead, 0, 1), clock)


def _run(model: object, x: np.ndarray, y: np.ndarray, config: psj.PopSkipJump, starts: Any, clock: str) -> Row:
    taken, report = seconds(
        lambda: psj.evaluate(model, x, y, attack=config, starts=starts, verdict=0, keep_trace=False), clock
    )
    return {
        "s / image": taken / len(x),
        "queries / image": float(report.queries.mean()),
        "us / query": taken / report.queries.sum() * 1e6,
        "peak MB": peak_mb(),
        "finished": sum(s is psj.Status.FINISHED for s in report.status) / len(x),
    }


CASES: dict[str, tuple[Callable[..., Row], tuple[Any, ...]]] = {
    "10 MNIST images": (mnist, (10, 100, 32)),
    "100 MNIST images": (mnist, (100, 100, 32)),
    "1,000 MNIST images": (mnist, (1000, 100, 32)),
    "100 MNIST images, 8 iterations, grid 101": (mnist, (100, 100, 8)),
    "100 MNIST images, 8 iterations, grid 301": (mnist, (100, 300, 8)),
    "plane, d = 784, 8 images": (linear, ((1, 28, 28), 8, 32)),
    "plane, d = 3,072, 8 images": (linear, ((3, 32, 32), 8, 32)),
    "plane, d = 150,528, 8 images": (linear, ((3, 224, 224), 8, 32)),
}


REPETITIONS = 3
FEW, MANY, LARGE = "100 MNIST images", "1,000 MNIST images", "plane, d = 150,528, 8 images"


def case(name: str, clock: str) -> Row:
    """One run of a case."""
    work, arguments = CASES[name]
    return work(*arguments, clock)


def goals(results: dict[str, list[Row]]) -> str:
    """What is asked of the numbers, where the cases for it were run."""
    rows = []
    if FEW in results and MANY in results:
        pairs = list(zip(results[FEW], results[MANY], strict=True))
        per_query = [many["us / query"] / few["us / query"] for few, many in pairs]
        per_image = [many["s / image"] / few["s / image"] for few, many in pairs]
        rows.append(("time per image, 1,000 against 100", spread(per_image), Goal(1.05, 1.0).judge(_median(per_image))))
        rows.append(("time per query, 1,000 against 100", spread(per_query), ""))
    if MANY in results:
        peak = [found["peak MB"] for found in results[MANY]]
        rows.append(("peak MB, 1,000 MNIST images", spread(peak), Goal(2048, 1024).judge(_median(peak))))
    if LARGE in results:
        peak = [found["peak MB"] for found in results[LARGE]]
        finished = min(found["finished"] for found in results[LARGE])
        rows.append(("peak MB, d = 150,528, 8 images", spread(peak), Goal(4096).judge(_median(peak))))
        rows.append(("images that finished, d = 150,528", f"{finished:.0%}", "pass" if finished == 1 else "FAIL"))
    return markdown(("what", "median [smallest to largest]", "goal"), rows)


def _median(values: list[float]) -> float:
    return float(np.median(values))


def table(results: dict[str, list[Row]]) -> str:
    columns = {"s / image": ".3f", "queries / image": ",.0f", "us / query": ".1f", "peak MB": ",.0f", "finished": ".0%"}
    rows = [
        (name, *(format(_median([r[column] for r in found]), style) for column, style in columns.items()))
        for name, found in results.items()
        if found
    ]
    return markdown(("case", *columns), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeat", type=int, default=REPETITIONS)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: one thread on a busy machine")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    title = header("Scaling", command())
    results: dict[str, list[Row]] = {name: [] for name in args.cases}
    for _ in range(args.repeat):
        for name in args.cases:
            results[name].append(apart(case, name, args.clock))
            print(name, json.dumps(results[name][-1]), flush=True)
    save(args.out, f"{title}\n{table(results)}\n\n{goals(results)}")


if __name__ == "__main__":
    main()
