"""`check`: whether a classifier is noisy, and how, from labels within a budget, at images and near the border."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from popskipjump import Hooks
from popskipjump.errors import InputError
from popskipjump.evaluation.inputs import Array, images_of, labels_of, oracle_of
from popskipjump.noise import describe
from popskipjump.oracles import Ledger, NoiseModel
from popskipjump.oracles.base import is_whole
from popskipjump.questions.answer import Chart, Finding, Line, Marks, Page, Table, in_words
from popskipjump.questions.intervals import Interval, checked_confidence
from popskipjump.questions.probe.asking import Asker
from popskipjump.questions.probe.evidence import KINDS, Evidence, kind_of, missed_probability, weigh
from popskipjump.questions.probe.findings import findings_of
from popskipjump.questions.probe.forecast import FORECAST, Forecast, forecast
from popskipjump.questions.probe.lines import COARSE, REPEATS
from popskipjump.questions.probe.probing import AGAIN, CLEAN, FEWEST_ROUNDS, NEAR, ROUND, Probed, Prober
from popskipjump.questions.probe.trial import Trial, try_out
from popskipjump.rng import Key
from popskipjump.types import Bounds

MOST_IMAGES = 8
LEAST_BUDGET = CLEAN + NEAR + 7 + COARSE * REPEATS + AGAIN + FEWEST_ROUNDS * ROUND
_WIDEST = 2.0  # relative width of a transition beyond which nothing is known
SMALL_RATE = 0.01  # the noise whose chance of being missed is stated


@dataclass(frozen=True, eq=False)
class NoiseCheck:
    """What `check` found out about a classifier, from B images."""

    kind: str  # see `evidence.KINDS`
    title: str
    findings: tuple[Finding, ...]
    evidence: Evidence
    noise_at_images: Interval  # share of wrong answers at the images
    missed: float  # P(noise of 1% was not seen); 0 where noise was seen
    width: np.ndarray  # (B,) L2 width of the transition at the border; nan without one
    width_low: np.ndarray  # (B,) 95% interval
    width_high: np.ndarray  # (B,)
    line: tuple[np.ndarray | None, ...]  # the other end of each image's line
    border: np.ndarray  # (B,) L2 distance from the image to the border along its line
    forecasts: tuple[Forecast, ...]
    distance: float | None  # the goal of the forecasts; None: within 20% of the nearest
    trials: tuple[Trial, ...]  # runs that the forecasts were held against
    hop_skip_jump: bool  # whether HopSkipJump of Foolbox or ART can be trusted
    queries: np.ndarray  # (B,) int64
    curves: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]  # of each image: distance, answers, adversarial ones

    name = "check"

    def page(self) -> Page:
        """See `Answer`."""
        return _page(self)

    def __str__(self) -> str:
        return in_words(self.page())


def check(
    model: Any,
    images: Array,
    labels: Array | Sequence[int],
    *,
    noise: str | NoiseModel | None = None,
    budget: int = 500,
    distance: float | None = None,
    run: int = 0,
    run_attacks: Sequence[str] = ("qsj",),
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
    on_queries: Callable[[int], None] | None = None,
) -> NoiseCheck:
    """Find out how a classifier's answers vary: not at all, everywhere, near the border, in time, by input.

    Args:
        model: see `evaluate`; it is asked for labels alone.
        images: `(B, *S)`, of which the first 8 are used; two classes at least make it more exact.
        labels: `(B,)` true classes, from 0.
        noise: noise to put on the model's answers; None leaves them alone.
        budget: queries for each image at most.
        distance: L2 distance for which to predict the queries of qsj and psj; None predicts those for a distance within
            20% of the nearest that they find.
        run: queries per image, beyond `budget`, of a run that the prediction is held against; 0 for no run.
        run_attacks: what is run: "qsj", "psj" or both.
        confidence: of the intervals.
        bounds: smallest and largest value of an input coordinate.
        seed: of the points that are asked, and of `noise`.
        on_queries: called with the number of queries after every call to the classifier.

    Raises:
        InputError: something was passed that cannot be used; nothing has been asked.
        OracleError: the classifier answered nothing at all.
    """
    box = Bounds.of(bounds)
    batch = images_of(images, box)[:MOST_IMAGES]
    truth = labels_of(labels, len(images))[:MOST_IMAGES]
    if not is_whole(budget) or budget < LEAST_BUDGET:
        raise InputError(f"budget must be a whole number of at least {LEAST_BUDGET} queries per image, not {budget!r}.")
    level = checked_confidence(confidence)
    _check_run(distance, run, run_attacks)
    oracle, _ = oracle_of(model, noise, seed, tuple(batch.shape[1:]))
    asker = Asker(oracle, Ledger(len(batch), int(budget)), box, torch.arange(len(batch)), on_queries)
    prober = Prober(asker, batch, truth, Key(seed).child("check"))
    found = prober.run()
    if prober.rejected == prober.asked:
        asker.check_alive(torch.full((prober.asked,), -1))
    evidence = weigh(found, prober.rejected, prober.asked, level)
    trials = [
        try_out(
            model, noise, found, batch, truth, attack, int(run), distance, bounds, seed, Hooks(on_queries=on_queries)
        )
        for attack in (run_attacks if run else ())
    ]
    tried = tuple(trial for trial in trials if trial is not None)
    return _answer(found, evidence, asker, batch[0].numel(), f"noise {describe(noise)}", distance, tried)


def _check_run(distance: float | None, run: int, attacks: Sequence[str]) -> None:
    if distance is not None and (
        isinstance(distance, bool) or not isinstance(distance, int | float) or not 0 < distance < math.inf
    ):
        raise InputError(f"distance must be a positive number, an L2 distance, not {distance!r}.")
    if not is_whole(run) or run < 0:
        raise InputError(f"run must be a whole number of queries per image, or 0 for no run, not {run!r}.")
    if isinstance(attacks, str) or not set(attacks) <= set(FORECAST):
        raise InputError(f"run_attacks must be a list of attacks among {', '.join(FORECAST)}, not {attacks!r}.")


def _answer(
    found: list[Probed],
    evidence: Evidence,
    asker: Asker,
    dimension: int,
    title: str,
    distance: float | None,
    trials: tuple[Trial, ...],
) -> NoiseCheck:
    kind = kind_of(evidence)
    fits = [(p.fit, p.length) for p in found]
    width, low, high, border = (
        np.array([math.nan if fit is None else getattr(fit, name) * length for fit, length in fits])
        for name in ("width", "width_low", "width_high", "centre")
    )
    quiet = kind in ("deterministic", "constant")
    width, low = (
        (np.where(np.isnan(width), np.nan, 0.0), np.where(np.isnan(low), np.nan, 0.0)) if quiet else (width, low)
    )
    lost = _lost(kind, evidence, [fit.floor_end for fit, _ in fits if fit is not None])
    forecasts = tuple(forecast(attack, dimension, lost, _relative(width, low, high, border), _reach(distance, border))
                      for attack in FORECAST)  # fmt: skip
    trusted = kind == "deterministic"
    missed = missed_probability(evidence, SMALL_RATE) if evidence.repeats.mixed == 0 else 0.0
    curves = []
    for probed in found:
        place, asked, hits = probed.answers.arrays()
        curves.append((place * (0.0 if math.isnan(probed.length) else probed.length), asked, hits))
    return NoiseCheck(
        kind=kind,
        title=title,
        findings=findings_of(
            kind, evidence, missed, forecasts, distance, trials, asker.errors, asker.failed_batches, width, found
        ),
        evidence=evidence,
        noise_at_images=evidence.clean,
        missed=missed,
        width=width,
        width_low=low,
        width_high=high,
        line=tuple(None if p.line is None else p.line.numpy() for p in found),
        border=border,
        forecasts=forecasts,
        distance=distance,
        trials=trials,
        hop_skip_jump=trusted,
        queries=asker.ledger.total.numpy().copy(),
        curves=tuple(curves),
    )


def _lost(kind: str, evidence: Evidence, floors: list[float]) -> Interval:
    """The contrast that constant noise takes away: the floors on both sides together."""
    if kind in ("deterministic", "growing"):
        return Interval(0.0, 0.0, 0.0)
    other = float(np.median(floors)) if floors else evidence.clean.value
    return Interval(*(min(part + other, 0.95) for part in evidence.clean))


def _relative(width: np.ndarray, low: np.ndarray, high: np.ndarray, border: np.ndarray) -> Interval:
    """Median width of the transition over the distance to the border, and the median ends of its intervals."""
    if not np.nanmax(np.append(width, 0.0)) > 0:
        return Interval(0.0, 0.0, 0.0)
    return Interval(*(min(float(np.nanmedian(part / border)), _WIDEST) for part in (width, low, high)))


def _reach(distance: float | None, border: np.ndarray) -> float | None:
    """A given distance over the median distance of the borders on the lines; None without either."""
    known = border[np.isfinite(border) & (border > 0)]
    return None if distance is None or not len(known) else distance / float(np.median(known))


def _page(answer: NoiseCheck) -> Page:
    lines = []
    for number, (distance, asked, hits) in enumerate(answer.curves):
        if len(distance) > 1 and not math.isnan(answer.border[number]):
            x, share = _binned(distance - answer.border[number], asked, hits, answer.width_high[number])
            lines.append(Line(f"image {number}", x, share))
    seen = np.flatnonzero(np.isfinite(answer.width))
    marks = Marks("width of the transition", answer.width[seen], answer.width_low[seen], answer.width_high[seen])
    charts = [Chart("Answers across the border", "L2 distance from the border, negative on the image's side",
                    "share of adversarial answers", tuple(lines[:6]), rule=0.0)] if lines else []  # fmt: skip
    charts += [Chart("Width of the transition", "L2 distance", "images, with 95% intervals", marks=(marks,))]
    rows = tuple(
        (str(row), _cell(answer.border[row]), _cell(answer.width[row]),
         f"{_cell(answer.width_low[row])} to {_cell(answer.width_high[row])}", f"{answer.queries[row]:,}")
        for row in range(len(answer.queries))
    )  # fmt: skip
    head = ("image", "border on its line", "width of the transition", "95% interval", "queries")
    return Page(
        title="Is this classifier noisy, and how?",
        headline=f"{answer.kind}: {KINDS[answer.kind]}.",
        good=answer.kind == "deterministic",
        words=(f"{len(answer.queries)} images, {int(answer.queries.sum()):,} queries, {answer.title}.",),
        findings=answer.findings,
        charts=tuple(charts),
        tables=(Table("Lines", head, rows),),
        limits=(
            "Only these images and the lines from them to another class were looked at.",
            "Noise that begins after these queries, or for other clients, cannot be seen.",
        ),
    )


def _binned(distance: np.ndarray, asked: np.ndarray, hits: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Shares of adversarial answers in bins around the border: `(b,)` and `(b,)`."""
    reach = max(3 * width, 1e-6)
    edges = np.linspace(-reach, reach, 16)
    bins = np.digitize(distance, edges)
    kept = [number for number in range(1, len(edges)) if asked[bins == number].sum() > 0]
    middle = np.array([(edges[number - 1] + edges[number]) / 2 for number in kept])
    return middle, np.array([hits[bins == number].sum() / asked[bins == number].sum() for number in kept])


def _cell(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"
