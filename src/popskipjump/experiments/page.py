"""A self-contained HTML page about runs: no network, no script, no other file."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from popskipjump.errors import InputError
from popskipjump.experiments.charts import CurveChart, SigmoidChart, curve_chart, log_ticks, sigmoid_chart
from popskipjump.experiments.pictures import changed_most, difference, gain_of, picture
from popskipjump.metrics import Summary, curve_over_queries, summarise
from popskipjump.runs.data import RunData
from popskipjump.space import Space
from popskipjump.types import Status

ROWS = 30  # images shown of each run, unless another number is asked for
_NOT_ATTACKED = (Status.MISCLASSIFIED, Status.BAD_LABEL)


class Phase(NamedTuple):
    """Queries of one phase."""

    name: str
    queries: str
    percent: float  # of all


class ImageView(NamedTuple):
    """One row of a run's table."""

    image: int
    label: int
    reached: str  # "7 → 9"
    target: int | None
    status: str
    meaning: str
    message: str | None
    original: str | None  # data URI
    point: str | None
    change: str | None
    gain: str
    distance: str
    border: str
    queries: str
    phases: str
    verdict: str
    confirmed: bool
    changed: list[str]  # for inputs that are no pictures
    sigmoid: SigmoidChart | None


class RunView(NamedTuple):
    """What the page says of one run."""

    number: int
    name: str
    words: str
    digest: str
    images: int
    confirmed: int
    attacked: int
    made: str  # when, and on what
    states: list[tuple[str, int, str]]  # name, count, meaning
    distance: str
    border: str
    queries: str
    verdict: str
    seconds: str
    accuracy: list[tuple[str, str]]  # size of the change, share of all images that withstood it
    phases: list[Phase]
    rows: list[ImageView]
    has_pictures: bool  # or else the features that changed are named
    fits_sigmoids: bool
    keeps_answers: bool  # those that a sigmoid was fitted to
    spec: str
    versions: list[tuple[str, str]]  # when, what


def render(runs: Sequence[RunData], rows: int = ROWS) -> str:
    """The page of some runs, with the first `rows` images of each."""
    if not runs:
        raise InputError("a page needs one run at least.")
    if len({run.spec.norm for run in runs}) > 1:
        raise InputError("runs in L2 and in L-infinity have no common axis: make a page for each norm.")
    names = _names(runs)
    environment = Environment(
        loader=PackageLoader("popskipjump.experiments", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    views = [_view(number, name, run, rows) for number, (name, run) in enumerate(zip(names, runs, strict=True))]
    what = "distance of the points" if _no_border(runs) else "border distance"
    norm = {"l2": "ℓ₂", "linf": "ℓ∞"}[runs[0].spec.norm]
    template = environment.get_template("report.html")
    return template.render(runs=views, chart=_chart(runs), measure=f"{what} ({norm})", norm=norm)


def _names(runs: Sequence[RunData]) -> list[str]:
    """Short names where these tell the runs apart, long ones where not."""
    short = [f"{run.spec.attack_words}, noise {run.spec.noise or 'none'}" for run in runs]
    return short if len(set(short)) == len(short) else [f"{run.spec.words} ({run.spec.digest[:6]})" for run in runs]


def _no_border(runs: Sequence[RunData]) -> bool:
    return any(bool(np.isnan(run.trace_border).any()) for run in runs)


def _attacked(run: RunData) -> np.ndarray:
    """Images that there was something to do about: bool `(B,)`."""
    return np.array([status not in _NOT_ATTACKED for status in run.status], dtype=bool)


def _chart(runs: Sequence[RunData]) -> CurveChart | None:
    curves = []
    for run in runs:
        chosen = _attacked(run)
        if chosen.any():
            values = run.trace_distance if _no_border(runs) else run.trace_border
            curves.append(curve_over_queries(run.trace_queries[:, chosen], values[:, chosen], places=120))
    return curve_chart(curves) if len(curves) == len(runs) else None


def _view(number: int, name: str, run: RunData, rows: int) -> RunView:
    chosen = _attacked(run)
    total = max(int(run.queries.sum()), 1)
    counts = Counter(run.status)
    sure = int((run.verdict_low[chosen] > 0.5).sum())
    judged = run.verdict_probability[chosen & (run.verdict_queries > 0)]
    space = None if run.spec.space is None else Space.from_json(run.spec.space)
    return RunView(
        number=number,
        name=name,
        words=run.spec.words,
        digest=run.spec.digest,
        images=len(run.status),
        confirmed=sum(status.ended_well for status in run.status),
        attacked=int(chosen.sum()),
        made=_made(run),
        states=[(status.name, count, status.value) for status, count in counts.most_common()],
        distance=_summary(run.distances[chosen]),
        border=_summary(run.border_distances[chosen]),
        queries=_summary(run.attack_queries[chosen], ",.0f"),
        verdict=f"{np.median(judged):.2f}; sure for {sure} of {int(chosen.sum())}" if len(judged) else "not asked",
        seconds=f"{run.seconds.sum():,.0f} s",
        accuracy=accuracy_rows(run),
        phases=[
            Phase(phase, f"{int(count.sum()):,}", round(100 * float(count.sum()) / total, 1))
            for phase, count in sorted(run.queries_by_phase.items(), key=lambda item: -int(item[1].sum()))
        ],
        rows=[_image(run, row, space) for row in range(min(rows, len(run.status)))],
        has_pictures=picture(run.originals[0]) is not None,
        fits_sigmoids=bool(np.isfinite(run.trace_sigmoid["centre"]).any()),
        keeps_answers=run.probe_asked.shape[1] > 0,
        spec=json.dumps(run.spec.model_dump(mode="json"), indent=2, ensure_ascii=False),
        versions=[(when, ", ".join(f"{k} {v}" for k, v in what.items())) for when, what in run.versions],
    )


def _image(run: RunData, row: int, space: Space | None) -> ImageView:
    low, high = run.spec.bounds
    original, point = ((values[row] - low) / (high - low) for values in (run.originals, run.points))
    change = point - original
    gain = gain_of(change)
    status = run.status[row]
    return ImageView(
        image=int(run.image_ids[row]),
        label=int(run.labels[row]),
        reached=_reached(run, row),
        target=None if run.targets is None else int(run.targets[row]),
        status=status.name,
        meaning=status.value,
        message=run.messages.get(int(run.image_ids[row])),
        original=picture(original),
        point=picture(point),
        change=difference(change, gain),
        gain=f"{gain:g}",
        distance=_number(run.distances[row]),
        border=_number(run.border_distances[row]),
        queries=f"{run.queries[row]:,}",
        phases=", ".join(f"{name} {count[row]:,}" for name, count in run.queries_by_phase.items() if count[row]),
        verdict=_verdict(run, row),
        confirmed=status.ended_well or status is Status.MISCLASSIFIED,
        changed=changed_most(run.originals[row], run.points[row], space),
        sigmoid=_sigmoid(run, row),
    )


def _reached(run: RunData, row: int) -> str:
    reached = -1 if run.adversarial_labels is None else int(run.adversarial_labels[row])
    return f"{int(run.labels[row])} → {reached if reached >= 0 else '?'}"


def accuracy_rows(run: RunData) -> list[tuple[str, str]]:
    """Robust accuracy at round sizes of the change: an image falls at the distance of its confirmed point."""
    right = np.array([status is not Status.MISCLASSIFIED for status in run.status])
    confirmed = np.array([status.ended_well for status in run.status])
    falls = np.where(confirmed, run.distances, np.inf)
    found = falls[right & np.isfinite(falls)]
    if not len(found) or found.min() <= 0:
        return []
    sizes = [0.0, *log_ticks(float(found.min()) / 2, float(found.max()) * 1.5)]
    return [(f"{size:g}", f"{float((right & (falls > size)).mean()):.0%}") for size in sizes]


def _made(run: RunData) -> str:
    """When the run was last worked on, and with what."""
    if not run.versions:
        return ""
    when, what = run.versions[-1]
    when = f"{when[:16].replace('T', ' ')} UTC" if when.endswith("+00:00") else when
    return f"{when}, " + ", ".join(f"{name} {version}" for name, version in what.items())


def _sigmoid(run: RunData, row: int) -> SigmoidChart | None:
    centre, slope, low, high = (float(run.trace_sigmoid[name][-1, row]) for name in ("centre", "slope", "low", "high"))
    return sigmoid_chart(centre, slope, low, high, run.probe_asked[row], run.probe_adversarial[row])


def _verdict(run: RunData, row: int) -> str:
    if not run.verdict_queries[row]:
        return "not asked"
    p, low, high = (values[row] for values in (run.verdict_probability, run.verdict_low, run.verdict_high))
    return f"{p:.2f} [{low:.2f}, {high:.2f}]"


def _summary(values: np.ndarray, form: str = ".3f") -> str:
    """Median and percentiles for people."""
    if not len(values) or bool(np.isnan(values).any()):
        return "–"
    summary: Summary = summarise(values)
    median, low, high = (_number(v, form) for v in (summary.median, summary.low, summary.high))
    return f"{median} [{low}, {high}]"


def _number(value: float, form: str = ".3f") -> str:
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else format(value, form)
