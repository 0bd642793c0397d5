"""What the journal costs: its share of a run's time on the embedded MNIST network, and its bytes per query.

    python benchmarks/journal.py --images 50 --out benchmarks/results/journal.md

A run is evaluated with the journal around the model. One stop-watch holds each call to the journalled model, another
the call to the model within it; their difference is all that the journal adds (looking answers up, checking labels,
noting a call, writing its answers, sealing, waiting for the disk), measured within that very run, so that other work on
the machine hits both. What the watches themselves take, measured around a call that does nothing, is taken off. The
bytes per query are those of the sealed records, at the end and without anything dropped; the tail beside them is a
constant of at most 540 kB. Wall time on a shared machine also counts the waits for other programs, so the CPU time
judges.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import Goal, apart, command, correct_images, embedded_pool, header, markdown, save

import popskipjump as psj
from popskipjump.storage import Journal, Journalled

CASES = (
    ("qsj", None, 1000),
    ("qsj", "flip:0.1", 1000),
    ("psj", None, 4000),
    ("psj", "flip:0.1", 4000),
    ("psj", "logit:1", 4000),
    ("hsj", "flip:0.1", 4000),
)
SHARE, BYTES = Goal(0.03), Goal(0.3)


class Cost(NamedTuple):
    """Of one case."""

    queries: int
    calls: int
    seconds: float
    wall_share: float
    cpu_share: float
    bytes_per_query: float  # of the sealed records
    tail: float  # kB, a constant at most: `TAIL_BYTES`


class Watch:
    """A stop-watch on a call, its own wall and CPU time."""

    def __init__(self) -> None:
        self.wall, self.cpu, self.calls = 0.0, 0.0, 0

    def timed(self, work: Any, *arguments: Any) -> Any:
        """What the work returns; its time is added."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return work(*arguments)
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            self.calls += 1


def timed(oracle: Any, watch: Watch) -> Any:
    """An oracle with a stop-watch on each call."""
    oracle.ask = partial(watch.timed, oracle.ask)
    return oracle


def cost_of_watches(calls: int = 5000) -> tuple[float, float]:
    """Wall and CPU seconds a call that two nested watches take for themselves."""
    inner, outer = Watch(), Watch()
    for _ in range(calls):
        outer.timed(inner.timed, int)
    return (outer.wall - inner.wall) / calls, (outer.cpu - inner.cpu) / calls


def measure(attack: str, noise: str | None, budget: int, count: int, folder: str) -> Cost:
    """Attack some images with the journal in between."""
    images, labels = correct_images(count)
    path = Path(tempfile.mkdtemp(dir=folder)) / "journal.bin"
    journal, without, both = Journal(path, "benchmark"), Watch(), Watch()
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    wall, cpu = time.perf_counter(), time.process_time()
    report = psj.evaluate(
        model,
        images,
        labels,
        attack,
        noise,
        starts=embedded_pool(),
        budget=budget,
        hooks=psj.Hooks(wrap_oracle=lambda oracle: timed(Journalled(timed(oracle, without), journal), both)),
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    queries = int(report.queries.sum())
    size, tail = journal.path.stat().st_size, journal.tail.stat().st_size
    sealed = size / max(queries - journal.loose, 1)
    own_wall, own_cpu = cost_of_watches()
    shares = (
        (both.wall - without.wall - own_wall * both.calls) / wall,
        (both.cpu - without.cpu - own_cpu * both.calls) / cpu,
    )
    return Cost(queries, both.calls, cpu, *shares, sealed, tail / 1024)


def main() -> None:
    """Measure all cases, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--folder", default=None, help="where the journals are written; a temporary folder if not given"
    )
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for attack, noise, budget in CASES:
            cost = apart(measure, attack, noise, budget, options.images, folder, threads=options.threads)
            rows.append(
                (
                    f"{attack} {budget:,}",
                    noise or "none",
                    f"{cost.queries:,}",
                    f"{cost.calls:,}",
                    f"{cost.seconds:.1f}",
                    f"{100 * cost.cpu_share:.2f}%",
                    f"{100 * cost.wall_share:.2f}%",
                    SHARE.judge(cost.cpu_share),
                    f"{cost.bytes_per_query:.3f}",
                    BYTES.judge(cost.bytes_per_query),
                    f"{cost.tail:.0f}",
                )
            )
            print(*rows[-1], flush=True)
    columns = (
        "attack, budget", "noise", "queries", "calls", "CPU s", "journal, CPU", "journal, wall", "time",
        "bytes per query", "size", "tail, kB",
    )  # fmt: skip
    title = f"What the journal costs: {options.images} MNIST images, {options.threads} thread(s)"
    save(options.out, header(title, command()) + markdown(columns, rows))


if __name__ == "__main__":
    main()
