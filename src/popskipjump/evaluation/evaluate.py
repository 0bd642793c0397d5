"""The one call: from a model and images to a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Pool, Problem, Progress, run
from popskipjump.errors import InputError
from popskipjump.evaluation.inputs import (
    Array,
    AttackConfig,
    attack_of,
    images_of,
    labels_of,
    oracle_of,
    starts_of,
    within_budget,
)
from popskipjump.evaluation.phases import judge, prepare
from popskipjump.evaluation.report import Probes, Report
from popskipjump.geometry import Norm, norm_of
from popskipjump.metrics import border_distance
from popskipjump.noise import describe
from popskipjump.oracles import Counted, Ledger, MajorityVote, NoiseModel, Oracle, Targeted, Untargeted
from popskipjump.oracles.base import is_whole
from popskipjump.rng import Key
from popskipjump.types import Bounds, Status


def evaluate(
    model: Any,
    images: Array,
    labels: Array | Sequence[int],
    attack: str | AttackConfig = "psj",
    noise: str | NoiseModel | None = None,
    norm: str | Norm = "l2",
    targets: Array | Sequence[int] | None = None,
    starts: Array | Pool | None = None,
    votes: int = 1,
    iterations: int | None = None,
    budget: int | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
    *,
    stop_distance: float | None = None,
    verdict: int = 50,
    image_ids: Sequence[int] | Array | None = None,
    keep_trace: bool = True,
    keep_interrupted: bool = True,
    wrap_oracle: Callable[[Oracle], Oracle] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_queries: Callable[[int], None] | None = None,
) -> Report:
    """Measure how far each image is from the border of a classifier, from labels alone.

    Args:
        model: a torch module that gives logits `(M, K)`; a function from a float32 NumPy batch `(M, *S)` to integer
            labels `(M,)`; or any object with `ask(points, ticket)` (see `Oracle`).
        images: `(B, *S)`, NumPy or torch, within the bounds.
        labels: `(B,)` true classes, from 0.
        attack: "psj", "qsj", "hsj", "boundary", "psj-true-gradient", or a configuration such as `PopSkipJump(...)`.
        noise: noise to put on the model's answers, such as "flip:0.1" or `noise.Flip(0.1)`; None leaves them alone.
        norm: "l2" or "linf".
        targets: `(B,)` classes to reach; None is content with any other class.
        starts: `(B, *S)` adversarial points to start from, or a `Pool` of images; None starts from noise.
        votes: ask everything so many times and take the majority (HSJ-r).
        iterations: how many; None for the attack's own (32), or for "qsj" with a budget, until it is spent.
        budget: queries of each image at most, those of the verdict included.
        bounds: smallest and largest value of an input coordinate.
        seed: of all randomness of the attack and of `noise`.
        stop_distance: an image is done once its point is this near.
        verdict: fresh queries at each returned point; 0 for none.
        image_ids: `(B,)` names of the images in random streams and records; None counts from 0.
        keep_trace: keep every iteration's points.
        keep_interrupted: at Ctrl-C, return what was found so far; False raises KeyboardInterrupt.
        wrap_oracle: puts an oracle around the model's, below the count and the votes: a record, a replay. It sees the
            ids and the numbers of all queries in their tickets.
        on_progress: called after every iteration.
        on_queries: called with the number of queries after every call to the classifier.

    Returns:
        A `Report`, with a status for every image.

    Raises:
        InputError: something was passed that cannot be used; nothing has been asked.
        OracleError: the classifier failed on every image.
    """
    box = Bounds.of(bounds)
    batch = images_of(images, box)
    truth = labels_of(labels, len(batch))
    goal = None if targets is None else labels_of(targets, len(batch), "targets")
    begin = starts_of(starts, batch, box)
    config = attack_of(attack, iterations)
    oracle, white_box = oracle_of(model, noise, seed, tuple(batch.shape[1:]))
    if getattr(config, "true_gradient", False) and white_box is None:
        raise InputError("the true gradient needs a white box: pass a torch module that gives logits.")
    if goal is not None and bool((goal == truth).any()):
        raise InputError(f"a target is the true class itself (row {int((goal == truth).nonzero()[0])}).")
    if not is_whole(verdict) or verdict < 0:
        raise InputError(f"verdict must be a whole number of queries of at least 0, not {verdict!r}.")

    ids = torch.arange(len(batch)) if image_ids is None else labels_of(image_ids, len(batch), "image_ids")
    ledger = Ledger(len(batch), budget)
    asked = oracle if wrap_oracle is None else wrap_oracle(oracle)
    voting = MajorityVote(Counted(asked, ledger, ids), votes)
    problem = Problem(
        original=batch.flatten(1).to(voting.device),
        shape=tuple(batch.shape[1:]),
        image_id=ids,
        bounds=box,
        norm=norm_of(norm),
        key=Key(seed).child("attack"),
        criterion=Untargeted(truth.to(voting.device)) if goal is None else Targeted(goal.to(voting.device)),
        oracle=voting if voting.votes > 1 else voting.oracle,
        ledger=ledger,
        votes=voting.votes,
        white_box=white_box,
        labels=truth.to(voting.device),
        targets=None if goal is None else goal.to(voting.device),
        on_queries=on_queries,
    )
    config, open_end = within_budget(config, iterations, budget)
    walk = config.build(problem.dimension)
    verdict = int(verdict) if budget is None else min(int(verdict), int(budget) // 10)
    ledger.reserved = verdict
    status = [Status.RUNNING] * len(batch)
    nearest = getattr(config, "nearest_start", False)
    rows, start = prepare(problem, status, truth, goal, begin, getattr(oracle, "model", None), nearest)
    result = run(
        walk,
        problem,
        rows,
        start,
        status,
        stop_distance=stop_distance,
        keep_points=keep_trace,
        open_end=open_end,
        keep_interrupted=keep_interrupted,
        on_progress=on_progress,
    )
    points = result.points.reshape(batch.shape)
    judged = judge(problem, result.points, status, verdict, keep_interrupted) if verdict else None
    return Report(
        points=points.numpy(),
        distances=result.distances.numpy(),
        queries=ledger.total.numpy(),
        queries_by_phase={phase: count.numpy() for phase, count in ledger.by_phase.items()},
        status=status,
        messages=dict(problem.failed),
        border_distances=_border_distances(problem, batch, points, truth, goal, status),
        verdict=judged,
        sigmoid=result.estimate,
        probes=None if result.probes is None else Probes.of(result.probes),
        trace=result.trace,
        images=batch.numpy(),
        labels=truth.numpy(),
        targets=None if goal is None else goal.numpy(),
        norm=problem.norm,
        bounds=box,
        title=_title(attack, noise, votes),
        white_box=white_box,
    )


def _title(attack: str | AttackConfig, noise: str | NoiseModel | None, votes: int) -> str:
    name = attack if isinstance(attack, str) else type(attack).__name__
    voting = f", {votes} votes" if votes > 1 else ""
    return f"{name}{voting}, noise {describe(noise)}"


def _border_distances(
    problem: Problem, batch: Tensor, points: Tensor, truth: Tensor, goal: Tensor | None, status: list[Status]
) -> np.ndarray | None:
    if problem.white_box is None:
        return None
    distance = border_distance(
        problem.white_box, batch, points, truth, problem.norm, bounds=problem.bounds, targets=goal
    )
    found = distance.to("cpu", torch.float64).numpy()
    for row, state in enumerate(status):
        if state is Status.MISCLASSIFIED:  # no ray to follow: the answers are wrong at the image itself
            found[row] = 0.0
        elif not state.has_point:
            found[row] = np.inf
    return np.asarray(found)
