"""Time and memory per image against the number of images, the size of the input, and the grid.

    python benchmarks/scaling.py

Every case runs in a process of its own, so that its peak memory is its own. Times are of the whole call.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource

import numpy as np
import torch
from common import correct_images, embedded_pool, header, markdown, seconds

import popskipjump as psj

Row = dict[str, object]


def mnist(images: int, resolution: int, iterations: int) -> Row:
    """PSJ on the embedded net, images repeated under new ids where there are too few."""
    x, y = correct_images(min(images, 900))
    rows = np.arange(images) % len(x)
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    config = psj.PopSkipJump(iterations=iterations, resolution=resolution)
    return _run(model, x[rows], y[rows], config, embedded_pool())


def linear(shape: tuple[int, ...], images: int, iterations: int) -> Row:
    """PSJ on a random plane through the middle of the box."""
    d = int(np.prod(shape))
    normal = np.random.default_rng(0).standard_normal(d).astype(np.float32)
    plane = psj.Plane(torch.from_numpy(normal), offset=float(0.5 * normal.sum() + 2 * np.linalg.norm(normal)))
    x = np.random.default_rng(1).uniform(0.3, 0.7, (images, *shape)).astype(np.float32)
    ahead = x + 6 * (normal / np.linalg.norm(normal)).reshape(shape)
    return _run(
        plane, x, np.zeros(images, dtype=np.int64), psj.PopSkipJump(iterations=iterations), np.clip(ahead, 0, 1)
    )


def _run(model: object, x: np.ndarray, y: np.ndarray, config: psj.PopSkipJump, starts: object) -> Row:
    taken, report = seconds(
        lambda: psj.evaluate(model, x, y, attack=config, starts=starts, verdict=0, keep_trace=False)
    )
    return {
        "seconds_per_image": taken / len(x),
        "queries_per_image": float(report.queries.mean()),
        "us_per_query": taken / report.queries.sum() * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "status": {s.name: report.status.count(s) for s in set(report.status)},
        "distance": float(np.median(report.distances)),
    }


CASES = {
    "10 MNIST images": (mnist, (10, 100, 32)),
    "100 MNIST images": (mnist, (100, 100, 32)),
    "1,000 MNIST images": (mnist, (1000, 100, 32)),
    "100 MNIST images, 8 iterations, grid 101": (mnist, (100, 100, 8)),
    "100 MNIST images, 8 iterations, grid 301": (mnist, (100, 300, 8)),
    "plane, d = 784, 8 images": (linear, ((1, 28, 28), 8, 32)),
    "plane, d = 3,072, 8 images": (linear, ((3, 32, 32), 8, 32)),
    "plane, d = 150,528, 8 images": (linear, ((3, 224, 224), 8, 32)),
}


def _case(name: str, queue: multiprocessing.Queue) -> None:
    torch.set_num_threads(1)
    work, arguments = CASES[name]
    queue.put(work(*arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(header("Scaling", "python benchmarks/scaling.py"))
    context = multiprocessing.get_context("spawn")
    results: dict[str, list[Row]] = {name: [] for name in args.cases}
    for _ in range(args.repeat):
        for name in args.cases:
            queue = context.Queue()
            process = context.Process(target=_case, args=(name, queue))
            process.start()
            results[name].append(queue.get(timeout=3600))
            process.join()
            print(name, json.dumps(results[name][-1]), flush=True)
    rows = []
    for name, found in results.items():
        median = {key: float(np.median([r[key] for r in found])) for key in found[0] if key != "status"}
        rows.append(
            (
                name,
                f"{median['seconds_per_image']:.3f}",
                f"{median['queries_per_image']:,.0f}",
                f"{median['us_per_query']:.1f}",
                f"{median['peak_mb']:,.0f}",
            )
        )
    print("\n" + markdown(("case", "s / image", "queries / image", "us / query", "peak MB"), rows))


if __name__ == "__main__":
    main()
