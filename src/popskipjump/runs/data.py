"""The results of a run as arrays, read from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from popskipjump import Status
from popskipjump.errors import DamagedRunError, InputError
from popskipjump.storage import RunFolder, RunSpec

_SIGMOID = ("centre", "slope", "low", "high", "gap")


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
    adversarial_labels: np.ndarray | None = None  # (B,) int64, -1 where not known; None in runs of older versions
    free: np.ndarray | None = None  # (B,) int64, features that may change; None without a space
    sigmoid: np.ndarray | None = None  # (B, 4) float64: centre, log10 slope, noise at both ends, of the last lines

    @property
    def attack_queries(self) -> np.ndarray:
        """Queries without those of the verdict: `(B,)`."""
        return self.queries - self.queries_by_phase.get("verdict", 0)


def load(folder: Path) -> RunData:
    """All finished images of a run, by id, without asking anything and without the model."""
    with RunFolder.reading(Path(folder)) as run:
        finished = run.finished()
        if not finished:
            raise InputError(f"no image of the run in {folder} is finished yet: go on with `psj resume {folder}`.")
        return data_of(run, finished)


def data_of(folder: RunFolder, images: list[int]) -> RunData:
    """The results of some finished images as arrays."""
    results = folder.results(images)
    phases = list(dict.fromkeys(phase for result in results for phase in result.phases))

    def stacked(name: str) -> np.ndarray:
        try:
            return np.stack(_even([result.arrays[name] for result in results], longest=name.startswith("trace_")))
        except (KeyError, ValueError) as error:
            raise DamagedRunError(f"the arrays {name} in {folder.path} are missing or do not fit together.") from error

    def numbers(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=np.float64)

    def whole(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    probed = all("probe_asked" in result.arrays for result in results)
    asked = stacked("probe_asked") if probed else np.zeros((len(results), 0), dtype=np.int64)
    targets = [result.target for result in results if result.target is not None]
    sigmoid = all("sigmoid" in result.arrays for result in results)
    spaced = all("free" in result.arrays for result in results)
    labelled = all("adversarial_label" in result.arrays for result in results)
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
        adversarial_labels=stacked("adversarial_label") if labelled else None,
        free=stacked("free") if spaced else None,
        sigmoid=stacked("sigmoid") if sigmoid else None,
    )


def _even(arrays: list[np.ndarray], *, longest: bool) -> list[np.ndarray]:
    """Traces of one length: groups that a budget ended may differ, and an image keeps its last values."""
    if not longest:
        return arrays
    most = max(map(len, arrays))
    return [np.concatenate((a, np.repeat(a[-1:], most - len(a), axis=0))) if len(a) < most else a for a in arrays]
