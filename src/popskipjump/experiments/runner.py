"""Runs that are collected once: what a run's folder holds is read, what is missing is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from popskipjump.experiments.source import Place, Source, source_of
from popskipjump.storage import RunSpec
from popskipjump.types import Status

__all__ = ["DEFAULT_ROOT", "Place", "RunData", "RunProgress", "Source", "collect", "load", "source_of"]

DEFAULT_ROOT = Path("psj-runs")  # the folder of run folders, unless another is named


class RunProgress(NamedTuple):
    """How far `collect` is."""

    done: int  # images, those that were found included
    images: int  # asked for
    share: float  # of the images that were missing at the call, in [0, 1]; within a group by iterations


@dataclass(frozen=True, eq=False)
class RunData:
    """The results of B images under one spec, in the order in which they were asked for. See `Report` for meanings."""

    spec: RunSpec
    folder: Path
    image_ids: np.ndarray  # (B,) int64, places in the source
    labels: np.ndarray  # (B,) int64
    targets: np.ndarray | None  # (B,) int64
    status: list[Status]
    originals: np.ndarray  # (B, *S) float32
    points: np.ndarray  # (B, *S) float32
    distances: np.ndarray  # (B,) float64; inf without a result, 0 if misclassified
    border_distances: np.ndarray  # (B,) float64, likewise; nan without a white box
    queries: np.ndarray  # (B,) int64
    queries_by_phase: dict[str, np.ndarray]  # phase -> (B,) int64
    seconds: np.ndarray  # (B,) float64: the time of its group, shared out by queries
    verdict_probability: np.ndarray  # (B,) float64; nan where nothing was asked
    verdict_low: np.ndarray  # (B,) float64
    verdict_high: np.ndarray  # (B,) float64
    verdict_queries: np.ndarray  # (B,) int64
    messages: dict[int, str]  # image id -> what the classifier did, where it failed
    trace_distance: np.ndarray  # (T + 1, B) float64, of the border point
    trace_border: np.ndarray  # (T + 1, B) float64; inf without a border, 0 if misclassified, nan without a white box
    trace_queries: np.ndarray  # (T + 1, B) int64, asked so far
    trace_sigmoid: dict[str, np.ndarray]  # "centre", "slope", "low", "high", "gap" -> (T + 1, B) float64; may be nan
    probe_position: np.ndarray  # (P,) float64: places on the last search line; P = 0 for attacks without a sigmoid
    probe_asked: np.ndarray  # (B, P) int64: how often each was asked in the last search
    probe_adversarial: np.ndarray  # (B, P) int64: how often the answer was adversarial

    @property
    def attack_queries(self) -> np.ndarray:
        """Queries without those of the verdict: `(B,)`."""
        return self.queries - self.queries_by_phase.get("verdict", 0)


def collect(
    spec: RunSpec,
    images: Sequence[int],
    root: Path,
    *,
    source: Source | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> RunData:
    """The results of some images under a spec: those in the run's folder are read, the others attacked and kept.

    Args:
        spec: the run; its folder is `root / spec.digest`.
        images: places in the source, each once.
        root: the folder of run folders; made if need be.
        source: what is attacked; None for the embedded images and network.
        on_queries: called with the number of queries after every call to the classifier; nothing that was found or
            replayed is counted.
        on_progress: called after every iteration of every group, and once at the end.

    Raises:
        InputError: the source is not the spec's, or an image is not in it; nothing has been asked.
        StorageError: the folder cannot be used; nothing in it was overwritten.
        OracleError: the classifier failed on every image of a group; what was answered is kept.
        KeyboardInterrupt: Ctrl-C; what was answered is kept, and the next call goes on from there.
    """
    raise NotImplementedError


def load(folder: Path) -> RunData:
    """All finished images of a run, by id, without asking anything and without the model."""
    raise NotImplementedError
