"""`gate`: pass or fail in continuous integration; a committed file names a measurement and its limits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from popskipjump.errors import DataError, InputError
from popskipjump.questions.answer import Chart, Line, Page, Table, in_words
from popskipjump.questions.curve import NOT_MEASURED, robust_accuracy
from popskipjump.questions.gate_spec import GateSpec, read_gate
from popskipjump.questions.intervals import Interval, bootstrap, median_interval, proportion
from popskipjump.rng import Key
from popskipjump.runs.collect import RunProgress, collect, load
from popskipjump.runs.data import RunData
from popskipjump.storage.files import write_whole

BASELINE_SCHEMA = 1
PASS, WORSE, UNDECIDED = 0, 1, 3  # exit codes; 2 is wrong input
OUTCOMES = {PASS: "pass", WORSE: "worse", UNDECIDED: "undecided: more images are needed"}


class Judged(NamedTuple):
    """One limit, and what was measured."""

    limit: str
    at_least: float
    measured: Interval
    code: int  # a key of `OUTCOMES`


class Baseline(NamedTuple):
    """What an earlier run measured."""

    dataset: str
    data: str  # digest
    norm: str
    words: str
    image_ids: np.ndarray  # (B,)
    distances: np.ndarray  # (B,)


@dataclass(frozen=True, eq=False)
class GateResult:
    """What a gate decided."""

    code: int  # exit code: 0 pass, 1 worse, 3 undecided
    outcome: str
    limits: tuple[Judged, ...]
    confidence: float
    run: str  # folder
    words: str
    image_ids: np.ndarray  # (B,)
    distances: np.ndarray  # (B,)
    queries: int
    norm: str
    unmeasured: int  # images that the classifier failed on, or that the budget did not suffice for

    name = "gate"

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        return in_words(self.page())


def gate(
    path: Path,
    root: Path,
    *,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> GateResult:
    """Measure what a gate's file names, and judge it by the file's limits.

    Args:
        path: the file; see `gate_spec`.
        root: folder of runs: what was measured before is not asked again, and an interrupted gate goes on.
        on_queries: see `collect`.
        on_progress: see `collect`.

    Raises:
        InputError: the file, its source or its baseline cannot be used.
    """
    spec = read_gate(path)
    folder = Path(path).resolve().parent
    source = spec.source_from(folder)
    wanted, run = spec.image_ids(source), spec.run_spec(source)
    baseline = None if spec.baseline is None else read_baseline(folder / spec.baseline.file)
    if baseline is not None:  # before the first query
        _check_baseline(baseline, source.dataset, source.data, run.norm, wanted)
    data = collect(run, wanted, root, source=source, on_queries=on_queries, on_progress=on_progress)
    return judge(spec, data, baseline)


def judge(spec: GateSpec, data: RunData, baseline: Baseline | None = None) -> GateResult:
    """Judge a run that is there."""
    limits, level, far = spec.limits, spec.limits.confidence, data.distances
    # What was not measured may be anything: it counts as 0 below and as infinite above.
    unknown = np.array([status in NOT_MEASURED for status in data.status])
    least, most = np.where(unknown, 0.0, far), np.where(unknown, math.inf, far)
    judged = []
    if limits.median_distance is not None:
        medians = [median_interval(values, level) for values in (far, least, most)]
        judged.append(_judged("median distance", limits.median_distance, _spanned(*medians)))
    for limit in limits.robust_accuracy:
        shares = [proportion(int((v > limit.eta).sum()), len(v), level) for v in (far, least, most)]
        judged.append(_judged(f"robust accuracy at {limit.eta:g}", limit.at_least, _spanned(*shares)))
    if limits.median_over_baseline is not None and baseline is not None:
        before = dict(zip(baseline.image_ids.tolist(), baseline.distances.tolist(), strict=True))
        old = np.array([before[image] for image in data.image_ids.tolist()])
        key = Key(data.spec.seed).child("gate")
        ratios = [bootstrap(_ratios(values, old), _medians, key, level) for values in (far, least, most)]
        judged.append(_judged("median distance over the baseline's", limits.median_over_baseline, _spanned(*ratios)))
    codes = {item.code for item in judged}
    code = WORSE if WORSE in codes else UNDECIDED if UNDECIDED in codes else PASS
    return GateResult(
        code, OUTCOMES[code], tuple(judged), level, str(data.folder), data.spec.words, data.image_ids, far,
        int(data.queries.sum()), data.spec.norm, int(unknown.sum()),
    )  # fmt: skip


def _spanned(value: Interval, least: Interval, most: Interval) -> Interval:
    """One interval of three: of the values, and with unmeasured ones at either end."""
    return Interval(value.value, least.low, most.high)


def _judged(name: str, at_least: float, measured: Interval) -> Judged:
    """A limit is kept if the whole interval keeps it, and broken if the whole interval breaks it."""
    code = PASS if measured.low >= at_least else WORSE if measured.high < at_least else UNDECIDED
    return Judged(name, at_least, measured, code)


def _ratios(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Paired ratios; equal ones, 0 and infinity included, are 1."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(new == old, 1.0, new / old)


def _medians(samples: np.ndarray) -> np.ndarray:
    """Lower medians of rows `(R, B)`: a value that was measured, also between 1 and infinity."""
    return np.asarray(np.sort(samples, axis=1)[:, (samples.shape[1] - 1) // 2])


def _check_baseline(baseline: Baseline, dataset: str, data: str, norm: str, wanted: list[int]) -> None:
    for what, there, here in (
        ("data set", baseline.dataset, dataset),
        ("images", baseline.data, data),
        ("norm", baseline.norm, norm),
    ):
        if there != here:
            raise InputError(
                f"the baseline was measured on other {what} ({there!r}, and the gate has {here!r}), so ratios would "
                "mean nothing: make a new one with --write-baseline."
            )
    missing = sorted(set(wanted) - set(baseline.image_ids.tolist()))
    if missing:
        raise InputError(
            f"the baseline lacks {len(missing)} of the {len(wanted)} images (such as {missing[0]}): ask for fewer "
            "`images`, or make a new one with --write-baseline."
        )


def baseline_of(data: RunData) -> Baseline:
    """A run as a baseline."""
    spec = data.spec
    return Baseline(spec.dataset, spec.data, spec.norm, spec.words, data.image_ids, data.distances)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline: a JSON file of `write_baseline`, or the folder of a run."""
    if path.is_dir():
        return baseline_of(load(path))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != BASELINE_SCHEMA:
            raise DataError(f"the baseline {path} is of version {content['schema']!r}, not {BASELINE_SCHEMA}.")
        far = np.array([math.inf if d is None else float(d) for d in content["distances"]])
        ids = np.array(content["image_ids"], dtype=np.int64)
        words = [str(content[name]) for name in ("dataset", "data", "norm", "words")]
    except OSError as error:
        raise InputError(
            f"the baseline {path} cannot be read ({error.strerror}): make one with --write-baseline."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is no baseline of `psj gate --write-baseline` ({error}).") from error
    if ids.shape != far.shape or ids.ndim != 1:
        raise DataError(f"{path} has {ids.size} images and {far.size} distances: it is damaged.")
    return Baseline(words[0], words[1], words[2], words[3], ids, far)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline as JSON, to be committed beside the gate's file; what is infinite is null."""
    content: dict[str, Any] = {"schema": BASELINE_SCHEMA, **baseline._asdict()}
    content["image_ids"] = baseline.image_ids.tolist()
    content["distances"] = [d if math.isfinite(d) else None for d in baseline.distances.tolist()]
    write_whole(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode("utf-8"))


def _left_open(count: int, run: str) -> tuple[str]:
    return (f"{count} images could not be measured: they count as 0 below and as infinite above. See {run}.",)


def _page(answer: GateResult) -> Page:
    rows = tuple(
        (item.limit, f"at least {item.at_least:g}", str(item.measured), OUTCOMES[item.code]) for item in answer.limits
    )
    curve = robust_accuracy(answer.distances, confidence=answer.confidence, norm=answer.norm)
    line = Line("measured", curve.etas, curve.accuracy, curve.low, curve.high, steps=True)
    return Page(
        title="Robustness gate",
        headline=f"{answer.outcome.capitalize()}.",
        good={PASS: True, WORSE: False}.get(answer.code),
        words=(
            *(f"{row[0]}: {row[2]}, limit {row[1]}: {row[3]}." for row in rows),
            f"{len(answer.distances)} images, {answer.queries:,} queries; {answer.words}; intervals at "
            f"{100 * answer.confidence:g}% for each limit.",
            *(_left_open(answer.unmeasured, answer.run) if answer.unmeasured else ()),
        ),
        charts=(Chart("Robust accuracy, with its band", f"eta ({answer.norm})", "robust accuracy", (line,)),),
        tables=(Table("Limits", ("limit", "required", "measured", "outcome"), rows),),
        limits=("Distances are upper bounds by one attack: a pass does not prove that no nearer point exists.",),
    )
