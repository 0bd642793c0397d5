"""Evaluation of slow classifiers with several groups of images at once: some are computed while others wait."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Pool, Progress
from popskipjump.errors import InputError, OracleError
from popskipjump.evaluation import Hooks, Report, evaluate
from popskipjump.evaluation.before_after import warnings_of, warnings_of_noise
from popskipjump.evaluation.inputs import Array, AttackConfig, attack_of
from popskipjump.evaluation.joined import joined, without_result
from popskipjump.integrations.http.stop import Stoppable, interrupt
from popskipjump.oracles import Oracle, Ticket, device_of
from popskipjump.oracles.modes import evaluation_mode
from popskipjump.oracles.traits import model_of
from popskipjump.types import Status

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
        options: as for `evaluate`; hooks are called from the groups' threads, those of progress one at a time.
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
    watch = _Watch(options.pop("hooks", None) or Hooks())

    def one(group: int, place: np.ndarray) -> Report:
        chosen = {name: _some(by_image[name], place) for name in _BY_IMAGE}
        return evaluate(model, attack=attack, **chosen, **options, hooks=watch.hooks(group))

    if len(places) <= 1:
        return one(0, np.arange(total))
    futures: list[Future[Report]] = []
    with evaluation_mode(model), ThreadPoolExecutor(len(places), "psj-group") as pool:
        try:
            for group, place in enumerate(places):
                futures.append(pool.submit(one, group, place))
            wait(futures)
        except KeyboardInterrupt:
            interrupt(model, watch.stop)  # the groups end, with what they have found
            wait(futures)
            if len(futures) < len(places):
                raise
    found = [future.exception() or future.result() for future in futures]
    whole = _together(found, places, by_image, watch.counts)
    return replace(whole, warnings=_warnings(found, whole, model, attack, options))


def _together(
    found: Sequence[Report | BaseException], places: list[np.ndarray], by_image: dict[str, Any], counts: Counter[int]
) -> Report:
    """One report from the reports or errors of all groups; an error if there is no report, or it is no oracle's."""
    template = next((item for item in found if isinstance(item, Report)), None)
    parts = []
    for place, item in zip(places, found, strict=True):
        rows = torch.from_numpy(place)
        if isinstance(item, Report):
            parts.append((item, rows))
        elif template is not None and isinstance(item, OracleError):
            queries = torch.tensor([counts[int(image)] for image in _some(by_image["image_ids"], place)])
            images = torch.as_tensor(_some(by_image["images"], place), dtype=torch.float32)
            failed = without_result(template, images, Status.ORACLE_FAILED, str(item), queries)
            labels, targets = (_some(by_image[name], place) for name in ("labels", "targets"))
            targets = None if targets is None else np.asarray(targets)
            parts.append((replace(failed, warnings=[], labels=np.asarray(labels), targets=targets), rows))
        else:
            raise item
    return joined(parts)


def _warnings(
    found: Sequence[Report | BaseException],
    whole: Report,
    model: Any,
    attack: str | AttackConfig,
    options: dict[str, Any],
) -> list[str]:
    """The warnings of all groups; those that count images are about the whole, not about a group."""
    config, votes = attack_of(attack, options.get("iterations")), options.get("votes", 1)

    def counting(report: Report) -> list[str]:
        ours = options.get("noise") is not None
        of_status = warnings_of(report, options.get("stop_distance"), model_of(model) or model)
        return of_status + warnings_of_noise(report, config, votes, ours)

    reports = [item for item in found if isinstance(item, Report)]
    others = [text for report in reports for text in report.warnings if text not in counting(report)]
    return [*dict.fromkeys(others), *counting(whole)]


class _Watch:
    """What all groups share: a way to stop them, a count of the queries of each image, and of what is done."""

    def __init__(self, hooks: Hooks) -> None:
        self.stop, self.counts = threading.Event(), Counter[int]()
        self._hooks, self._lock = hooks, threading.Lock()
        self._now: dict[int, Progress] = {}  # by group

    def hooks(self, group: int) -> Hooks:
        """The hooks of one group, whose threads call the caller's own one after the other."""
        tell, count = self._hooks.on_progress, self._hooks.on_queries
        return replace(
            self._hooks,
            wrap_oracle=self._around,
            on_progress=None if tell is None else partial(self._progress, tell, group),
            on_queries=None if count is None else partial(self._queries, count),
        )

    def _around(self, oracle: Oracle) -> Oracle:
        wrap = self._hooks.wrap_oracle
        return Stoppable(_Noted(oracle if wrap is None else wrap(oracle), self), self.stop)

    def note(self, ticket: Ticket) -> None:
        """Count queries."""
        with self._lock:
            self.counts.update(ticket.image.tolist())

    def _queries(self, count: Callable[[int], None], queries: int) -> None:
        with self._lock:
            count(queries)

    def _progress(self, tell: Callable[[Progress], None], group: int, now: Progress) -> None:
        """Tell how far the group is that has come least far."""
        with self._lock:
            self._now[group] = now
            walking = [one for one in self._now.values() if one.images]
            last = min(walking or [now], key=lambda one: one.iteration)
            images, queries = sum(one.images for one in walking), sum(one.queries for one in self._now.values())
            tell(last._replace(images=images, queries=queries))


class _Noted:
    """An oracle below the ledger of one group, with a count of the queries of each image."""

    def __init__(self, oracle: Oracle, watch: _Watch) -> None:
        self._oracle, self._watch, self.device = oracle, watch, device_of(oracle)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        self._watch.note(ticket)
        return self._oracle.ask(points, ticket)


def _some(values: Any, place: np.ndarray) -> Any:
    if values is None or isinstance(values, Pool):
        return values
    return values[torch.from_numpy(place)] if isinstance(values, Tensor) else np.asarray(values)[place]
