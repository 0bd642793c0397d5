"""Total time of the engine against the time of the bare model on the engine's own queries, in one run.

    python benchmarks/overhead.py --images 1 16 100 500 --repeat 3

The engine runs; then the same run is made again with its calls recorded (a sample of them, by phase, when there are
too many to keep), and the bare module answers the recorded calls: once call by call as the engine made them ("same
calls"), once joined to batches of 512 ("best batches"), which is the limit of what any engine could reach. Engine and
model take turns in every repetition, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import resource
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import torch
from common import correct_images, embedded_pool, header, markdown, seconds, spread

import popskipjump as psj
from popskipjump.oracles import Ticket

KEEP_BYTES = 1 << 30


class Watched:
    """An oracle that keeps a sample of the calls it passes on, and shows no white box."""

    def __init__(self, oracle: psj.Classifier, every: int = 0) -> None:
        self.oracle, self.every, self.device = oracle, every, oracle.device
        self.calls = 0
        self.kept: list[torch.Tensor] = []
        self.sizes: dict[int, int] = defaultdict(int)

    def ask(self, points: torch.Tensor, ticket: Ticket) -> torch.Tensor:
        """See `Oracle`."""
        if self.every:
            if self.calls % self.every == 0:
                self.kept.append(points.clone())
            self.calls += 1
        self.sizes[len(points)] += 1
        return self.oracle.ask(points, ticket)


def engine(model: psj.TorchModel, images: int, flips: float, every: int = 0) -> tuple[psj.Report, Watched]:
    x, y = correct_images(images)
    noise = psj.noise.Flip(flips) if flips else None
    oracle = Watched(psj.Classifier(model, noise), every)
    report = psj.evaluate(oracle, x, y, attack="psj", starts=embedded_pool(), verdict=0, keep_trace=False)
    return report, oracle


def forward(module: Callable[[torch.Tensor], torch.Tensor], calls: list[torch.Tensor]) -> float:
    with torch.no_grad():
        taken, _ = seconds(lambda: [module(call) for call in calls])
    return taken


def measure(model: psj.TorchModel, images: int, flips: float, repeat: int) -> dict[str, list[float]]:
    module = model.forward
    report, _ = engine(model, images, flips)
    queries = int(report.queries.sum())
    rows_bytes = 4 * report.images[0].size
    every = max(1, int(np.ceil(queries * rows_bytes / KEEP_BYTES)))
    _, recorded = engine(model, images, flips, every)
    kept = sum(len(call) for call in recorded.kept)
    joined = list(torch.split(torch.cat(recorded.kept), 512))
    result: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeat):
        same = forward(module, recorded.kept) * queries / kept
        taken, (report, _) = seconds(lambda: engine(model, images, flips))
        best = forward(module, joined) * queries / kept
        result["total"].append(taken)
        result["same"].append(taken / same)
        result["best"].append(taken / best)
        result["us"].append(best / queries * 1e6)
    result["queries"] = [queries / images]
    result["calls"] = [sum(recorded.sizes.values())]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[1, 16, 100, 500])
    parser.add_argument("--flips", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--models", nargs="+", default=["eager", "optimised"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(header("Engine against bare model", "python benchmarks/overhead.py"))
    rows = []
    for name in args.models:
        for images in args.images:
            for flips in args.flips:
                model = psj.TorchModel(psj.zoo.mnist_model(), optimize=name == "optimised")
                r = measure(model, images, flips, args.repeat)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                rows.append(
                    (
                        name,
                        images,
                        f"{flips:.0%}",
                        f"{r['queries'][0]:,.0f}",
                        spread(r["best"]),
                        spread(r["same"]),
                        f"{np.median(r['us']):.1f}",
                        f"{np.median(r['total']) / images:.3f}",
                        f"{peak:,.0f}",
                    )
                )
                print("|", " | ".join(map(str, rows[-1])), "|", flush=True)
    columns = ("model", "images", "flips", "queries / image", "total / best batches", "total / same calls")
    print("\n" + markdown((*columns, "model us / query", "s / image", "peak MB so far"), rows))


if __name__ == "__main__":
    main()
