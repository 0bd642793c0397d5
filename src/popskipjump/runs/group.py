"""One group of images of a run, attacked together; the attack continues where the journal ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from popskipjump import Hooks, Pool, Report, Status, evaluate
from popskipjump.attacks import Progress
from popskipjump.evaluation.spaced_report import SpacedReport
from popskipjump.metrics import border_distance
from popskipjump.oracles import Oracle
from popskipjump.runs.source import Source
from popskipjump.runs.steps import StepLog
from popskipjump.storage import ImageResult, Journalled, RunSpec

_TRACE = ("distance", "queries", "centre", "slope", "low", "high", "gap")


def attack_group(
    spec: RunSpec,
    source: Source,
    group: list[int],
    wrap: Callable[[Oracle], Journalled],
    on_iteration: Callable[[Progress], None],
    *,
    keep_points: bool = True,
    folder: Path | None = None,
) -> list[ImageResult]:
    """Attack a group of images, from where the journal ends.

    Args:
        spec: the run.
        source: what is attacked.
        group: places in the source, each once.
        wrap: puts the journal around the model's oracle.
        on_iteration: called after every iteration.
        keep_points: keep the points of every iteration until the group is done; False leaves the border distances by
            iteration unknown.
        folder: of the run, where `psj watch` finds the steps of the first images; None keeps none.

    Raises:
        OracleError: the classifier failed on every image.
    """
    chosen = np.array(group)
    labels = source.labels[chosen]
    journalled: list[Journalled] = []

    # Within a space the steps are in its own coordinates, which `psj watch` could not show.
    steps = None if folder is None or spec.space is not None else StepLog(folder, group, source, spec)

    def wrap_once(oracle: Oracle) -> Oracle:
        journalled.append(wrap(oracle))
        return journalled[0]

    report = evaluate(
        source.model,
        source.images[chosen],
        labels,
        spec.attack.config(spec.iterations),
        spec.noise,
        spec.norm,
        _targets(spec, source, chosen),
        _starts(spec, source, chosen),
        spec.votes,
        spec.iterations,
        spec.budget,
        spec.bounds if spec.space is None else None,
        seed=spec.seed,
        space=source.space,
        mask=None if source.masks is None else source.masks[chosen],
        retry=source.retry,
        stop_distance=spec.stop_distance,
        verdict=spec.verdict,
        image_ids=chosen,
        keep_trace=keep_points,
        hooks=Hooks(wrap_once, on_iteration, keep_interrupted=False, on_step=steps),
    )
    return results_of(report, group, journalled[0].seconds)


def _targets(spec: RunSpec, source: Source, chosen: np.ndarray) -> np.ndarray | None:
    """The classes to reach: int64 `(B,)`."""
    if spec.targets is None:
        return None
    if spec.targets == "next" or source.targets is None:
        return np.asarray((source.labels[chosen] + 1) % source.classes)
    return np.asarray(source.targets[chosen])


def _starts(spec: RunSpec, source: Source, chosen: np.ndarray) -> np.ndarray | Pool | None:
    """Where the attack begins: points `(B, *S)`, a pool, or None for noise."""
    if spec.starts == "noise":
        return None
    if spec.starts == "pool" or source.starts is None:
        return source.pool
    return source.given_pool if isinstance(source.starts, Pool) else np.asarray(source.starts[chosen])


def results_of(report: Report, group: list[int], seconds: float) -> list[ImageResult]:
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
        if isinstance(report, SpacedReport):
            arrays["free"] = np.array(report.free[row])
        arrays["adversarial_label"] = np.array(report.adversarial_labels[row])
        if report.sigmoid is not None:
            arrays["sigmoid"] = np.array([float(value[row]) for value in report.sigmoid])
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
    found = np.full(len(report.status), np.nan)
    trace = np.full(tuple(report.trace.distance.shape), np.nan, dtype=np.float32)
    if report.white_box is None:
        return found, trace
    for row, status in enumerate(report.status):
        if status is Status.MISCLASSIFIED:  # no ray to follow: the answers are wrong at the image itself
            found[row], trace[:, row] = 0.0, 0.0
            continue
        distances = _borders_of(report, row)
        if report.trace.points is not None:
            trace[:, row] = distances[:-1] if status.has_point else np.inf
        found[row] = distances[-1] if np.isfinite(report.distances[row]) else np.inf
    return found, trace


def _borders_of(report: Report, row: int) -> np.ndarray:
    """Border distances of one image's points, iteration by iteration, and of the one that is returned: `(T + 2,)`.

    An image is measured on its own, without the repetitions at the end that other images of its group may cause: the
    last digit of a network's answer depends on the batch, and the result must not depend on the group.
    """
    final = torch.from_numpy(report.points[row]).reshape(1, -1)
    walked = final if report.trace.points is None else report.trace.points[:, row].flatten(1)  # (T + 1, d)
    apart = (walked != walked[-1]).any(dim=1).nonzero()
    length = int(apart[-1]) + 2 if len(apart) else 1  # up to the first of the points that are the last one
    rays = torch.cat((walked[:length], final))
    shape = report.images.shape[1:]
    distance = border_distance(
        report.white_box,  # type: ignore[arg-type]  # whoever calls has looked
        torch.from_numpy(report.images[row]).expand(len(rays), *shape),
        rays.reshape(-1, *shape),
        torch.full((len(rays),), int(report.labels[row])),
        report.norm,
        bounds=report.bounds,
        targets=None if report.targets is None else torch.full((len(rays),), int(report.targets[row])),
    ).numpy()
    last = np.repeat(distance[length - 1], len(walked) - length)
    return np.concatenate((distance[:length], last, distance[-1:]))
