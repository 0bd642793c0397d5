"""What the benchmarks share: images, models, a stop-watch, tables."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

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


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long something takes, and what it gives."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def spread(values: Sequence[float]) -> str:
    """Median with its smallest and largest repetition."""
    return f"{np.median(values):.3f} [{min(values):.3f} to {max(values):.3f}]"


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
