"""Runs with chosen numbers, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from popskipjump.experiments.reproduce import QUICK, Evidence, Experiment, Setup
from popskipjump.experiments.reproduce.base import Way
from popskipjump.runs.collect import RunData
from popskipjump.storage import RunSpec
from popskipjump.types import Status

SETUP = Setup("mnist", (1, 28, 28), QUICK)
IMAGES = 5


def run_with(way: Way, distance: float, queries: float, images: int = IMAGES) -> RunData:
    """A run whose images all end at one border distance after as many queries."""
    times = way.attack.iterations + 1
    shape = (times, images)
    falling = distance * np.linspace(2.0, 1.0, times)[:, None] * np.ones(images)
    asked = np.round(queries * np.linspace(1 / times, 1.0, times)).astype(np.int64)[:, None] * np.ones(
        images, dtype=np.int64
    )
    pictures = np.zeros((images, 1, 28, 28), dtype=np.float32)
    nothing = np.zeros((images, 0), dtype=np.int64)
    return RunData(
        spec=RunSpec(attack=way.attack, noise=way.noise, votes=way.votes),
        folder=Path("none"),
        image_ids=np.arange(images),
        labels=np.zeros(images, dtype=np.int64),
        targets=None,
        status=[Status.FINISHED] * images,
        originals=pictures,
        points=pictures + np.float32(distance / 28),
        distances=np.full(images, float(distance)),
        border_distances=np.full(images, float(distance)),
        queries=np.full(images, int(queries) + 50),
        queries_by_phase={"verdict": np.full(images, 50)},
        seconds=np.ones(images),
        verdict_probability=np.ones(images),
        verdict_low=np.ones(images),
        verdict_high=np.ones(images),
        verdict_queries=np.full(images, 50),
        messages={},
        trace_distance=falling,
        trace_border=falling,
        trace_queries=asked,
        trace_sigmoid={name: np.ones(shape) for name in ("centre", "slope", "low", "high", "gap")},
        probe_position=np.zeros(0),
        probe_asked=nothing,
        probe_adversarial=nothing,
        versions=[],
    )


def evidence_of(
    experiment: Experiment,
    number: Callable[[Way], tuple[float, float]],
    measured: dict[str, np.ndarray] | None = None,
    setup: Setup = SETUP,
    images: int = IMAGES,
) -> Evidence:
    """All runs of an experiment, with the (distance, queries) that `number` gives each way."""
    runs = {ask.way: run_with(ask.way, *number(ask.way), images) for ask in experiment.plan(setup)}
    return Evidence(setup, runs, measured or {})
