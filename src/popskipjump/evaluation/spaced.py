"""`evaluate` within a space of allowed changes: the same attacks, on free coordinates in scaled units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.adapters.recognise import recognised
from popskipjump.attacks import Pool
from popskipjump.attacks.protocols import needs_gradient
from popskipjump.errors import InputError, OracleError
from popskipjump.evaluation.hooks import Hooks
from popskipjump.evaluation.inputs import attack_of, images_of, labels_of, oracle_of
from popskipjump.evaluation.joined import joined, without_result
from popskipjump.evaluation.report import Report
from popskipjump.evaluation.spaced_report import spaced
from popskipjump.geometry import norm_of
from popskipjump.noise import describe
from popskipjump.oracles import FunctionModel, Oracle, WhiteBox
from popskipjump.oracles.base import device_of
from popskipjump.space import Chart, Space, SpaceOracle, rules
from popskipjump.space.frames import FrameModel, decoder, encode, is_frame
from popskipjump.space.rules import some
from popskipjump.types import Bounds, Status

_ANYTHING = Bounds(-np.inf, np.inf)  # the space has its own bounds
_DEFAULT_BOUNDS = (0.0, 1.0)


def wants_space(space: object, mask: object, scale: object, bounds: Any) -> bool:
    """Whether a call of `evaluate` speaks of a space."""
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    arrays = pair and any(np.ndim(end) > 0 for end in bounds)
    return arrays or any(value is not None for value in (space, mask, scale))


def evaluate_in_space(evaluate: Callable[..., Report], arguments: Mapping[str, Any]) -> Report:
    """`evaluate` with its own arguments, within the space that they describe.

    Args:
        evaluate: the function itself, called once for each set of images with the same free features.
        arguments: all of its arguments by name.
    """
    given = dict(arguments)
    rest = {name: given.pop(name) for name in ("space", "mask", "scale", "bounds")}
    decode = _without_frames(given, rest["space"])
    names = ("model", "labels", "targets", "starts")
    given |= dict(zip(names, recognised(*(given[name] for name in names)), strict=True))
    batch = images_of(given["images"], _ANYTHING)
    mask = rest.pop("mask")
    space = _space_of(**rest, shape=tuple(batch.shape[1:]))
    count = len(batch)
    given["labels"] = labels_of(given["labels"], count)
    if given["targets"] is not None:
        given["targets"] = labels_of(given["targets"], count, "targets")
    ids = given["image_ids"]
    given["image_ids"] = torch.arange(count) if ids is None else labels_of(ids, count, "image_ids")
    space.check(batch, "images")
    groups = _groups(space, mask, tuple(batch.shape))
    if decode is None and len(groups) == 1 and groups[0][0].is_plain:
        low, high = float(space.low[0]), float(space.high[0])
        return evaluate(**given | {"bounds": (low, high)})
    oracle, white_box = oracle_of(given["model"], given["noise"], given["seed"], tuple(batch.shape[1:]))
    _check_gradient(given, groups)
    hooks = given["hooks"] or Hooks()
    wrap = hooks.wrap_oracle
    whole = _Whole(evaluate, given, batch, oracle if wrap is None else wrap(oracle), white_box)
    charts = [(Chart(of, batch[rows], device_of(oracle)), rows) for of, rows in groups]
    starts = [whole.starts(chart, rows) for chart, rows in charts]  # all are checked before the first query
    report = whole.run(charts, starts)
    free = np.zeros(count, dtype=np.int64)
    for of, rows in groups:
        free[rows.numpy()] = of.mask.sum()
    return spaced(report, groups[0][0] if len(groups) == 1 else space, free, white_box, decode)


def _without_frames(given: dict[str, Any], space: Space | None) -> Callable[[np.ndarray], Any] | None:
    """Replace frames by arrays, and a classifier of frames by one of arrays; the way back to frames, if there were."""
    frame = given["images"]
    if not is_frame(frame):
        return None
    if space is None:
        raise InputError("the images are a frame: pass space=Space.from_frame(...) of rows that the classifier knows.")
    given["images"] = encode(space, frame, "images")
    starts = given["starts"]
    if is_frame(starts):
        given["starts"] = encode(space, starts, "starts")
    elif isinstance(starts, Pool) and is_frame(starts.images):
        given["starts"] = Pool(torch.from_numpy(encode(space, starts.images, "pool images")), starts.labels)
    decode = decoder(space, frame)
    given["model"] = _of_arrays(given["model"], decode)

    def decode_with_index(rows: np.ndarray) -> Any:
        made = decode(rows)
        made.index = frame.index
        return made

    return decode_with_index


def _of_arrays(model: Any, decode: Callable[[np.ndarray], Any]) -> Any:
    """A classifier of frames as one of arrays; the number of its classes is kept, for noise that needs it."""
    if isinstance(model, FunctionModel):
        return FunctionModel(FrameModel(model.function, decode), model.classes)
    if not callable(model) and not hasattr(model, "predict"):
        raise InputError(
            f"the model is {type(model).__name__}: for a frame, pass an estimator or a function of frames."
        )
    classes = getattr(model, "classes_", None)
    counted = classes is not None and np.array_equal(classes, np.arange(len(classes)))
    of_arrays = FrameModel(model, decode)
    return FunctionModel(of_arrays, len(classes)) if counted and classes is not None else of_arrays


def described(
    space: Space | None, mask: Any, scale: Any, bounds: Any, shape: tuple[int, ...]
) -> tuple[Space, np.ndarray | None]:
    """The space that some arguments of `evaluate` describe, and the masks of each image where they are such.

    Args:
        space: see `evaluate`, as the next three.
        mask: one for all images becomes part of the space.
        scale: likewise.
        bounds: likewise.
        shape: of the images, `(B, *S)`.
    """
    found = _space_of(space, scale, bounds, shape[1:])
    if mask is None:
        return _with_free(found, "the space"), None
    array = _array_of(mask)
    if _is_each(array, shape):
        return found, rules.flags(array, shape, "mask").reshape(shape)
    return _with_free(found.with_mask(array), "the mask"), None


def _array_of(mask: Any) -> np.ndarray:
    return mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)


def _is_each(mask: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether it holds a mask of each image of `(B, *S)`."""
    return mask.ndim == len(shape) and mask.shape[0] != 1 and mask.shape[0] == shape[0]


def _space_of(space: Space | None, scale: Any, bounds: Any, shape: tuple[int, ...]) -> Space:
    """The space of a call, without the mask."""
    if space is not None:
        if not isinstance(space, Space):
            raise InputError(f"space must be a psj.Space, not {type(space).__name__}.")
        if scale is not None or wants_space(None, None, None, bounds) or tuple(bounds) != _DEFAULT_BOUNDS:
            raise InputError("the space has its own bounds and scales: leave out `bounds=` and `scale=`.")
        if int(np.prod(shape)) != space.dimension:
            raise InputError(f"the images have the shape {shape}, and the space is of inputs of {space.shape}.")
        return space if space.shape == shape else replace(space, shape=shape)
    if not (isinstance(bounds, tuple | list) and len(bounds) == 2):
        raise InputError("bounds must be two numbers or two arrays (low, high).")
    if scale is None:
        scale = "range" if wants_space(None, None, None, bounds) else 1.0
    return Space(bounds[0], bounds[1], scale=scale, shape=shape)


def _groups(space: Space, mask: Any, shape: tuple[int, ...]) -> list[tuple[Space, Tensor]]:
    """The images `(G,)` of every set of free features: one set, or one for each different mask."""
    if mask is None:
        return [(_with_free(space, "the space"), torch.arange(shape[0]))]
    array = _array_of(mask)
    if not _is_each(array, shape):
        return [(_with_free(space.with_mask(array), "the mask"), torch.arange(shape[0]))]
    found: dict[bytes, list[int]] = {}
    for row, of_image in enumerate(array):
        found.setdefault(np.asarray(of_image, dtype=np.float64).tobytes(), []).append(row)
    return [
        (_with_free(space.with_mask(array[rows[0]]), f"the mask of images {some(rows)}"), torch.tensor(rows))
        for rows in found.values()
    ]


def _with_free(space: Space, what: str) -> Space:
    if not bool(space.mask.any()):
        raise InputError(f"{what} leaves no feature free, so nothing can change: a mask is 1 where a feature may.")
    return space


def _check_gradient(given: Mapping[str, Any], groups: list[tuple[Space, Tensor]]) -> None:
    config = attack_of(given["attack"], given["iterations"])
    affine = all(space.is_continuous and bool(space.mask.all()) for space, _ in groups)
    if needs_gradient(config) and not affine:
        raise InputError("the true gradient needs all features free and without steps: choose another attack.")


@dataclass(frozen=True, eq=False)
class _Whole:
    """The whole call: what its groups of images share."""

    evaluate: Callable[..., Report]
    given: dict[str, Any]
    batch: Tensor  # (B, *S) float32
    oracle: Oracle
    white_box: WhiteBox | None

    def starts(self, chart: Chart, rows: Tensor) -> Tensor | Pool | None:
        """The starting points of some images in free coordinates."""
        starts = self.given["starts"]
        if starts is None:
            return None
        is_pool = isinstance(starts, Pool)
        what = "pool images" if is_pool else "starts"
        points = images_of(starts.images if is_pool else starts, _ANYTHING, what)
        if points.shape[1:] != self.batch.shape[1:] or not (is_pool or len(points) == len(self.batch)):
            raise InputError(f"{what} have the shape {tuple(points.shape)}, images {tuple(self.batch.shape)}.")
        chart.space.check(points, what)
        inside = chart.coordinates(points if is_pool else points[rows]).reshape(-1, *chart.layout).cpu()
        return Pool(inside, starts.labels) if is_pool else inside

    def run(self, charts: list[tuple[Chart, Tensor]], starts: list[Tensor | Pool | None]) -> Report:
        """Evaluate group after group; the report of all images, with points as valid inputs."""
        done: list[tuple[Report, Tensor]] = []
        missing: list[tuple[Tensor, Status, str, Tensor]] = []
        failure: OracleError | None = None
        stopped = False
        for (chart, rows), begin in zip(charts, starts, strict=True):
            if stopped:
                missing.append((rows, Status.INTERRUPTED, "", torch.zeros(len(rows), dtype=torch.int64)))
                continue
            oracle = SpaceOracle(self.oracle, chart, self.given["image_ids"][rows])
            try:
                report = self._one(chart, rows, begin, oracle)
            except OracleError as error:  # one group's failure is not that of the others
                failure = error
                missing.append((rows, Status.ORACLE_FAILED, str(error), oracle.asked))
                continue
            done.append((report, rows))
            stopped = Status.INTERRUPTED in report.status
        if not done and failure is not None:
            raise failure
        template = done[0][0]
        done += [(without_result(template, self.batch[rows], why, text, n), rows) for rows, why, text, n in missing]
        return joined(done)

    def _one(self, chart: Chart, rows: Tensor, begin: Tensor | Pool | None, oracle: SpaceOracle) -> Report:
        given = self.given
        report = self.evaluate(
            **given
            | {
                "model": oracle,
                "images": chart.start.cpu().reshape(-1, *chart.layout),
                "labels": given["labels"][rows],
                "targets": None if given["targets"] is None else given["targets"][rows],
                "image_ids": given["image_ids"][rows],
                "noise": None,
                "starts": begin,
                "bounds": (0.0, chart.top),
                "hooks": replace(given["hooks"] or Hooks(), wrap_oracle=None),
            }
        )
        return self._outside(report, chart, rows)

    def _outside(self, report: Report, chart: Chart, rows: Tensor) -> Report:
        """A group's report with valid inputs for points, and their distances."""
        shape, original = (len(rows), *self.batch.shape[1:]), self.batch[rows].numpy()
        everyone = torch.arange(len(rows), device=chart.device)
        norm = norm_of(self.given["norm"])

        def valid(points: Any) -> np.ndarray:
            there = torch.as_tensor(points).reshape(len(rows), -1).to(chart.device)
            return np.asarray(chart.expand(there, everyone).cpu().numpy().reshape(shape))

        points = valid(report.points)
        found = np.isfinite(report.distances)
        distances = np.where(found, chart.space.distance(points, original, norm), report.distances)
        trace = report.trace
        if trace.points is not None:
            moved = [valid(of_step) for of_step in trace.points]
            sizes = np.stack([chart.space.distance(of_step, original, norm) for of_step in moved])
            known = torch.isfinite(trace.distance)
            distance = torch.where(known, torch.from_numpy(sizes), trace.distance)
            flat = torch.from_numpy(np.stack(moved)).flatten(2)
            trace = replace(trace, points=flat, distance=distance)
        title = report.title
        if self.given["noise"] is not None:
            title = title.replace("noise none", f"noise {describe(self.given['noise'])}")
        return replace(report, points=points, distances=distances, trace=trace, images=original, title=title)
