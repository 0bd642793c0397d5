"""`evaluate`: attacks a model on images and returns a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from popskipjump.adapters import declared_bounds, recognised
from popskipjump.attacks import AttackResult, Pool, Problem, Retry, Settle, run, set_aside
from popskipjump.attacks.protocols import begins_nearest, needs_gradient
from popskipjump.errors import InputError, OracleError
from popskipjump.evaluation.before_after import border_distances, judge, prepare, warnings_of, warnings_of_noise
from popskipjump.evaluation.hooks import Hooks
from popskipjump.evaluation.inputs import (
    DEFAULT_ATTACK,
    Array,
    AttackConfig,
    attack_of,
    budget_of,
    check_numbers,
    check_objects,
    check_order,
    ids_of,
    images_of,
    labels_of,
    oracle_of,
    seed_of,
    starts_of,
    within_budget,
)
from popskipjump.evaluation.report import Probes, Report
from popskipjump.evaluation.spaced import evaluate_in_space, wants_space
from popskipjump.evaluation.watching import Watch
from popskipjump.geometry import Norm, norm_of
from popskipjump.metrics import Verdict, verdict_anytime
from popskipjump.noise import describe
from popskipjump.oracles import (
    Counted,
    Ledger,
    MajorityVote,
    NoiseModel,
    Oracle,
    Targeted,
    TimeLimit,
    Untargeted,
    WhiteBox,
)
from popskipjump.oracles.modes import evaluation_mode
from popskipjump.oracles.traits import model_of
from popskipjump.rng import Key
from popskipjump.space import Space
from popskipjump.space.frames import is_frame
from popskipjump.types import Bounds, Status


def evaluate(
    model: Any, images: Array, labels: Array | Sequence[int],
    attack: str | AttackConfig = DEFAULT_ATTACK, noise: str | NoiseModel | None = None, norm: str | Norm = "l2",
    targets: Array | Sequence[int] | None = None, starts: Array | Pool | None = None,
    votes: int = 1, iterations: int | None = None, budget: int | None = None,
    bounds: tuple[float, float] | tuple[Array, Array] | None = None, seed: int = 0, *,
    space: Space | None = None, mask: Array | None = None, scale: str | float | Array | None = None,
    stop_distance: float | None = None, verdict: int = 0, settle: Settle | None = None, retry: Retry | None = None,
    image_ids: Sequence[int] | Array | None = None, keep_trace: bool = True, progress: bool = False,
    hooks: Hooks | None = None,
) -> Report:  # fmt: skip
    """Measure how far each image is from the border of a classifier, from labels alone.

    Args:
        model: a torch module that gives logits `(M, K)`; a function from a float32 NumPy batch `(M, *S)` to integer
            labels `(M,)`; a scikit-learn, XGBoost or LightGBM classifier; an ONNX Runtime session; a compiled JAX
            function; a Foolbox model; an ART estimator; or any object with `ask(points, ticket)` (see `Oracle`).
        images: `(B, *S)`, NumPy or torch, within the bounds.
        labels: `(B,)` true classes, from 0; by their names where the model has `classes_`.
        attack: "qsj", our best, with 1,000 queries for each image unless you say otherwise; "psj", "hsj", "boundary",
            "psj-true-gradient"; or a configuration such as `PopSkipJump(...)`.
        noise: noise to put on the model's answers, such as "flip:0.1" or `noise.Flip(0.1)`; None leaves them alone.
        norm: "l2" or "linf".
        targets: `(B,)` classes to reach; None is content with any other class.
        starts: `(B, *S)` adversarial points to start from, or a `Pool` of images; None starts from noise.
        votes: ask everything so many times and take the majority (HSJ-r).
        iterations: how many; None for the attack's own (32 for "psj"), or for "qsj", until its budget is spent.
        budget: queries of each image at most, those that confirm its point and those of the verdict included. None is
            no limit, but for "qsj" without `iterations`: 1,000.
        bounds: smallest and largest value of an input coordinate: two numbers, or two arrays `S`; None takes those
            that a Foolbox model or an ART estimator declares, and else 0 and 1.
        seed: of all randomness of the attack and of `noise`.
        space: which inputs are valid, and the units of distances (see `Space`); the images may then be a frame.
        mask: 1 where a feature may change: `S`, or `(B, *S)` for a mask of each image.
        scale: of a change that counts as 1: "range", a number or an array `S`; None is 1, and with arrays of bounds
            "range".
        stop_distance: an image is done once its point is this near.
        verdict: fresh queries at each returned point, beyond those that confirmed it; 0 for none: `Report.verdict` then
            tells the answers of the settle phase.
        settle: how points are confirmed; None for `Settle()`, an error of 1% at most for each image.
        retry: what to do when a call to the classifier fails or takes too long; None for `Retry()`, three tries.
        image_ids: `(B,)` names of the images in random streams and records; None counts from 0.
        keep_trace: keep every iteration's points.
        progress: write to the error stream how far it is: one live line, or in a log a line every 30 seconds.
        hooks: what to call while it runs; see `Hooks`.

    Returns:
        A `Report`, with a status for every image.

    Raises:
        InputError: something was passed that cannot be used; nothing has been asked.
        OracleError: the classifier failed on every image; what was found before is its `report`.
    """
    if bounds is None:
        bounds = (0.0, 1.0) if space is not None else declared_bounds(model) or (0.0, 1.0)
    return _dispatched(dict(locals()))


def _dispatched(given: dict[str, Any]) -> Report:
    """`evaluate` with its arguments by name: with a progress line, in a space of valid inputs, or plainly."""
    with evaluation_mode(given["model"]):  # a module that is being trained goes on as it was
        if given["progress"]:
            watch = Watch()
            try:
                return _dispatched(given | {"progress": False, "hooks": watch.hooks(given["hooks"])})
            finally:
                watch.end()
        spaced = wants_space(given["space"], given["mask"], given["scale"], given["bounds"])
        if spaced or is_frame(given["images"]):
            return evaluate_in_space(evaluate, given)
        return _evaluate(**given)


def _evaluate(
    model: Any,
    images: Array,
    labels: Array | Sequence[int],
    attack: str | AttackConfig,
    noise: str | NoiseModel | None,
    norm: str | Norm,
    targets: Array | Sequence[int] | None,
    starts: Array | Pool | None,
    votes: int,
    iterations: int | None,
    budget: int | None,
    bounds: Any,
    seed: int,
    stop_distance: float | None,
    verdict: int,
    settle: Settle | None,
    retry: Retry | None,
    image_ids: Sequence[int] | Array | None,
    keep_trace: bool,
    hooks: Hooks | None,
    **_: Any,
) -> Report:
    """`evaluate` without a space and a progress line, which have been seen to."""
    model, labels, targets, starts = recognised(model, labels, targets, starts)
    budget = budget_of(attack, iterations, budget)
    case = _checked(model, images, labels, attack, noise, targets, starts, iterations, budget, bounds, seed, image_ids)
    check_numbers(verdict, stop_distance)
    check_objects(settle, retry)
    hooks = hooks or Hooks()
    problem = _problem_of(case, norm, votes, budget, seed, int(verdict), retry or Retry(), hooks)
    result = _attacked(case, problem, stop_distance, settle, keep_trace, hooks)
    judged = verdict_anytime(result.yes, result.asked)
    if problem.verdict and result.error is None:
        judged = judge(problem, result.points, result.status, problem.verdict, hooks.keep_interrupted)
    report = _report_of(case, problem, result, judged, _title(attack, noise, votes), stop_distance, hooks)
    report.warnings.extend(warnings_of_noise(report, case.config, votes, ours=noise is not None))
    if result.error is not None:
        result.error.report = report
        raise result.error
    return report


class _Case(NamedTuple):
    """What was passed, checked."""

    batch: Tensor  # (B, *S) float32, on the CPU
    truth: Tensor  # (B,) int64
    goal: Tensor | None  # (B,) int64
    begin: Tensor | Pool | None
    config: AttackConfig
    open_end: bool  # whether the number of iterations is a mere limit
    oracle: Oracle
    white_box: WhiteBox | None
    bounds: Bounds
    ids: Tensor  # (B,) int64
    ledger: Ledger


def _checked(
    model: Any,
    images: Array,
    labels: Array | Sequence[int],
    attack: str | AttackConfig,
    noise: str | NoiseModel | None,
    targets: Array | Sequence[int] | None,
    starts: Array | Pool | None,
    iterations: int | None,
    budget: int | None,
    bounds: Any,
    seed: int,
    image_ids: Sequence[int] | Array | None,
) -> _Case:
    """Everything that can be found wrong before the first query; see `evaluate`."""
    box = Bounds.of(bounds)
    check_order(images, labels)
    batch = images_of(images, box)
    truth = labels_of(labels, len(batch))
    goal = None if targets is None else labels_of(targets, len(batch), "targets")
    begin = starts_of(starts, batch, box)
    seed_of(seed)
    config = attack_of(attack, iterations)
    oracle, white_box = oracle_of(model, noise, seed, tuple(batch.shape[1:]))
    if needs_gradient(config) and white_box is None:
        raise InputError("the true gradient needs a white box: pass a torch module that gives logits.")
    if goal is not None and bool((goal == truth).any()):
        same = (goal == truth).nonzero().flatten().tolist()
        raise InputError(
            f"a target is the true class itself (row {same[0]}; {len(same)} in all): pass another class for it, or "
            "leave out `targets=` to be content with any."
        )
    ids, ledger = ids_of(image_ids, len(batch)), Ledger(len(batch), budget)
    config, open_end = within_budget(config, iterations, budget)
    return _Case(batch, truth, goal, begin, config, open_end, oracle, white_box, box, ids, ledger)


def _problem_of(
    case: _Case,
    norm: str | Norm,
    votes: int,
    budget: int | None,
    seed: int,
    verdict: int,
    retry: Retry,
    hooks: Hooks,
) -> Problem:
    """What the attack works on; a part of the budget is set aside for the phases after it."""
    limited = case.oracle if retry.timeout is None else TimeLimit(case.oracle, retry.timeout)
    asked = limited if hooks.wrap_oracle is None else hooks.wrap_oracle(limited)
    voting = MajorityVote(Counted(asked, case.ledger, case.ids), votes)
    truth, goal = case.truth.to(voting.device), None if case.goal is None else case.goal.to(voting.device)
    problem = Problem(
        original=case.batch.flatten(1).to(voting.device),
        shape=tuple(case.batch.shape[1:]),
        image_id=case.ids,
        bounds=case.bounds,
        norm=norm_of(norm),
        key=Key(int(seed)).child("attack"),
        criterion=Untargeted(truth) if goal is None else Targeted(goal),
        oracle=voting if voting.votes > 1 else voting.oracle,
        ledger=case.ledger,
        votes=voting.votes,
        white_box=case.white_box,
        labels=truth,
        targets=goal,
        on_queries=hooks.on_queries,
        verdict=verdict if budget is None else min(verdict, int(budget) // 10),
        retry=retry,
    )
    set_aside(problem)
    return problem


def _attacked(
    case: _Case,
    problem: Problem,
    stop_distance: float | None,
    settle: Settle | None,
    keep_trace: bool,
    hooks: Hooks,
) -> AttackResult:
    """Look at the images, find starting points, walk, and settle."""
    status = [Status.RUNNING] * len(case.batch)
    walk = case.config.build(problem.dimension)
    nearest = begins_nearest(case.config)
    rows, start = torch.arange(0), problem.original[:0]
    failure: OracleError | None = None
    try:
        model = model_of(case.oracle)
        rows, start = prepare(problem, status, case.truth, case.goal, case.begin, model, nearest)
    except OracleError as error:
        failure = error
        status[:] = [Status.ORACLE_FAILED if s is Status.RUNNING else s for s in status]
    result = run(
        walk,
        problem,
        rows,
        start,
        status,
        stop_distance=stop_distance,
        keep_points=keep_trace,
        open_end=case.open_end,
        keep_interrupted=hooks.keep_interrupted,
        settle=settle,
        on_progress=hooks.on_progress,
        on_step=hooks.on_step,
    )
    return result if failure is None else replace(result, error=failure)


def _report_of(
    case: _Case,
    problem: Problem,
    result: AttackResult,
    judged: Verdict,
    title: str,
    stop_distance: float | None,
    hooks: Hooks,
) -> Report:
    """Everything that was found, as NumPy arrays."""
    points = result.points.reshape(case.batch.shape)
    return Report(
        points=points.numpy(),
        distances=result.distances.numpy(),
        walked=result.walked.numpy(),
        success=result.success.numpy(),
        adversarial_labels=problem.answered.at(result.points).numpy(),
        queries=problem.ledger.total.numpy(),
        queries_by_phase={phase: count.numpy() for phase, count in problem.ledger.by_phase.items()},
        status=result.status,
        messages=dict(problem.failed),
        warnings=result.warnings + warnings_of(result, stop_distance, model_of(case.oracle)),
        border_distances=border_distances(problem, case.batch, case.truth, points, result, hooks),
        verdict=judged,
        sigmoid=result.estimate,
        probes=None if result.probes is None else Probes.of(result.probes),
        trace=result.trace,
        images=case.batch.numpy(),
        labels=case.truth.numpy(),
        targets=None if case.goal is None else case.goal.numpy(),
        norm=problem.norm,
        bounds=case.bounds,
        title=title,
        white_box=case.white_box,
    )


def _title(attack: str | AttackConfig, noise: str | NoiseModel | None, votes: int) -> str:
    name = attack if isinstance(attack, str) else type(attack).__name__
    voting = f", {votes} votes" if votes > 1 else ""
    return f"{name}{voting}, noise {describe(noise)}"
