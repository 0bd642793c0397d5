"""Slow classifiers: several groups of images at once, so that one group is computed while others are answered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Pool, Trace
from popskipjump.errors import InputError, OracleError
from popskipjump.evaluation import Hooks, Report, evaluate
from popskipjump.evaluation.inputs import Array, AttackConfig
from popskipjump.oracles import Oracle, Ticket, device_of
from popskipjump.oracles.modes import evaluation_mode
from popskipjump.types import Status

_SHARED = ("position",)  # the places of probes are those of the line, not of an image
_BY_IMAGE = ("images", "labels", "targets", "starts", "image_ids")


def evaluate_overlapped(
    model: Any,
    images: Array,
    labels: Array | Sequence[int],
    attack: str | AttackConfig = "qsj",
    *,
    groups: int = 3,
    **options: Any,
) -> Report:
    """`evaluate`, with the images in groups that advance independently, each in a thread of its own.

    Lock-step waits for the slowest answer of every step, and the classifier waits while the next step is computed. With
    a few groups it always has something to do. Every image has its own random streams, so the result is that of
    `evaluate` (to the last digits of the attack's own arithmetic). The model is asked from several threads at once: an
    `Endpoint` allows it. A group on whose images the classifier fails does not end the others; Ctrl-C ends all.

    Args:
        model: as for `evaluate`; safe to be asked from several threads.
        images: `(B, *S)`.
        labels: `(B,)`.
        attack: as for `evaluate`.
        groups: how many groups.
        options: as for `evaluate`; `hooks` without `on_progress`; their `on_queries` is called from several threads.
    """
    if groups < 1:
        raise InputError(f"groups must be 1 or more, not {groups}.")
    total = len(images)
    ids = options.pop("image_ids", None)
    by_image = {
        "images": images,
        "labels": labels,
        "image_ids": np.arange(total) if ids is None else ids,
        "targets": options.pop("targets", None),
        "starts": options.pop("starts", None),
    }
    places = [part for part in np.array_split(np.arange(total), min(groups, max(1, total))) if len(part)]
    hooks = options.pop("hooks", None) or Hooks()
    watch = _Watch(hooks.wrap_oracle)

    def one(place: np.ndarray) -> Report:
        chosen = {name: _some(by_image[name], place) for name in _BY_IMAGE}
        return evaluate(model, attack=attack, **chosen, **options, hooks=replace(hooks, wrap_oracle=watch.around))

    if len(places) <= 1:
        return one(np.arange(total))
    with evaluation_mode(model), ThreadPoolExecutor(len(places), "psj-group") as pool:
        futures = [pool.submit(one, place) for place in places]
        try:
            wait(futures)
        except KeyboardInterrupt:
            watch.stop.set()  # the groups end at their next query, with what they have found
            wait(futures)
    return _together([future.exception() or future.result() for future in futures], places, by_image, watch.counts)


def _together(
    found: list[Report | BaseException], places: list[np.ndarray], by_image: dict[str, Any], counts: Counter[int]
) -> Report:
    """One report from the reports or errors of all groups; an error if there is no report, or it is no oracle's."""
    whole = [item for item in found if isinstance(item, Report)]
    parts = []
    for place, item in zip(places, found, strict=True):
        if isinstance(item, Report):
            parts.append(item)
        elif whole and isinstance(item, OracleError):
            own = {name: _some(by_image[name], place) for name in ("images", "labels", "targets", "image_ids")}
            parts.append(_failed(whole[0], own, counts, str(item)))
        else:
            raise item
    return joined(parts)


class _Watch:
    """What all groups share: a way to stop them, and a count of the queries of each image."""

    def __init__(self, wrap: Callable[[Oracle], Oracle] | None) -> None:
        self.stop, self.counts, self._wrap = threading.Event(), Counter[int](), wrap
        self._lock = threading.Lock()

    def around(self, oracle: Oracle) -> Oracle:
        """For `wrap_oracle`."""
        return _Watched(oracle if self._wrap is None else self._wrap(oracle), self)

    def note(self, ticket: Ticket) -> None:
        """Count queries, or end them."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        with self._lock:
            self.counts.update(ticket.image.tolist())


class _Watched:
    """An oracle below the ledger of one group."""

    def __init__(self, oracle: Oracle, watch: _Watch) -> None:
        self._oracle, self._watch, self.device = oracle, watch, device_of(oracle)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        self._watch.note(ticket)
        return self._oracle.ask(points, ticket)


def _failed(like: Report, own: dict[str, Any], counts: Counter[int], message: str) -> Report:
    """The report on a group all of whose images the classifier failed on, in the form of another group's report."""
    images = np.asarray(own["images"], dtype=np.float32)
    rows = len(images)
    queries = np.array([counts[int(image)] for image in own["image_ids"]], dtype=np.int64)
    blank = {field.name: _blank(getattr(like, field.name), rows) for field in fields(like)}
    trace = {field.name: _blank(getattr(like.trace, field.name), rows, 1) for field in fields(like.trace)}
    trace["distance"] = torch.full_like(trace["distance"], torch.inf)
    changes = {
        "points": images,
        "images": images,
        "labels": np.asarray(own["labels"], dtype=np.int64),
        "targets": None if own["targets"] is None else np.asarray(own["targets"], dtype=np.int64),
        "distances": np.full(rows, np.inf),
        "adversarial_labels": np.full(rows, -1),
        "queries": queries,
        "queries_by_phase": {"other": queries},
        "status": [Status.ORACLE_FAILED] * rows,
        "messages": dict.fromkeys(range(rows), message),
        "border_distances": None if like.border_distances is None else np.full(rows, np.inf),
        "trace": Trace(**trace),
    }
    return replace(like, **{**blank, **changes})


def _blank(value: Any, rows: int, axis: int = 0) -> Any:
    """Values that say nothing, in the form of others, for so many images: nan, or 0 for whole numbers."""
    if isinstance(value, np.ndarray):
        return _blank(torch.from_numpy(value), rows, axis).numpy()
    if isinstance(value, Tensor):
        shape = list(value.shape)
        shape[axis] = rows
        return torch.full(shape, torch.nan if value.is_floating_point() else 0, dtype=value.dtype)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(
            *(getattr(value, n) if n in _SHARED else _blank(getattr(value, n), rows) for n in value._fields)
        )
    return value


def _some(values: Any, place: np.ndarray) -> Any:
    if values is None or isinstance(values, Pool):
        return values
    return values[torch.from_numpy(place)] if isinstance(values, Tensor) else np.asarray(values)[place]


def joined(reports: Sequence[Report]) -> Report:
    """One report on the images of several, in their order; all of one attack on one classifier."""
    first = reports[0]
    rows = np.cumsum([0, *(len(report.status) for report in reports)])
    changes: dict[str, Any] = {
        "status": [status for report in reports for status in report.status],
        "messages": {
            int(r) + row: m for r, report in zip(rows, reports, strict=False) for row, m in report.messages.items()
        },
        "queries_by_phase": _phases(reports),
        "trace": _trace([report.trace for report in reports]),
    }
    for field in fields(first):
        if field.name not in changes:
            changes[field.name] = _joined([getattr(report, field.name) for report in reports])
    return replace(first, **changes)


def _joined(values: list[Any]) -> Any:
    """Arrays and tuples of arrays by image, one after the other; what is the same for all stays."""
    first = values[0]
    if any(value is None for value in values):
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(values)
    if isinstance(first, Tensor):
        return torch.cat(values)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        parts = [getattr(first, n) if n in _SHARED else _joined([getattr(v, n) for v in values]) for n in first._fields]
        return type(first)(*parts)
    return first


def _phases(reports: Sequence[Report]) -> dict[str, np.ndarray]:
    names = list(dict.fromkeys(name for report in reports for name in report.queries_by_phase))
    return {
        name: np.concatenate([r.queries_by_phase.get(name, np.zeros(len(r.status), dtype=np.int64)) for r in reports])
        for name in names
    }


def _trace(traces: list[Trace]) -> Trace:
    """Traces side by side; one that ended earlier keeps its last values."""
    length = max(len(trace.distance) for trace in traces)

    def side(name: str) -> Any:
        tables = [getattr(trace, name) for trace in traces]
        if any(table is None for table in tables):
            return None
        return torch.cat([torch.cat((t, t[-1:].expand(length - len(t), *t.shape[1:]))) for t in tables], dim=1)

    return Trace(**{field.name: side(field.name) for field in fields(Trace)})
