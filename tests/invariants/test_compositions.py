"""Every part works in every composition: search x direction x step x acceptance, on borders that are known exactly.

The bound of 1.25 is no limit of luck: the largest of all means measured is 1.15, the spread of a mean over images and
seeds about 0.02, and the first border lies at 1.5 to 2.4 times the true distance.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from popskipjump import DirectionCount, Plane, QuickSkipJump, Sphere, evaluate
from popskipjump.attacks import (
    AcceptIfNearer,
    AdaptiveDirections,
    ArcStep,
    BayesianSearch,
    BinarySearch,
    DistanceSpread,
    FullStep,
    GivenStart,
    HalvingStep,
    LineSpread,
    MonteCarlo,
    NoRestart,
    UnlessFaint,
    WarmStartedSearch,
)
from popskipjump.attacks.protocols import Acceptance, Direction, Search, StepRule

DIMENSION, COUNT = 20, 5
SEARCHES: dict[str, Search[Any]] = {
    "bisection": BinarySearch(),
    "bayesian": BayesianSearch(),
    "warm": WarmStartedSearch(),
}
DIRECTIONS: dict[str, Direction[Any]] = {
    "psj": MonteCarlo(DirectionCount(40), LineSpread(0.01), baseline=True),
    "hsj": MonteCarlo(DirectionCount(40), DistanceSpread(0.05, None), sphere=True, baseline=True),
    "adaptive": AdaptiveDirections(),
}
STEPS: dict[str, StepRule[Any]] = {"full": FullStep(), "halving": HalvingStep(), "arc": ArcStep()}
ACCEPTANCES: dict[str, Acceptance[Any]] = {"unless-faint": UnlessFaint(), "if-nearer": AcceptIfNearer()}
PARTS = list(product(SEARCHES, DIRECTIONS, STEPS, ACCEPTANCES))

generator = torch.Generator().manual_seed(1)
IMAGES = 0.3 + 0.1 * torch.rand(COUNT, DIMENSION, generator=generator)
NORMAL = torch.randn(DIMENSION, generator=generator).abs() + 0.2
NORMAL = NORMAL / NORMAL.norm()
BORDERS: dict[str, Plane | Sphere] = {
    "plane": Plane(NORMAL, float((IMAGES @ NORMAL).max()) + 0.3),
    "sphere": Sphere(torch.full((DIMENSION,), 0.2), 1.0),
}
NAMED = pytest.mark.parametrize("parts", PARTS, ids="-".join)


def ratios(border: str, noise: str | None, parts: tuple[str, str, str, str]) -> tuple[float, float]:
    """Geometric means of the first and the last border's distance, in units of the true distance."""
    search, direction, step, acceptance = parts
    config = QuickSkipJump(
        iterations=10,
        start=GivenStart(),
        direction=DIRECTIONS[direction],
        step=STEPS[step],
        search=SEARCHES[search],
        acceptance=ACCEPTANCES[acceptance],
        restart=NoRestart(),
    )
    model = BORDERS[border]
    starts = IMAGES.clone()
    starts[:, :5] = 0.95  # so that the first ray is far from the normal
    report = evaluate(
        model, IMAGES, torch.zeros(COUNT, dtype=torch.int64), config, noise, starts=starts, seed=3, verdict=0
    )
    log_ratio = np.log(np.asarray(report.trace.distance) / model.distance(IMAGES).numpy())
    return float(np.exp(log_ratio[0].mean())), float(np.exp(log_ratio[-1].mean()))


def converges(border: str, noise: str | None, parts: tuple[str, str, str, str]) -> None:
    first, last = ratios(border, noise, parts)
    assert first > 1.3
    assert 0.85 < last < 1.25


@NAMED
def test_every_composition_finds_the_nearest_point_of_a_plane(parts: tuple[str, str, str, str]) -> None:
    converges("plane", None, parts)


@NAMED
@pytest.mark.slow
def test_every_composition_finds_the_nearest_point_of_a_sphere(parts: tuple[str, str, str, str]) -> None:
    converges("sphere", None, parts)


MODELLED = [parts for parts in PARTS if SEARCHES[parts[0]].models_noise]
MODELLED_NAMED = pytest.mark.parametrize("parts", MODELLED, ids="-".join)


@MODELLED_NAMED
def test_every_composition_that_models_noise_survives_flips_on_a_sphere(parts: tuple[str, str, str, str]) -> None:
    converges("sphere", "flip:0.1", parts)


@MODELLED_NAMED
@pytest.mark.slow
def test_every_composition_that_models_noise_survives_flips_on_a_plane(parts: tuple[str, str, str, str]) -> None:
    converges("plane", "flip:0.1", parts)


def test_two_of_three_searches_model_noise() -> None:
    assert [name for name, search in SEARCHES.items() if search.models_noise] == ["bayesian", "warm"]
