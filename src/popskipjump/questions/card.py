"""A robustness card: one page on some runs, for a model card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from popskipjump.errors import DataError, InputError
from popskipjump.questions.answer import Chart, Line, Page, Table, in_words
from popskipjump.questions.certify import digests_of
from popskipjump.questions.curve import RobustAccuracy, curve_of
from popskipjump.questions.intervals import Interval, proportion
from popskipjump.runs.collect import load
from popskipjump.runs.data import RunData


class Entry(NamedTuple):
    """What one run says."""

    words: str
    digest: str
    data: str
    weights: str
    images: int
    queries: int
    median: Interval
    at: tuple[tuple[float, Interval], ...]  # eta, robust accuracy
    verified: Interval  # share of points with a point whose fresh answers are adversarial by majority, with confidence
    status: dict[str, int]
    versions: list[tuple[str, dict[str, str]]]


@dataclass(frozen=True, eq=False)
class Card:
    """A page on some runs; `certified` is the content of a `certify.json`, if there is one."""

    entries: tuple[Entry, ...]
    curves: tuple[RobustAccuracy, ...]
    certified: dict[str, Any] | None
    norm: str

    name = "card"

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        return in_words(self.page())


def card(
    runs: Sequence[RunData | Path | str], eta: Sequence[float] = (), certified: dict[str, Any] | None = None
) -> Card:
    """Make a card of some runs on the same images and norm.

    Args:
        runs: folders of runs, or what `runs.collect.load` makes of them; their finished images count.
        eta: sizes of an attack to report on.
        certified: the answer in a `certify.json`; see `read_certificates`.
    """
    if not runs:
        raise InputError("a card needs one run at least.")
    return _card([run if isinstance(run, RunData) else load(Path(run)) for run in runs], eta, certified)


def _card(runs: list[RunData], eta: Sequence[float], certified: dict[str, Any] | None) -> Card:
    for what, values in (
        ("norms", {r.spec.norm for r in runs}),
        ("data sets", {(r.spec.dataset, r.spec.data) for r in runs}),
    ):
        if len(values) > 1:
            raise InputError(f"the runs have different {what}: make a card for each.")
    if certified is not None and "digests" in certified:
        there = {digest for run in runs for digest in digests_of(run.originals)}
        if not there & set(certified["digests"]):
            raise InputError("the certificates are of other images than the runs: certify images of these runs.")
    curves = tuple(curve_of(run, eta) for run in runs)
    return Card(tuple(_entry(*pair) for pair in zip(runs, curves, strict=True)), curves, certified, runs[0].spec.norm)


def read_certificates(path: Path) -> dict[str, Any]:
    """The answer in a `certify.json`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        answer = content["answer"] if content["question"] == "certify" else None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is no file of `psj certify` ({error}).") from error
    if not isinstance(answer, dict) or not {"radius", "sigma", "confidence", "prediction", "labels"} <= answer.keys():
        raise DataError(f"{path} is no file of `psj certify`.")
    return answer


def _entry(run: RunData, curve: RobustAccuracy) -> Entry:
    judged = run.verdict_queries > 0
    sure = int((run.verdict_low[judged] > 0.5).sum())
    return Entry(
        words=run.spec.words,
        digest=run.spec.digest,
        data=run.spec.data,
        weights=run.spec.weights,
        images=len(run.status),
        queries=int(run.queries.sum()),
        median=curve.median,
        at=tuple(zip(curve.asked, curve.at, strict=True)),
        verified=proportion(sure, int(judged.sum())),
        status=dict(Counter(status.name for status in run.status)),
        versions=run.versions,
    )


def _page(answer: Card) -> Page:
    lines = tuple(
        Line(entry.words, curve.etas, curve.accuracy, curve.low, curve.high, steps=True)
        for entry, curve in zip(answer.entries, answer.curves, strict=True)
    )
    best = min(answer.entries, key=lambda entry: entry.median.value)
    rows = tuple(
        (entry.words, f"{entry.images:,}", f"{entry.queries:,}", str(entry.median),
         "; ".join(f"{eta:g}: {at}" for eta, at in entry.at) or "–", str(entry.verified),
         ", ".join(f"{count} {name}" for name, count in entry.status.items()))
        for entry in answer.entries
    )  # fmt: skip
    origin = tuple((entry.digest, entry.data, entry.weights, _versions(entry)) for entry in answer.entries)
    head = (
        "run",
        "images",
        "queries",
        f"median {answer.norm} distance",
        "robust accuracy at eta",
        "verified points",
        "ended",
    )
    return Page(
        title="Robustness card",
        headline=f"Median {answer.norm} distance {best.median} (95% confidence), by the strongest of these attacks.",
        good=None,
        words=(
            f"Labels alone were asked: {sum(e.queries for e in answer.entries):,} queries in all.",
            *_certified(answer),
        ),
        charts=(Chart("Robust accuracy, with 95% bands", f"eta ({answer.norm})", "robust accuracy", lines),),
        tables=(Table("Runs", head, rows), Table("Origin", ("run", "images", "weights", "versions"), origin)),
        limits=(
            "Distances are upper bounds: a stronger attack, or one with more queries, may find nearer points.",
            "Only these images, this norm and attacks on labels were measured; white-box attacks and other kinds of "
            "change (rotation, patches, corruption) were not.",
            "A point is called verified where fresh answers are adversarial for the most part, with 95% confidence.",
        ),
    )


def _versions(entry: Entry) -> str:
    return ", ".join(f"{name} {version}" for _, found in entry.versions[-1:] for name, version in found.items())


def _certified(answer: Card) -> tuple[str, ...]:
    if answer.certified is None:
        return ("Nothing was certified.",)
    radius = np.array(answer.certified["radius"], dtype=np.float64)
    right = np.array(answer.certified["prediction"]) == np.array(answer.certified["labels"])
    middle = float(np.median(np.where(right, radius, 0.0)))
    whose = "of the classifier itself, as declared" if answer.certified.get("declared") else "added for the certificate"
    return (
        f"Certified: median L2 radius {middle:.3g} under Gaussian noise of sigma {answer.certified['sigma']:g} "
        f"({whose}), for {len(radius)} images together with {100 * answer.certified['confidence']:g}% confidence.",
    )
