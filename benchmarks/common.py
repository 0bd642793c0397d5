"""What the benchmarks share: images, models, a stop-watch, tables."""

from __future__ import annotations

import multiprocessing
import platform
import resource
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import popskipjump as psj


def correct_images(count: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The first embedded images, from number `first` on, that the embedded net takes for what they are."""
    images, labels = psj.zoo.mnist_images()
    with torch.no_grad():
        right = psj.zoo.mnist_model()(torch.from_numpy(images)).argmax(dim=1).numpy() == labels
    chosen = np.flatnonzero(right)
    chosen = chosen[chosen >= first][:count]
    if len(chosen) < count:
        raise SystemExit(f"only {len(chosen)} correctly classified images from number {first} on")
    return images[chosen], labels[chosen]


def embedded_pool() -> psj.Pool:
    """Starting points: all embedded images."""
    images, labels = psj.zoo.mnist_images()
    return psj.Pool(torch.from_numpy(images), torch.from_numpy(labels))


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def seconds(work: Callable[[], Any], clock: str = "wall") -> tuple[float, Any]:
    """How long something takes, and what it gives.

    The "cpu" clock stands still while other programs have the processor: for one thread on a busy machine.
    """
    start = CLOCKS[clock]()
    result = work()
    return CLOCKS[clock]() - start, result


class Goal(NamedTuple):
    """What a number should be at most."""

    must: float
    aim: float | None = None

    def judge(self, value: float) -> str:
        """A cell of a table."""
        if self.aim is not None and value <= self.aim:
            return f"pass, and the aim ({self.aim:.4g})"
        return f"pass (must {self.must:.4g})" if value <= self.must else f"FAIL (must {self.must:.4g})"


def peak_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(work: Callable[..., Any], *arguments: Any, threads: int = 1) -> Any:
    """What `work` gives in a process of its own, so that its peak memory is its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, torch.set_num_threads, (threads,)) as pool:
        return pool.apply(work, arguments)


def save(out: Path | None, text: str) -> None:
    """Print a benchmark's result, and keep it."""
    print("\n" + text, flush=True)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")


def spread(values: Sequence[float]) -> str:
    """Median with its smallest and largest repetition."""
    return f"{np.median(values):.3f} [{min(values):.3f} to {max(values):.3f}]"


def command() -> str:
    """How this benchmark was started, but for where its output goes."""
    words = sys.argv[: sys.argv.index("--out")] if "--out" in sys.argv else sys.argv
    return shlex.join(["python", *words])


def header(title: str, command: str) -> str:
    """The first lines of a benchmark's output."""
    threads = torch.get_num_threads()
    return (
        f"# {title}\n\n`{command}`; torch {torch.__version__}, Python {platform.python_version()}, "
        f"{threads} thread{'s' if threads > 1 else ''}, {time.strftime('%Y-%m-%d')}\n"
    )


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
