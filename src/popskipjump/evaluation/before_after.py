"""What an evaluation does before and after the attack: check of the images, starting points, verdict, warnings."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import AttackResult, FromPool, Pool, Problem, find_starts, from_noise, majority_adversarial
from popskipjump.attacks.walk import BoundaryWalk
from popskipjump.errors import OracleError
from popskipjump.evaluation.hooks import Hooks
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.evaluation.report import Report
from popskipjump.metrics import Seen, Verdict, border_distance, noise_warnings, transition_width, verdict_of
from popskipjump.oracles.traits import classes_of
from popskipjump.types import Status

CHECK_VOTES = 5  # votes that decide whether an image, or a starting point, is adversarial
RECHECK_VOTES = (
    25  # before an image is given up as misclassified: at 10% flips, 1 in 100 loses the first vote by chance
)
ASSURED_VOTES = 9  # before a guess is taken for a starting point: of many guesses, some win the first vote by chance
START_TRIES = 25


def prepare(
    problem: Problem,
    status: list[Status],
    truth: Tensor,
    goal: Tensor | None,
    begin: Tensor | Pool | None,
    model: object,
    nearest: bool,
) -> tuple[Tensor, Tensor]:
    """Check the images and find starting points; returns the images to attack `(A,)` and their starts `(A, d)`."""
    rows = torch.arange(len(status))

    def leave(who: Tensor, gone: Tensor, why: Status) -> Tensor:
        """Set the status of the images that leave (bool over `who`) or failed; return the remaining images."""
        for row in who[gone].tolist():
            status[row] = why
        for row in problem.failed:
            status[row] = Status.ORACLE_FAILED
        return torch.tensor([status[row] is Status.RUNNING for row in who.tolist()], dtype=torch.bool)

    fooled = _misclassified(problem, rows)
    classes = classes_of(model)
    beyond = torch.zeros_like(fooled) if classes is None else (truth >= classes)
    beyond |= torch.zeros_like(fooled) if classes is None or goal is None else (goal >= classes)
    rows = rows[leave(rows, beyond, Status.BAD_LABEL)]
    rows = rows[leave(rows, fooled[rows], Status.MISCLASSIFIED)]
    if isinstance(begin, Tensor):
        start = begin.flatten(1)[rows].to(problem.device)
        found = majority_adversarial(problem, start, rows, CHECK_VOTES, "start")
        why = Status.BAD_START
    else:
        pool = None if begin is None else FromPool(problem, begin, truth, goal, nearest)
        propose = pool or from_noise(problem)
        problem.further_starts = pool.further if pool is not None and nearest else None
        confirm = ASSURED_VOTES if begin is None else 0  # images of a pool are known to be of another class
        start, found = find_starts(problem, rows, propose, START_TRIES, CHECK_VOTES, confirm)
        why = Status.NO_START
    broke = ~found & (problem.affordable(rows) == 0)
    for row in rows[broke].tolist():  # it was not shown that there is no start
        status[row] = Status.BUDGET_TOO_SMALL
    stays = leave(rows, ~found & ~broke, why)
    return rows[stays], start[stays.to(problem.device)]


def _misclassified(problem: Problem, rows: Tensor) -> Tensor:
    """Whether the images themselves are adversarial: bool `(B,)`; a positive vote is confirmed by a second one."""
    fooled = majority_adversarial(problem, problem.original, rows, CHECK_VOTES, "check")
    again = (fooled & (problem.affordable(rows) > 0)).nonzero().flatten()
    there = problem.original[again.to(problem.device)]
    fooled[again] = majority_adversarial(problem, there, rows[again], RECHECK_VOTES, "check")
    return fooled


def judge(
    problem: Problem, points: Tensor, status: list[Status], queries: int, keep_interrupted: bool = True
) -> Verdict:
    """The black-box verdict, from new queries at every returned point; Ctrl-C ends it early, or is raised."""
    problem.ledger.reserved = 0
    successes = torch.zeros(len(status), dtype=torch.int64)
    trials = torch.zeros(len(status), dtype=torch.int64)
    try:
        for row, state in enumerate(status):
            count = min(queries, int(problem.affordable(torch.tensor([row]))[0]) * problem.votes)
            if not state.has_point or state is Status.INTERRUPTED or count == 0 or row in problem.failed:
                continue
            there = points[row : row + 1].to(problem.device).expand(count, -1).clone()
            # The verdict uses single answers without votes, as a user of the classifier would see them.
            yes = int(problem.decide_single(there, torch.full((count,), row), "verdict").sum())
            if row not in problem.failed:
                successes[row], trials[row] = yes, count
    except OracleError:  # the points are found: only the rest of the verdicts is missing
        pass
    except KeyboardInterrupt:
        if not keep_interrupted:
            raise
    return verdict_of(successes, trials)


def warnings_of(result: AttackResult | Report, stop_distance: float | None, model: object = None) -> list[str]:
    """Warnings about a result, beyond the status of each image."""
    found = []
    status = result.status
    if all(state is Status.MISCLASSIFIED for state in status):
        found.append(
            "the classifier gives another class to every image: check that labels count from 0 in its order of "
            "classes, and that its preprocessing (scaling, channel order) is part of the model."
        )
    strange = sum(state is Status.BAD_LABEL for state in status)
    if strange:
        known = classes_of(model)
        found.append(
            f"{strange} of {len(status)} labels are not among the classifier's {'?' if known is None else known} "
            "classes, which count from 0. A module that returns one number for each input has the classes 0 and 1."
        )
    beyond = [
        row
        for row, state in enumerate(status)
        if stop_distance is not None and state is Status.CLOSE_ENOUGH and float(result.distances[row]) > stop_distance
    ]
    if beyond:
        found.append(f"{len(beyond)} points were confirmed only beyond stop_distance (images {beyond[:8]}).")
    open_ = sum(state is Status.UNCONFIRMED for state in status)
    if open_:
        found.append(f"{open_} of {len(status)} images have a point that is NOT confirmed to be adversarial.")
    return found


def warnings_of_noise(report: Report, config: AttackConfig, votes: int, ours: bool) -> list[str]:
    """What the answers of an evaluation say about noise, without a further query.

    Args:
        report: of the evaluation.
        config: the attack.
        votes: answers behind each of its decisions.
        ours: whether the noise was put on the answers here.
    """
    nothing = np.full(len(report.status), np.nan)
    asked = np.zeros(len(nothing)) if report.verdict is None else np.asarray(report.verdict.queries)
    share = nothing if report.verdict is None else np.asarray(report.verdict.probability)
    none = np.zeros((len(nothing), 0), dtype=np.int64)
    fitted = report.sigmoid
    seen = Seen(
        yes=np.where(asked > 0, share, 0.0) * asked,
        asked=asked,
        walked=report.walked,
        distances=report.distances,
        probe_asked=none if report.probes is None else report.probes.asked,
        probe_yes=none if report.probes is None else report.probes.adversarial,
        floors=nothing if fitted is None else np.asarray(fitted.lost) / 2,
        gradual=nothing if fitted is None else transition_width(np.asarray(fitted.slope)),
        failed=sum(status is Status.ORACLE_FAILED for status in report.status),
        message=next(iter(report.messages.values()), "no answer"),
    )
    walk = config.build(report.images[0].size)
    expects = votes > 1 or (isinstance(walk, BoundaryWalk) and walk.search.models_noise)
    return noise_warnings(seen, expects, ours)


def border_distances(
    problem: Problem, images: Tensor, truth: Tensor, points: Tensor, result: AttackResult, hooks: Hooks
) -> np.ndarray | None:
    """Border distances `(B,)` on the rays of points `(B, *S)`; None where there is no white box to ask."""
    if problem.white_box is None or result.error is not None:  # it cannot be asked
        return None
    distance = border_distance(
        problem.white_box,
        images,
        points,
        truth,
        problem.norm,
        bounds=problem.bounds,
        targets=problem.targets,
        on_rows=hooks.counted_borders(len(images)),
    )
    found = distance.to("cpu", torch.float64).numpy()
    for row, state in enumerate(result.status):
        if state is Status.MISCLASSIFIED:  # no ray to follow: the answers are wrong at the image itself
            found[row] = 0.0
        elif not np.isfinite(float(result.distances[row])):
            found[row] = np.inf
    return np.asarray(found)
