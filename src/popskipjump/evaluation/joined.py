"""Concatenation of the reports of several sets of images, in the order of the images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Trace
from popskipjump.evaluation.report import Probes, Report
from popskipjump.types import Status

_SHARED = ("norm", "bounds", "title", "white_box")  # the same in all of them
Merge = Callable[[list[Any], int], Any]  # arrays with images along an axis -> one such array


def joined(parts: list[tuple[Report, Tensor]]) -> Report:
    """One report of B images from reports of some of them, each with its rows `(G,)`."""
    reports, rows = [report for report, _ in parts], [of for _, of in parts]
    if len(reports) == 1:
        return reports[0]
    order = torch.argsort(torch.cat(rows))

    def merge(arrays: list[Any], axis: int) -> Any:
        if isinstance(arrays[0], Tensor):
            return torch.cat(arrays, dim=axis).index_select(axis, order)
        return np.concatenate(arrays, axis).take(order.numpy(), axis)

    status = [state for report in reports for state in report.status]
    messages = {int(of[r]): text for report, of in parts for r, text in report.messages.items()}
    return replace(
        _combined(reports, merge),
        status=[status[place] for place in order.tolist()],
        messages=messages,
        queries_by_phase=_phases(reports, merge),
    )


def without_result(template: Report, images: Tensor, status: Status, message: str, queries: Tensor) -> Report:
    """A report of images that were not attacked, in the form of another one.

    Args:
        template: any report of the same call.
        images: `(G, *S)`.
        status: of all of them.
        message: what the classifier did; "" for none.
        queries: `(G,)` that were asked all the same.
    """
    count = len(images)
    first = torch.zeros(count, dtype=torch.int64)

    def merge(arrays: list[Any], axis: int) -> Any:
        """Placeholder array for these images: integers are 0, floats are nan."""
        room = torch.as_tensor(arrays[0]).index_select(axis, first)
        room.fill_(torch.nan if room.is_floating_point() else 0)
        return room if isinstance(arrays[0], Tensor) else room.numpy()

    blank = _combined([template], merge)
    trace = replace(
        blank.trace,
        distance=torch.full_like(blank.trace.distance, torch.inf),
        queries=queries.expand_as(blank.trace.queries).clone(),
        points=None if blank.trace.points is None else images.flatten(1).expand_as(blank.trace.points).clone(),
    )
    return replace(
        blank,
        points=images.numpy(),
        images=images.numpy(),
        distances=np.full(count, np.inf),
        adversarial_labels=np.full(count, -1),
        queries=queries.numpy(),
        queries_by_phase={"other": queries.numpy()},
        status=[status] * count,
        messages=dict.fromkeys(range(count), message) if message else {},
        border_distances=None if blank.border_distances is None else np.full(count, np.inf),
        trace=trace,
    )


def _combined(reports: list[Report], merge: Merge) -> Report:
    """The first report with every array over images merged; lists and dictionaries are left to the caller."""
    names = [entry.name for entry in fields(reports[0]) if entry.name not in _SHARED]
    counts = [len(report.status) for report in reports]
    values = {name: _field([getattr(report, name) for report in reports], counts, merge) for name in names}
    return replace(reports[0], **values)


def _field(values: list[Any], counts: list[int], merge: Merge) -> Any:
    """One field of several reports, by what it is."""
    like = next((value for value in values if value is not None), None)
    whole = [_unknown(like, count) if value is None else value for value, count in zip(values, counts, strict=True)]
    merged = like
    if isinstance(like, np.ndarray | Tensor):
        merged = merge(whole, 0)
    elif isinstance(like, Probes):
        asked, adversarial = (merge([getattr(v, n) for v in whole], 0) for n in ("asked", "adversarial"))
        merged = like._replace(asked=asked, adversarial=adversarial)
    elif isinstance(like, Trace):
        merged = _traces(whole, merge)
    elif isinstance(like, tuple) and hasattr(like, "_fields"):
        merged = type(like)(*(_field(list(entries), counts, merge) for entries in zip(*whole, strict=True)))
    return merged


def _unknown(like: Any, count: int) -> Any:
    """Placeholder for `count` images without a value, for example of a search that none of them began."""
    if isinstance(like, np.ndarray):
        return np.zeros((count, *like.shape[1:]), dtype=like.dtype)
    if isinstance(like, Tensor):
        return torch.full((count, *like.shape[1:]), torch.nan if like.is_floating_point() else 0, dtype=like.dtype)
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*(_unknown(entry, count) for entry in like))
    return like


def _phases(reports: list[Report], merge: Merge) -> dict[str, np.ndarray]:
    """Queries by phase; 0 for images that never reached a phase."""
    names = dict.fromkeys(name for report in reports for name in report.queries_by_phase)
    return {
        name: merge([report.queries_by_phase.get(name, np.zeros_like(report.queries)) for report in reports], 0)
        for name in names
    }


def _traces(traces: list[Trace], merge: Merge) -> Trace:
    """Traces side by side; one that ended earlier keeps its last values."""
    longest = max(len(trace.distance) for trace in traces)

    def beside(name: str) -> Tensor | None:
        arrays = [getattr(trace, name) for trace in traces]
        if any(array is None for array in arrays):
            return None
        long = [torch.cat((a, a[-1:].expand(longest - len(a), *a.shape[1:]))) for a in arrays]
        merged: Tensor = merge(long, 1)
        return merged

    values: dict[str, Any] = {entry.name: beside(entry.name) for entry in fields(traces[0])}
    return replace(traces[0], **values)
