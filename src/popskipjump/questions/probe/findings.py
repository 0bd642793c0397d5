"""Findings of `check`: for each, the observation, its meaning, and advice."""

from __future__ import annotations

import math

import numpy as np

from popskipjump.questions.answer import Finding
from popskipjump.questions.probe.evidence import DRIFT_LEVEL, Evidence
from popskipjump.questions.probe.forecast import Forecast
from popskipjump.questions.probe.probing import Probed
from popskipjump.questions.probe.trial import Trial


def findings_of(
    kind: str,
    evidence: Evidence,
    missed: float,
    forecasts: tuple[Forecast, ...],
    distance: float | None,
    trials: tuple[Trial, ...],
    errors: dict[str, int],
    failed_batches: int,
    width: np.ndarray,
    found: list[Probed],
) -> tuple[Finding, ...]:
    """All findings, the alarming ones first."""
    listed = [_repeated(kind, evidence, missed)]
    if kind == "cached":
        listed.append(_cached(evidence))
    if kind in ("constant", "growing", "constant and growing"):
        listed.append(_shape(kind, evidence, width))
    listed.append(_drifting(evidence))
    listed.append(_rejections(evidence, errors, failed_batches))
    if (lost := sum(p.line is None for p in found)) > 0:
        listed.append(_no_line(lost, len(found)))
    listed += [_rivals(kind), *(_needed(item, distance, trials) for item in forecasts)]
    return tuple(sorted(listed, key=lambda finding: {False: 0, None: 1, True: 2}[finding.good]))


def _repeated(kind: str, evidence: Evidence, missed: float) -> Finding:
    seen = evidence.repeats
    saw = (
        f"{seen.mixed} of {seen.places} inputs that were asked more than once got different answers "
        f"({seen.near_mixed} of {seen.near_places} next to the border)"
    )
    if seen.mixed:
        return Finding(
            "answers vary", False, f"{saw}; at the images {evidence.clean} of the answers are wrong.",
            "The classifier is noisy: a single answer proves nothing.",
            "Use psj or qsj, which expect noise, and read distances together with their verdicts.",
        )  # fmt: skip
    return Finding(
        "answers repeat", None if kind == "cached" else True,
        f"{saw}; noise of 1% would have been missed with probability {missed:.2g}.",
        "Equal inputs get equal answers.",
        "Nothing, unless answers are remembered: see the other findings.",
    )  # fmt: skip


def _cached(evidence: Evidence) -> Finding:
    return Finding(
        "answers are remembered", False,
        f"Equal inputs always got equal answers, but {evidence.islands} of {evidence.neighbours} inputs differ from "
        "everything close to them.",
        "The noise is drawn once for each input and kept. Asking again does not average it out: no number of votes "
        "helps, and HopSkipJump takes the noise for the border.",
        "Ask the owner to switch the cache off, or query slightly different inputs in place of equal ones; distances "
        "found in any other way are those of the noise.",
    )  # fmt: skip


def _shape(kind: str, evidence: Evidence, width: np.ndarray) -> Finding:
    finite = width[np.isfinite(width)]
    if kind == "constant":
        saw = (
            f"Between two neighbouring places the answers jump; far from the border {evidence.clean} of them are wrong."
        )
        means = "Noise of the same rate everywhere (floors), such as a noisy channel or random labels."
        return Finding(
            "noise is constant", False, saw, means, "The border is hidden, not moved: expect the queries below."
        )
    saw = f"The share of adversarial answers rises over a median L2 width of {np.median(finite):.3g} across the border."
    means = "The noise grows towards the border (a slope), as with sampling from logits, smoothing or dropout."
    if kind == "constant and growing":
        means += f" Far from the border {evidence.clean} of the answers are wrong all the same (floors)."
    do = "Use psj or qsj: they fit this slope. For Gaussian noise of known sigma, `psj certify` gives a bound too."
    return Finding("noise grows towards the border", False, saw, means, do)


def _drifting(evidence: Evidence) -> Finding:
    if evidence.drift < DRIFT_LEVEL:
        return Finding(
            "answers drift", False,
            f"Answers to equal inputs changed in time: chance would do so with probability {evidence.drift:.2g}.",
            "The classifier has changed while it was asked: a defence that reacts, an update, a warm-up.",
            "Find out what changes it before measuring: distances mix several classifiers.",
        )  # fmt: skip
    saw = f"Late answers agree with early ones (a change like this or more has probability {evidence.drift:.2g})."
    return Finding("no drift", True, saw, "The classifier stayed the same for as long as we asked.", "Nothing.")


def _rejections(evidence: Evidence, errors: dict[str, int], failed_batches: int) -> Finding:
    if evidence.rejected.value > 0:
        first = next(iter(errors), "no label")
        return Finding(
            "inputs are rejected", False, f"{evidence.rejected} of the queries were not answered, such as: {first}.",
            "An attack that meets a rejection ends for that image.",
            "Wrap the model in a function that returns a class of its own (such as K) where it rejects.",
        )  # fmt: skip
    if failed_batches:
        first = next(iter(errors), "")
        return Finding(
            "batches fail", False, f"A call with several inputs failed, and each alone was answered: {first}.",
            "The classifier takes one input at a time.", "Wrap it in a function that asks row by row.",
        )  # fmt: skip
    return Finding("no rejections", True, "Every query was answered.", "No input filter was met.", "Nothing.")


def _no_line(lost: int, count: int) -> Finding:
    return Finding(
        "no other class found", None, f"For {lost} of {count} images no input of another class was found.",
        "Nothing can be said about the border of these images.", "Pass images of several classes.",
    )  # fmt: skip


def _rivals(kind: str) -> Finding:
    if kind == "deterministic":
        return Finding(
            "HopSkipJump of Foolbox and ART can be trusted", True, "No noise was seen.",
            "Their binary searches take one answer at each step, which is right here.", "Use any attack.",
        )  # fmt: skip
    return Finding(
        "HopSkipJump of Foolbox and ART cannot be trusted", False, f"The kind is: {kind}.",
        "Their binary searches believe every single answer: one wrong answer sends the search to a wrong place, and "
        "the distance that they report is not one of an adversarial point.",
        "Use psj or qsj, or HopSkipJump with many votes and a verdict on its points.",
    )  # fmt: skip


def _needed(item: Forecast, distance: float | None, trials: tuple[Trial, ...]) -> Finding:
    queries, name = item.queries, f"queries of {item.attack}"
    saw = (
        f"The noise multiplies the queries by {item.multiplier}."
        if item.multiplier.value > 1
        else "No noise to pay for."
    )
    goal = "a distance within 20% of the nearest that it finds" if distance is None else f"the L2 distance {distance:g}"
    means = (
        f"For {goal} {item.attack} is predicted to need {_count(queries.value)} [{_count(queries.low)}, "
        f"{_count(queries.high)}] queries per image."
    )
    do = (
        "The distance may be nearer than any border: see how far a run with a large budget gets."
        if math.isinf(queries.high)
        else f"Give it a budget of {math.ceil(queries.high / 100) * 100:,} to be safe."
    )
    for trial in trials:
        if trial.attack == item.attack:
            return _held_against(trial, item, name, saw, means, do)
    return Finding(name, None, saw, means, do)


def _held_against(trial: Trial, item: Forecast, name: str, saw: str, means: str, do: str) -> Finding:
    """The prediction, with what a run has shown."""
    there = int(np.isfinite(trial.needed).sum())
    after = "" if math.isinf(trial.median) else f", the median one after {trial.median:,.0f}"
    saw += f" A run of {trial.budget:,} queries got there for {there} of {len(trial.needed)} images{after}."
    agrees = trial.agrees(item)
    verdict = {True: "The run agrees.", False: "The run does not agree: believe the run."}
    means += " " + (verdict[agrees] if agrees is not None else "The run was too short to tell whether this is right.")
    if agrees is False and math.isinf(trial.median):
        do = "The distance may be nearer than any border: see how far a run with a larger budget gets."
    if not math.isinf(trial.median):
        most = max(value for value in trial.needed.tolist() if math.isfinite(value))
        do = f"Give it a budget of {math.ceil(most / 100) * 100:,}, which was enough for every image that got there."
    return Finding(name, None if agrees is not False else False, saw, means, do)


def _count(queries: float) -> str:
    return "∞" if math.isinf(queries) else f"{queries:,.0f}"
