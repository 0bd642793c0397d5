"""One group of images of a run: attacked together, from where the journal ends, and kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from popskipjump import Pool, Report, Status, evaluate
from popskipjump.attacks import Progress
from popskipjump.errors import OracleError
from popskipjump.experiments.source import Source
from popskipjump.oracles import Oracle
from popskipjump.storage import ImageResult, Journalled, RunFolder

_TRACE = ("distance", "queries", "centre", "slope", "low", "high", "gap")


def attack_group(
    folder: RunFolder,
    group: list[int],
    source: Source,
    on_queries: Callable[[int], None] | None,
    on_iteration: Callable[[Progress], None],
) -> None:
    """Attack a group of images, from where the journal ends, and keep the results."""
    spec, chosen = folder.spec, np.array(group)
    labels = source.labels[chosen]
    journalled: list[Journalled] = []

    def wrap(oracle: Oracle) -> Oracle:
        journalled.append(folder.journalled(oracle, group, on_queries))
        return journalled[0]

    try:
        report = evaluate(
            source.model,
            source.images[chosen],
            labels,
            spec.attack.config(spec.iterations),
            spec.noise,
            spec.norm,
            None if spec.targets is None else (labels + 1) % source.classes,
            Pool(torch.from_numpy(source.images), torch.from_numpy(source.labels)) if spec.starts == "pool" else None,
            spec.votes,
            None,
            spec.budget,
            seed=spec.seed,
            verdict=spec.verdict,
            image_ids=chosen,
            keep_interrupted=False,
            wrap_oracle=wrap,
            on_progress=on_iteration,
        )
    except OracleError:
        folder.forget_last_failures()
        raise
    folder.finish(_results(report, group, journalled[0].seconds))


def _results(report: Report, group: list[int], seconds: float) -> list[ImageResult]:
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
    if report.border_distances is None:
        return np.full(len(report.status), np.nan), np.full(tuple(report.trace.distance.shape), np.nan)
    trace = report.border_trace()
    for row, status in enumerate(report.status):  # as in `Report.border_distances`
        if status is Status.MISCLASSIFIED:
            trace[:, row] = 0.0
        elif not status.has_point:
            trace[:, row] = np.inf
    return report.border_distances, trace
