"""Runs that are collected once: what a run's folder holds is read, what is missing is asked."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from popskipjump import Pool, Report, Status, __version__, evaluate
from popskipjump.attacks import Progress
from popskipjump.errors import InputError, NotARunError, OracleError
from popskipjump.experiments.source import Place, Source, source_of
from popskipjump.oracles import Oracle
from popskipjump.oracles.base import is_whole
from popskipjump.storage import ImageResult, Journalled, RunFolder, RunSpec

__all__ = [
    "Place",
    "RunData",
    "RunProgress",
    "Source",
    "collect",
    "load",
    "resume",
    "source_at",
    "source_of",
]

GROUP = 50  # images attacked together: enough for large batches, few enough to finish now and then
_TRACE_BYTES = 256 << 20  # what the points of one group's trace may take
_TRACE = ("distance", "queries", "centre", "slope", "low", "high", "gap")
_SIGMOID = ("centre", "slope", "low", "high", "gap")


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
    versions: list[tuple[str, dict[str, str]]]  # when each process began that finished an image, and its versions

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
    source = source_of() if source is None else source
    source.check(spec)
    wanted = _checked(images, len(source.images))
    if (found := _found(Path(root) / spec.digest, spec, wanted)) is not None:
        return found
    with RunFolder.working(Path(root), spec) as folder:
        folder.begin(wanted, source.place._asdict(), versions())
        finished = set(folder.finished())
        missing = [image for image in wanted if image not in finished]
        size = _group_size(spec, source.images[0].size)
        for first in range(0, len(missing), size):
            group = missing[first : first + size]
            tell = _Teller(on_progress, len(wanted), len(missing), first, len(group))
            _attack(folder, group, source, on_queries, tell.iteration)
            tell.finished()
        return _data(folder, wanted)


def resume(
    folder: Path,
    *,
    source: Source | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> RunData:
    """Go on with a run until every image that was ever asked for is finished.

    Args:
        folder: of the run.
        source: what is attacked; None reads it from where it was (`source_at`).
        on_queries: see `collect`.
        on_progress: see `collect`.

    Raises:
        InputError: see `collect`; also if the folder no longer bears the name of its run.
        StorageError: see `collect`.
    """
    folder = Path(folder).resolve()
    with RunFolder.reading(folder) as run:
        spec, asked = run.spec, run.asked()
    if folder.name != spec.digest:
        raise InputError(f"{folder} was renamed: give the folder the name of its run, {spec.digest}, to go on with it.")
    source = source_at(folder) if source is None else source
    return collect(spec, asked, folder.parent, source=source, on_queries=on_queries, on_progress=on_progress)


def source_at(folder: Path) -> Source:
    """The source of a run, read from where it was when the run was last worked on.

    A model from a Python file is not read in this way, as the file would be run: make its source with `source_of`.
    """
    with RunFolder.reading(Path(folder)) as run:
        place, model = run.place(), run.spec.model
    if ":" in model:
        raise InputError(f"the model of this run comes from a Python file ({model}): pass --model with its path.")
    return source_of(run.spec.dataset, place.get("data"), model, place.get("weights"))


def load(folder: Path) -> RunData:
    """All finished images of a run, by id, without asking anything and without the model."""
    with RunFolder.reading(Path(folder)) as run:
        finished = run.finished()
        if not finished:
            raise InputError(f"no image of the run in {folder} is finished yet: go on with `psj resume {folder}`.")
        return _data(run, finished)


def _found(path: Path, spec: RunSpec, images: list[int]) -> RunData | None:
    """The images, if all are finished; nothing is locked, so another process may be at work on others."""
    try:
        with RunFolder.reading(path) as folder:
            complete = folder.spec == spec and set(images) <= set(folder.finished())
            return _data(folder, images) if complete else None
    except NotARunError:  # not begun yet, or not a run: whoever opens it for writing finds out
        return None


def versions() -> dict[str, str]:
    """Of what the results may depend on."""
    return {
        "popskipjump": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def _checked(images: Sequence[int], count: int) -> list[int]:
    """Ids as plain numbers, each once and all of them in the source."""
    bad = next((image for image in images if not is_whole(image) or not 0 <= image < count), None)
    if bad is not None:
        raise InputError(f"image {bad!r} is not one of the {count} images, counted from 0.")
    wanted = [int(image) for image in images]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError("images must be some places in the data, each named once.")
    return wanted


def _group_size(spec: RunSpec, values: int) -> int:
    """How many images to attack at once; results do not depend on it."""
    return max(1, min(GROUP, _TRACE_BYTES // (4 * values * (spec.iterations + 1))))


class _Teller:
    """From the iterations of one group to the progress of them all."""

    def __init__(
        self, on_progress: Callable[[RunProgress], None] | None, images: int, missing: int, before: int, size: int
    ) -> None:
        self._on_progress, self._images, self._missing = on_progress, images, missing
        self._before, self._size = before, size  # missing images that are done, and those of this group

    def iteration(self, now: Progress) -> None:
        """After an iteration; iteration t asks about sqrt(t) queries, so t of them are about t^1.5 of the work."""
        self._tell(self._before, self._size * (now.iteration / max(now.iterations, 1)) ** 1.5)

    def finished(self) -> None:
        """After the group."""
        self._tell(self._before + self._size, 0.0)

    def _tell(self, done: int, more: float) -> None:
        if self._on_progress is not None:
            found = self._images - self._missing
            self._on_progress(RunProgress(found + done, self._images, (done + more) / self._missing))


def _attack(
    folder: RunFolder,
    group: list[int],
    source: Source,
    on_queries: Callable[[int], None] | None,
    on_iteration: Callable[[Progress], None],
) -> None:
    """Attack a group of images, from where the journal ends, and keep the results."""
    spec, chosen = folder.spec, np.array(group)
    labels = source.labels[chosen]
    journalled: list[Journalled] = []

    def wrap(oracle: Oracle) -> Oracle:
        journalled.append(folder.journalled(oracle, group, on_queries))
        return journalled[0]

    try:
        report = evaluate(
            source.model,
            source.images[chosen],
            labels,
            spec.attack.config(spec.iterations),
            spec.noise,
            spec.norm,
            None if spec.targets is None else (labels + 1) % source.classes,
            Pool(torch.from_numpy(source.images), torch.from_numpy(source.labels)) if spec.starts == "pool" else None,
            spec.votes,
            None,
            spec.budget,
            seed=spec.seed,
            verdict=spec.verdict,
            image_ids=chosen,
            keep_interrupted=False,
            wrap_oracle=wrap,
            on_progress=on_iteration,
        )
    except OracleError:
        folder.forget_last_failures()
        raise
    folder.finish(_results(report, group, journalled[0].seconds))


def _results(report: Report, group: list[int], seconds: float) -> list[ImageResult]:
    """What is kept of a report, image by image."""
    border, border_trace = _borders(report)
    share = report.queries / max(int(report.queries.sum()), 1)
    results = []
    for row, image in enumerate(group):
        verdict = (np.nan, 0.0, 1.0, 0)
        if report.verdict is not None:
            probability, low, high, asked = (value[row].item() for value in report.verdict)
            verdict = (probability, low, high, int(asked))
        arrays = {f"trace_{name}": getattr(report.trace, name)[:, row].numpy() for name in _TRACE}
        if report.probes is not None:
            arrays |= {"probe_asked": report.probes.asked[row], "probe_adversarial": report.probes.adversarial[row]}
        arrays |= {"original": report.images[row], "point": report.points[row], "trace_border": border_trace[:, row]}
        results.append(
            ImageResult(
                image=image,
                label=int(report.labels[row]),
                target=None if report.targets is None else int(report.targets[row]),
                status=report.status[row].name,
                message=report.messages.get(row),
                distance=float(report.distances[row]),
                border_distance=float(border[row]),
                queries=int(report.queries[row]),
                phases={phase: int(count[row]) for phase, count in report.queries_by_phase.items() if count[row]},
                seconds=float(seconds * share[row]),
                verdict=verdict,
                arrays=arrays,
            )
        )
    return results


def _borders(report: Report) -> tuple[np.ndarray, np.ndarray]:
    """Border distances `(B,)`, and after every iteration `(T + 1, B)`; nan without a white box."""
    if report.border_distances is None:
        return np.full(len(report.status), np.nan), np.full(tuple(report.trace.distance.shape), np.nan)
    trace = report.border_trace()
    for row, status in enumerate(report.status):  # as in `Report.border_distances`
        if status is Status.MISCLASSIFIED:
            trace[:, row] = 0.0
        elif not status.has_point:
            trace[:, row] = np.inf
    return report.border_distances, trace


def _data(folder: RunFolder, images: list[int]) -> RunData:
    """The results of some finished images as arrays."""
    results = folder.results(images)
    phases = sorted({phase for result in results for phase in result.phases})

    def stacked(name: str) -> np.ndarray:
        return np.stack([result.arrays[name] for result in results])

    def numbers(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=np.float64)

    def whole(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    probed = all("probe_asked" in result.arrays for result in results)
    asked = stacked("probe_asked") if probed else np.zeros((len(results), 0), dtype=np.int64)
    targets = [result.target for result in results if result.target is not None]
    verdict = [numbers([result.verdict[part] for result in results]) for part in range(3)]
    return RunData(
        spec=folder.spec,
        folder=folder.path,
        image_ids=whole(images),
        labels=whole([result.label for result in results]),
        targets=whole(targets) if targets else None,
        status=[Status[result.status] for result in results],
        originals=stacked("original"),
        points=stacked("point"),
        distances=numbers([result.distance for result in results]),
        border_distances=numbers([result.border_distance for result in results]),
        queries=whole([result.queries for result in results]),
        queries_by_phase={phase: whole([result.phases.get(phase, 0) for result in results]) for phase in phases},
        seconds=numbers([result.seconds for result in results]),
        verdict_probability=verdict[0],
        verdict_low=verdict[1],
        verdict_high=verdict[2],
        verdict_queries=whole([result.verdict[3] for result in results]),
        messages={result.image: result.message for result in results if result.message is not None},
        trace_distance=stacked("trace_distance").T,
        trace_border=stacked("trace_border").T,
        trace_queries=stacked("trace_queries").T,
        trace_sigmoid={name: stacked(f"trace_{name}").T for name in _SIGMOID},
        probe_position=(np.arange(asked.shape[1]) + 0.5) / max(asked.shape[1], 1),
        probe_asked=asked,
        probe_adversarial=stacked("probe_adversarial") if probed else asked,
        versions=folder.versions(),
    )
