"""The demonstration: PSJ, QSJ, HSJ and HSJ with votes on embedded images, with random label flips."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from popskipjump import Hooks, Pool, Report, TorchModel, evaluate, zoo
from popskipjump.attacks import Progress
from popskipjump.errors import InputError
from popskipjump.metrics import Curve, Summary, curve_over_queries, summarise
from popskipjump.types import Status

NOISE = "flip:0.1"


@dataclass(frozen=True)
class Entry:
    """One line of the demonstration."""

    attack: str
    noise: str | None
    votes: int = 1
    work: float = 1.0  # time it takes, relative to the other entries; for the progress bar alone

    @property
    def attack_name(self) -> str:
        """As people write it."""
        return self.attack.upper() if self.votes == 1 else f"{self.attack.upper()}, {self.votes} votes"

    @property
    def name(self) -> str:
        """The attack and the noise."""
        return f"{self.attack_name}, {self.noise or 'no noise'}"


ENTRIES = (
    Entry("psj", None, work=1.0),
    Entry("psj", NOISE, work=2.0),
    Entry("qsj", NOISE, work=0.2),
    Entry("hsj", NOISE, work=1.0),
    Entry("hsj", NOISE, votes=3, work=4.0),
)


class Sample(NamedTuple):
    """What is attacked, and where the attacks may start."""

    model: TorchModel
    images: np.ndarray  # (B, 1, 28, 28) float32
    labels: np.ndarray  # (B,) int64
    image_ids: np.ndarray  # (B,) int64, places among the embedded images
    pool: Pool  # all embedded images


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one entry fared."""

    entry: Entry
    report: Report
    border_trace: np.ndarray  # (T + 1, B) border distance by iteration; inf where the ray meets no border
    reached: np.ndarray  # (B,) int64, the noiseless classifier's label of each returned point
    seconds: float  # of the attack and its verdict


class Row(NamedTuple):
    """One line of the table; all but `sure` are medians over the images."""

    name: str  # the attack; the noise is that of the demonstration unless the name says "no noise"
    distance: Summary  # of the returned points
    border: Summary
    queries: float
    adversarial: float  # P(adversarial) of a returned point
    sure: int  # images whose point is adversarial more often than not, with 95% confidence
    images: int
    seconds: float


def sample_images(count: int) -> Sample:
    """The first `count` embedded images that the embedded network classifies correctly."""
    model = TorchModel(zoo.mnist_model(), optimize=True)
    images, labels = zoo.mnist_images()
    right = np.flatnonzero(model.labels(torch.from_numpy(images)).numpy() == labels)
    if not 1 <= count <= len(right):
        raise InputError(f"{len(right)} of the embedded images are classified correctly: {count} cannot be shown.")
    ids = right[:count]
    pool = Pool(torch.from_numpy(images), torch.from_numpy(labels))
    return Sample(model, images[ids], labels[ids], ids.astype(np.int64), pool)


def run_entry(
    entry: Entry,
    sample: Sample,
    iterations: int,
    seed: int,
    on_progress: Callable[[Progress], None] | None = None,
    on_queries: Callable[[int], None] | None = None,
) -> Outcome:
    """Attack all images of the sample in one way."""
    began = time.perf_counter()
    report = evaluate(
        sample.model,
        sample.images,
        sample.labels,
        entry.attack,
        entry.noise,
        starts=sample.pool,
        votes=entry.votes,
        iterations=iterations,
        seed=seed,
        image_ids=sample.image_ids,
        hooks=Hooks(on_progress=on_progress, on_queries=on_queries),
    )
    seconds = time.perf_counter() - began
    if Status.INTERRUPTED in report.status:
        raise KeyboardInterrupt
    reached = sample.model.labels(torch.from_numpy(report.points)).numpy()
    return Outcome(entry, report, report.border_trace(), reached, seconds)


def row_of(outcome: Outcome) -> Row:
    """An outcome in numbers."""
    report, verdict = outcome.report, _verdict(outcome)
    return Row(
        outcome.entry.attack_name if outcome.entry.noise == NOISE else outcome.entry.name,
        summarise(report.distances),
        summarise(outcome.border_trace[-1]),
        float(np.median(report.attack_queries)),
        float(np.median(verdict.probability.numpy())),
        int((verdict.low > 0.5).sum()),
        len(report.status),
        outcome.seconds,
    )


def _verdict(outcome: Outcome) -> Any:
    verdict = outcome.report.verdict
    if verdict is None:
        raise InputError("the demonstration needs a verdict on each point: evaluate with verdict > 0.")
    return verdict


def curve_of(outcome: Outcome, places: int = 200) -> Curve:
    """The border distance that each image had reached after equally many queries, summed up over the images."""
    return curve_over_queries(outcome.report.trace.queries.numpy(), outcome.border_trace, places)
