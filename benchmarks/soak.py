"""Endurance: one process attacks the embedded network under 10% flips for a while; memory, files and rate are plotted.

    python benchmarks/soak.py --minutes 60 --out benchmarks/results/soak.md

Runs of a few images, each with a seed of its own, follow one another in a temporary folder, with journal and results;
a run's folder is deleted once it is complete, so that the disk does not grow either. Every few seconds the resident
memory (of this process alone, from the system), the open file handles and the queries so far are written to a CSV file
beside the page, and drawn in the end. Memory is judged after a warm-up of a third of the time: the median of the last
third against that of the second. The largest part of what grows is oneDNN's store of compiled kernels, one for each
batch size, up to 1,024 of them: with `--kernels 16` it is full at once, and else after a while. The rate depends on
what else the machine does: the load is in the CSV file, too.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from common import Goal, command, header, markdown, save

from popskipjump.runs.collect import complete, source_of

GROWTH = Goal(0.02)
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """A look at the process."""

    seconds: float
    memory_mb: float  # resident
    files: int  # open
    queries: int
    images: int
    load: float  # of the machine, over the last minute


def look(began: float, queries: int, images: int) -> Sample:
    """At this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = len(os.listdir("/proc/self/fd"))
    return Sample(time.monotonic() - began, pages * _PAGE / 2**20, files, queries, images, os.getloadavg()[0])


def soak(seconds: float, every: float, images: int, budget: int, keep: Callable[[Sample], None]) -> None:
    """Attack for so long; each sample is passed on."""
    source, began, last = source_of(), time.monotonic(), 0.0
    asked, done, seed = 0, 0, 0

    def count(queries: int) -> None:
        nonlocal asked, last
        asked += queries
        if time.monotonic() - last > every:
            last = time.monotonic()
            keep(look(began, asked, done))

    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - began < seconds:
            spec = source.spec(attack="psj", noise="flip:0.1", budget=budget, seed=seed)
            first = seed * images % (len(source.images) - images)
            complete(spec, range(first, first + images), Path(folder), source=source, on_queries=count)
            shutil.rmtree(Path(folder) / spec.digest)
            seed, done = seed + 1, done + images
    keep(look(began, asked, done))


def draw(samples: list[Sample], out: Path) -> None:
    """Memory, files and rate against time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    minutes = np.array([s.seconds for s in samples]) / 60
    asked = np.array([s.queries for s in samples])
    rate = np.diff(asked) / np.maximum(np.diff(minutes) * 60, 1e-9)
    curves: tuple[tuple[str, np.ndarray, Sequence[float] | np.ndarray], ...] = (
        ("memory, MB", minutes, [s.memory_mb for s in samples]),
        ("open files", minutes, [s.files for s in samples]),
        ("queries per second", minutes[1:], rate),
        ("load of the machine", minutes, [s.load for s in samples]),
    )
    figure = Figure(figsize=(7, 7), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, x, y) in zip(figure.subplots(len(curves), 1, sharex=True), curves, strict=True):
        axes.plot(x, y, color="#1f4e79", linewidth=1.2)
        axes.set_ylabel(name, fontsize=8)
        axes.set_ylim(0, 1.15 * max(1e-9, float(np.max(y))))
        axes.grid(True, color="#e6e6e6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("minutes", fontsize=8)
    figure.savefig(out, dpi=110)


def page(samples: list[Sample]) -> str:
    """The three thirds in a table, and the verdict."""
    end = samples[-1].seconds
    rows, memory = [], []
    for third in range(3):
        part = [s for s in samples if third * end / 3 <= s.seconds <= (third + 1) * end / 3]
        rate = (part[-1].queries - part[0].queries) / max(part[-1].seconds - part[0].seconds, 1e-9)
        memory.append(float(np.median([s.memory_mb for s in part])))
        files = sorted({s.files for s in part})
        load = float(np.mean([s.load for s in part]))
        rows.append((f"{third + 1}", f"{memory[-1]:.1f}", f"{files[0]} to {files[-1]}", f"{rate:,.0f}", f"{load:.1f}"))
    growth = memory[2] / memory[1] - 1
    table = markdown(("third", "memory, MB (median)", "open files", "queries per second", "load"), rows)
    return (
        f"{samples[-1].images:,} images, {samples[-1].queries:,} queries in {end / 60:.1f} minutes.\n\n{table}\n\n"
        f"Growth of memory from the second to the last third: {100 * growth:+.2f}%: {GROWTH.judge(growth)}."
    )


def main() -> None:
    """Soak, write the CSV as it goes, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two samples")
    parser.add_argument("--images", type=int, default=10, help="of one run")
    parser.add_argument("--budget", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/soak.md"))
    parser.add_argument("--kernels", type=int, default=None, help="that oneDNN keeps, by batch size; its own: 1024")
    options = parser.parse_args()
    if options.kernels is not None:  # read by oneDNN at its first use
        os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = str(options.kernels)
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    samples: list[Sample] = []
    with options.out.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Sample._fields)

        def keep(sample: Sample) -> None:
            samples.append(sample)
            writer.writerow([round(value, 3) for value in sample])
            file.flush()

        soak(60 * options.minutes, options.every, options.images, options.budget, keep)
    draw(samples, options.out.with_suffix(".png"))
    title = "Endurance on the embedded MNIST network, 10% flips"
    save(options.out, header(title, command()) + "\n" + page(samples))


if __name__ == "__main__":
    main()
