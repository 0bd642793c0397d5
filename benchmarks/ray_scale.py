"""Runs on Ray: throughput of several workers against one process, and the memory of the process that hands out shards.

    python benchmarks/ray_scale.py speed --images 200 --budget 10000 --repeat 2 --out benchmarks/results/ray-speed.md
    python benchmarks/ray_scale.py memory --images 100000 --workers 2 --out benchmarks/results/ray-memory.md

speed: one process of one thread and the workers take turns on the same images, and their results are compared bit by
bit. The clock runs from the first query to the last result, so that starting Ray (which is reported apart) and the
network's first trace are left out of both. On a machine that does other work, the ratio says less than it seems: the
load is given.

memory: a few queries of each of many images. Images beyond the embedded 1,000 are these once more, a little darker each
time. The resident memory of the driving process is noted after every shard; growth is judged from the first tenth of
the images on. With --mislabelled every image has a wrong label and ends after one query: workers do next to nothing,
but the driver keeps as many results as else, so that its memory is measured in less time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Goal, command, header, markdown, save, spread

from popskipjump.integrations.ray import RayEngine
from popskipjump.integrations.ray.cluster import connected
from popskipjump.runs.collect import RunProgress, collect, complete, source_of
from popskipjump.runs.source import Source, digest_of

GAIN, GROWTH = 1.8, Goal(0.05)
_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_mb() -> tuple[float, float]:
    """Resident memory of this process: its own, and what it shares with others (the object store)."""
    _, resident, shared = (int(word) for word in Path("/proc/self/statm").read_text().split()[:3])
    return (resident - shared) * _PAGE / 2**20, shared * _PAGE / 2**20


def timed(source: Source, images: int, engine: RayEngine | None, budget: int) -> tuple[float, float, Any]:
    """Seconds from the first query on, seconds before it, and the results."""
    spec = source.spec(attack="psj", noise="flip:0.1", budget=budget, verdict=0)
    first: list[float] = []

    def count(_: int) -> None:
        if not first:
            first.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        data = collect(spec, range(images), Path(folder), source=source, engine=engine, on_queries=count)
        return time.perf_counter() - first[0], first[0] - began, data


def speed(images: int, workers: int, budget: int, repeat: int) -> str:
    """One process and the workers, in turns."""
    source, rows, gains = source_of(), [], []
    with connected(None, workers, 0, 64 << 20):
        for _ in range(repeat):
            load = os.getloadavg()[0]
            alone, load_model, here = timed(source, images, None, budget)
            together, start, there = timed(source, images, RayEngine(workers=workers), budget)
            same = all(
                np.array_equal(getattr(here, name), getattr(there, name), equal_nan=True)
                for name in ("points", "distances", "queries", "trace_distance", "trace_queries", "border_distances")
            )
            gains.append(alone / together)
            rows.append(
                (
                    f"{load:.1f}",
                    f"{alone:.1f}",
                    f"{together:.1f}",
                    f"{start:.1f}",
                    f"{gains[-1]:.2f}",
                    f"{(load_model + alone) / (start + together):.2f}",
                    "yes" if same else "NO",
                )
            )
            print(*rows[-1], flush=True)
    columns = (
        "load before",
        "one process, s",
        f"{workers} workers, s",
        "start of the workers, s",
        "gain",
        "gain with the start",
        "same bits",
    )
    verdict = "pass" if np.median(gains) >= GAIN else "FAIL"
    return f"{markdown(columns, rows)}\n\nGain {spread(gains)}: {verdict} (must {GAIN})."


def memory(images: int, workers: int, budget: int, shift: int) -> str:
    """The driver's memory as images finish."""
    embedded = source_of()
    times = -(-images // len(embedded.images))
    many = np.concatenate([embedded.images * (1 - 0.001 * step) for step in range(times)])[:images]
    labels = (np.tile(embedded.labels, times)[:images] + shift) % 10
    source = Source(
        "given", digest_of(many, labels), "mnist-cnn", "embedded", many, labels, None, 10, embedded.place
    )  # the place names the network, which each worker builds
    spec = source.spec(attack="hsj", noise="flip:0.1", budget=budget, verdict=0, iterations=1)
    samples: list[tuple[int, float, float]] = []

    def look(now: RunProgress) -> None:
        if not samples or now.done > samples[-1][0]:
            samples.append((now.done, *memory_mb()))

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        engine = RayEngine(workers=workers)
        complete(spec, range(images), Path(folder), source=source, engine=engine, on_progress=look)
    seconds = time.perf_counter() - began
    tenth = next(own for done, own, _ in samples if done >= images / 10)
    growth = max(own for done, own, _ in samples if done >= images / 10) / tenth - 1
    shown = [samples[int(k)] for k in np.linspace(0, len(samples) - 1, 11)]
    table = markdown(
        ("images done", "own memory, MB", "shared, MB"), [(f"{d:,}", f"{a:.1f}", f"{b:.1f}") for d, a, b in shown]
    )
    return (
        f"{images:,} images in {seconds:.0f} s, load {os.getloadavg()[0]:.1f}.\n\n{table}\n\nLargest growth after the "
        f"first tenth: {100 * growth:+.2f}%: {GROWTH.judge(growth)}."
    )


def main() -> None:
    """Measure one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("speed", "memory"))
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=int, default=None)
    parser.add_argument("--mislabelled", action="store_true", help="of memory: one query for each image")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "speed":
        text = speed(options.images, options.workers, options.budget or 4000, options.repeat)
    else:
        text = memory(options.images, options.workers, options.budget or 50, int(options.mislabelled))
    save(options.out, header(f"Runs on Ray: {options.what}", command()) + "\n" + text)


if __name__ == "__main__":
    main()
