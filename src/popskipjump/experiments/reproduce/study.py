"""Images and runs of a reproduction; images are selected by the paper's rule."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from popskipjump import BoundaryAttack, HopSkipJump, Pool, PopSkipJump, QuickSkipJump, TorchModel, zoo
from popskipjump.errors import InputError, NotARunError
from popskipjump.experiments.reproduce.base import Ask, Experiment, Lab, Setup, Way, WhiteBoxAttack
from popskipjump.experiments.reproduce.pages import load_arrays, save_arrays
from popskipjump.experiments.reproduce.presets import Size
from popskipjump.noise import Cropping, Dropout
from popskipjump.noise.selection import correct_probability
from popskipjump.runs.collect import RunProgress, Source, collect
from popskipjump.runs.data import RunData
from popskipjump.runs.engine import Engine
from popskipjump.storage import RunFolder, RunSpec

CROP = 22  # the paper keeps images that are answered rightly with probability 0.75 under this crop
AT_LEAST = 0.75
TOGETHER = 30  # images that one call of the network takes at about the price of one
MEASURED_SCHEMA = 3  # raised when an experiment measures something else than before
RUNS, MEASURED = "runs", "measured"  # folders beside the experiments' own


@dataclass(frozen=True, eq=False)
class Study:
    """A source, the images chosen from it, and the size of it all."""

    source: Source
    setup: Setup
    image_ids: np.ndarray  # (N,) int64, places in the source, in the order of their choice
    seed: int

    def spec(self, way: Way) -> RunSpec:
        """The run of one way on this source."""
        return self.source.spec(attack=way.attack, noise=way.noise, votes=way.votes, budget=way.budget, seed=self.seed)

    def lab(self, white_box: Mapping[str, WhiteBoxAttack]) -> Lab:
        """The images and the model, for what is measured besides the runs."""
        source = self.source
        pool = Pool(torch.from_numpy(source.images), torch.from_numpy(source.labels))
        ids = self.image_ids
        return Lab(self.setup, source.model, source.images[ids], source.labels[ids], ids, pool, self.seed, white_box)

    def digest(self, experiment: Experiment) -> str:
        """A name for what an experiment measures besides its runs: equal if nothing that it follows from differs."""
        asks = experiment.plan(self.setup)
        facts = {
            "schema": MEASURED_SCHEMA,
            "experiment": experiment.name,
            "size": asdict(self.setup.size),
            "count": self.setup.count,
            "images": self.image_ids[: images_needed(experiment, self.setup)].tolist(),
            "base": self.spec(Way(PopSkipJump())).digest,
            "runs": [(self.spec(ask.way).digest, ask.images) for ask in asks],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def images_needed(experiment: Experiment, setup: Setup) -> int:
    """The most images that any part of an experiment looks at."""
    return max([ask.images for ask in experiment.plan(setup)], default=setup.images(setup.size.timed_images))


def setup_of(source: Source, size: Size, count: int | None) -> Setup:
    """The setup of a source, at some size; `count` images instead of the preset's."""
    if not isinstance(source.model, TorchModel) or source.model.output != "logits":
        raise InputError("the paper's experiments look inside the network: pass a torch module that gives logits.")
    shape = tuple(source.images.shape[1:])
    if len(shape) != 3:
        raise InputError(f"the paper's experiments are about pictures (C, H, W), not inputs of shape {shape}.")
    try:
        Dropout(0.5).check(source.model, shape)
        has_dropout = True
    except InputError:
        has_dropout = False
    return Setup(source.dataset, shape, size, has_dropout, count)


def study_of(
    source: Source, setup: Setup, experiments: Iterable[Experiment], seed: int, out: Path | None = None
) -> Study:
    """Choose as many images as the experiments need; the choice is kept in the folder `out`, if there is one."""
    most = max(images_needed(experiment, setup) for experiment in experiments)
    facts = json.dumps([source.data, source.model_name, source.weights, CROP, AT_LEAST, seed, most])
    place = None if out is None else out / MEASURED / f"images-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.npz"
    kept = None if place is None else load_arrays(place)
    ids = _chosen(source, most, seed) if kept is None else kept["image_ids"]
    if place is not None and kept is None:
        save_arrays(place, {"image_ids": ids})
    return Study(source, setup, ids, seed)


def _chosen(source: Source, most: int, seed: int) -> np.ndarray:
    """The paper's choice: in a random order, images that are answered rightly often enough when cropped."""
    advice = "choose fewer with --images, or name a larger data set with --data"
    if most > len(source.images):
        raise InputError(f"{most} images are asked for, and the data has {len(source.images)}: {advice}.")
    probability = correct_probability(Cropping(CROP), source.model)
    try:
        return zoo.select_images(probability, source.images, source.labels, most, at_least=AT_LEAST, seed=seed)
    except InputError as error:
        raise InputError(
            f"{most} images are asked for, but {error} These are the paper's rules (crops of {CROP} pixels): {advice}."
        ) from error


@dataclass(frozen=True)
class Job:
    """A run to make, for as many images as any experiment needs."""

    way: Way
    images: int
    work: float  # expected queries, weighted by their cost; for the progress bar alone


def jobs_of(experiments: Iterable[Experiment], setup: Setup) -> list[Job]:
    """All runs of some experiments, each once."""
    most: dict[Way, int] = {}
    for experiment in experiments:
        for ask in experiment.plan(setup):
            most[ask.way] = max(ask.images, most.get(ask.way, 0))
    return [Job(way, images, _rows(way, images) * expected_work(way)) for way, images in most.items()]


def _rows(way: Way, images: int) -> int:
    """How many images' time a run takes: the boundary attack asks one by one, and few images leave most of a call."""
    return max(images, TOGETHER) if isinstance(way.attack, BoundaryAttack) else images


def still_to_do(study: Study, jobs: Iterable[Job], out: Path) -> list[Job]:
    """The runs of which something is missing, with the work that is left of each."""
    left = []
    for job in jobs:
        finished = finished_images(out / RUNS / study.spec(job.way).digest)
        missing = sum(int(i) not in finished for i in study.image_ids[: job.images])
        if missing:
            left.append(replace(job, work=job.work * missing / job.images))
    return left


def finished_images(folder: Path) -> set[int]:
    """The images that a run has finished; none if it has not begun."""
    try:
        with RunFolder.reading(folder) as run:
            return set(run.finished())
    except NotARunError:  # whoever opens it for writing finds out what else it may be
        return set()


def expected_work(way: Way) -> float:
    """About how many queries an image takes, weighted by their cost relative to a noiseless one."""
    attack = way.attack
    root_sum = sum(math.sqrt(t) for t in range(1, attack.iterations + 1))
    kind = (way.noise or "none").partition(":")[0]
    if isinstance(attack, QuickSkipJump):
        asked = float(way.budget or 100 * root_sum)
    elif isinstance(attack, BoundaryAttack):
        asked = 1.1 * attack.proposals * attack.iterations
    elif isinstance(attack, HopSkipJump):
        asked = 100 * attack.count.factor * root_sum + 25 * attack.iterations
    else:
        hard = {"none": 1.0, "flip": 1.5}.get(kind, 10.0)
        directions = 0.0 if attack.true_gradient else min(100 * root_sum * hard, attack.count.limit * attack.iterations)
        asked = directions + attack.iterations * min(
            30 * hard * 5, 10 * attack.search_limit
        )  # single queries cost more
    cost = {"dropout": 4.0, "cropping": 1.5, "smoothing": 1.5}.get(kind, 1.0)
    return asked * way.votes * cost


def make(
    study: Study,
    job: Job,
    out: Path,
    on_queries: Callable[[int], None],
    on_progress: Callable[[RunProgress], None],
    engine: Engine | None = None,
) -> None:
    """Make a run, or what is missing of it; it is kept as it grows."""
    ids = [int(i) for i in study.image_ids[: job.images]]
    hooks = {"on_queries": on_queries, "on_progress": on_progress}
    collect(study.spec(job.way), ids, out / RUNS, source=study.source, engine=engine, **hooks)  # type: ignore[arg-type]


def found_runs(study: Study, experiment: Experiment, out: Path) -> dict[Way, RunData]:
    """The runs of one experiment, all of which have been made."""

    def read(ask: Ask) -> RunData:
        ids = [int(i) for i in study.image_ids[: ask.images]]
        return collect(study.spec(ask.way), ids, out / RUNS, source=study.source)

    return {ask.way: read(ask) for ask in experiment.plan(study.setup)}
