"""`evaluate` with a folder: results are stored image by image, so that an interrupted evaluation can be resumed."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump import Pool, Report
from popskipjump.attacks import Retry, Trace
from popskipjump.errors import InputError
from popskipjump.evaluation.before_after import warnings_of_noise
from popskipjump.evaluation.inputs import (
    DEFAULT_ATTACK,
    Array,
    AttackConfig,
    budget_of,
    images_of,
    labels_of,
    starts_of,
)
from popskipjump.evaluation.report import Probes
from popskipjump.evaluation.spaced import described, wants_space
from popskipjump.evaluation.spaced_report import in_space
from popskipjump.geometry import Norm, norm_of
from popskipjump.metrics import Verdict
from popskipjump.oracles import NoiseModel, TorchModel
from popskipjump.oracles.traits import classes_of, module_of
from popskipjump.runs.collect import RunProgress, collect
from popskipjump.runs.data import RunData, load
from popskipjump.runs.engine import Engine
from popskipjump.runs.source import Place, Source, digest_of
from popskipjump.sigmoid import Estimate
from popskipjump.space import Space
from popskipjump.storage.files import write_whole
from popskipjump.types import Bounds, Status

SCHEMA = 1  # of report.json
NO_BORDER_TRACE = (
    "border distances by iteration were left out of some traces, as the points of every iteration did not fit into the "
    "stated memory; points, distances and queries are not affected."
)
REPORT, POINTS = "report.json", "points.npz"
OUTCOMES = "outcomes.json"  # what became of every query to a server, by image: whoever asked it writes this file


def evaluate_in(
    out: str | Path, model: Any, images: Array, labels: Array | Sequence[int],
    attack: str | AttackConfig = DEFAULT_ATTACK, noise: str | NoiseModel | None = None, norm: str | Norm = "l2",
    targets: Array | Sequence[int] | None = None, starts: Array | Pool | None = None,
    votes: int = 1, iterations: int | None = None, budget: int | None = None,
    bounds: tuple[float, float] | tuple[Array, Array] = (0.0, 1.0), seed: int = 0, *,
    space: Space | None = None, mask: Array | None = None, scale: str | float | Array | None = None,
    stop_distance: float | None = None, verdict: int = 0, name: str | None = None, digest: str | None = None,
    retry: Retry | None = None, engine: Engine | None = None, memory: int | None = None,
    on_queries: Callable[[int], None] | None = None, on_progress: Callable[[RunProgress], None] | None = None,
    on_note: Callable[[str], None] | None = None) -> Report:  # fmt: skip
    """`evaluate`, kept in the folder `out`; the same call again goes on, and asks nothing that was answered.

    Args:
        out: the run's folder, made if need be. `psj runs`, `psj report` and `load` read it.
        model: see `evaluate`. A torch module is known by its class and a digest of its weights. Anything else cannot
            be told from its content: give it a `name` and a `digest`.
        images: see `evaluate`, as all arguments up to `verdict`.
        labels: see `evaluate`.
        attack: see `evaluate`.
        noise: see `evaluate`.
        norm: see `evaluate`.
        targets: see `evaluate`.
        starts: see `evaluate`.
        votes: see `evaluate`.
        iterations: see `evaluate`.
        budget: see `evaluate`.
        bounds: see `evaluate`.
        seed: see `evaluate`.
        space: see `evaluate`; the images are an array all the same.
        mask: see `evaluate`.
        scale: see `evaluate`.
        stop_distance: see `evaluate`.
        verdict: see `evaluate`.
        name: what to call the model; needed for functions and oracles.
        digest: what changes when the model does: a version, a date, a checksum; needed for functions and oracles.
        retry: see `evaluate`. It is no part of the spec: the same run may go on with another one.
        engine: see `collect`; such as `RayEngine(workers=4)` of `popskipjump.integrations.ray`.
        memory: see `collect`.
        on_queries: see `collect`.
        on_progress: see `collect`.
        on_note: see `collect`.

    Raises:
        InputError: something cannot be used, or the folder holds the run of another spec.
        StorageError: see `collect`.
        KeyboardInterrupt: Ctrl-C; what was answered is kept, and the same call goes on from there.
    """
    within = _Within(space, mask, scale, bounds)
    source = replace(_given(model, images, labels, targets, starts, within, name, digest), retry=retry)
    choices: dict[str, Any] = {"iterations": iterations} if iterations is not None else {}
    choices |= {"starts": "noise"} if starts is None else {}
    choices |= {"votes": votes, "seed": seed, "stop_distance": stop_distance, "verdict": verdict}
    size, most = norm if isinstance(norm, str) else norm.name, budget_of(attack, iterations, budget)
    spec = source.spec(attack=attack, noise=noise, norm=size, budget=most, **choices)
    folder = Path(out)
    hooks: dict[str, Any] = {"on_queries": on_queries, "on_progress": on_progress, "on_note": on_note}
    hooks |= {"engine": engine, "memory": memory}
    data = collect(spec, range(len(source.images)), folder.parent, source=source, name=folder.name, **hooks)
    write_results(folder)
    return report_of(data)


class _Within(NamedTuple):
    """Which inputs are valid, as `evaluate_in` is told."""

    space: Space | None
    mask: Array | None
    scale: str | float | Array | None
    bounds: Any


def _given(
    model: Any,
    images: Array,
    labels: Array | Sequence[int],
    targets: Array | Sequence[int] | None,
    starts: Array | Pool | None,
    within: _Within,
    name: str | None,
    digest: str | None,
) -> Source:
    """What was passed to `evaluate_in`, checked, as the source of a run."""
    spaced = wants_space(*within)
    box = Bounds(-math.inf, math.inf) if spaced else Bounds.of(within.bounds)  # a space has its own
    batch = images_of(images, box)
    truth = labels_of(labels, len(batch))
    begin = starts_of(starts, batch, box)
    where: dict[str, Any] = {"bounds": (box.low, box.high)}
    if spaced:
        where = dict(zip(("space", "masks"), described(*within, tuple(batch.shape)), strict=True))
    return Source(
        dataset="given",
        data=digest_of(batch.numpy(), truth.numpy()),
        images=batch.numpy(),
        labels=truth.numpy(),
        classes=classes_of(model) or int(truth.max()) + 1,
        place=Place("given", None, None, None),
        targets=None if targets is None else labels_of(targets, len(batch), "targets").numpy(),
        starts=begin.numpy() if isinstance(begin, Tensor) else begin,
        **where,
        **_named(model, name, digest),
    )


def _named(model: Any, name: str | None, digest: str | None) -> dict[str, Any]:
    """The model and what a spec calls it."""
    module = module_of(model)
    if module is not None:
        weights = [value.detach().cpu().numpy() for _, value in sorted(module.state_dict().items())]
        found = {"model_name": name or type(module).__name__, "weights": digest or digest_of(*weights)}
        return found | {"model": TorchModel(model) if isinstance(model, nn.Module) else model}
    if name is None or digest is None:
        raise InputError(
            f"a {type(model).__name__} cannot be known by its content, so that a run could mix answers of two models: "
            'give it a name and a digest of your choice, such as name="my-service", digest="2024-05".'
        )
    return {"model_name": name, "weights": digest, "model": model}


def report_of(data: RunData) -> Report:
    """The results of a run as a `Report`; traces have no points, and there is no white box."""
    trace = {part: torch.from_numpy(values.copy()) for part, values in data.trace_sigmoid.items()}
    probed = data.probe_asked.shape[1] > 0
    asked = bool(data.verdict_queries.any())
    verdict = (data.verdict_probability, data.verdict_low, data.verdict_high, data.verdict_queries)
    rows = {int(image): row for row, image in enumerate(data.image_ids)}
    report = Report(
        points=data.points,
        distances=data.distances,
        walked=data.trace_distance[-1].copy(),
        success=np.array([status.ended_well or status is Status.MISCLASSIFIED for status in data.status]),
        adversarial_labels=np.full(len(data.status), -1)
        if data.adversarial_labels is None
        else data.adversarial_labels,
        queries=data.queries,
        queries_by_phase=data.queries_by_phase,
        status=data.status,
        messages={rows[image]: text for image, text in data.messages.items()},
        warnings=[],
        border_distances=None if bool(np.isnan(data.border_distances).all()) else data.border_distances,
        verdict=Verdict(*(torch.from_numpy(part.copy()) for part in verdict)) if asked else None,
        sigmoid=None if data.sigmoid is None else Estimate(*(torch.from_numpy(v.copy()) for v in data.sigmoid.T)),
        probes=Probes(data.probe_position, data.probe_asked, data.probe_adversarial) if probed else None,
        trace=Trace(
            distance=torch.from_numpy(data.trace_distance.copy()),
            queries=torch.from_numpy(data.trace_queries.copy()),
            points=None,
            **trace,
        ),
        images=data.originals,
        labels=data.labels,
        targets=data.targets,
        norm=norm_of(data.spec.norm),
        bounds=Bounds.of(data.spec.bounds),
        title=f"{data.spec.attack_words}, noise {data.spec.noise or 'none'}",
        white_box=None,
    )
    if bool((np.isfinite(data.border_distances) & np.isnan(data.trace_border).all(axis=0)).any()):
        report.warnings.append(NO_BORDER_TRACE)
    # A run does not keep where a walk ended before the settle phase, so that nothing is said about what it moved.
    settled = replace(report, walked=report.distances)
    config, votes = data.spec.attack.config(data.spec.iterations), data.spec.votes
    report.warnings.extend(warnings_of_noise(settled, config, votes, ours=data.spec.noise is not None))
    if data.spec.space is None:
        return report
    space = Space.from_json(data.spec.space)
    free = np.full(len(data.status), space.mask.sum()) if data.free is None else data.free
    return in_space(report, space, free)


def write_results(folder: Path, command: Mapping[str, Any] | None = None) -> tuple[Path, Path]:
    """Write `report.json` and `points.npz` of all finished images into the run's folder.

    Args:
        folder: of the run.
        command: the options of the command that made the run; None for the run's spec.
    """
    data = load(folder)
    spec = data.spec.model_dump(mode="json")
    said = dict(command or spec)
    if data.spec.space is not None:
        said["space"] = data.spec.space | {"digest": Space.from_json(data.spec.space).digest}
    about = {
        "spec": said,
        "run": spec,
        "versions": data.versions[-1][1] if data.versions else {},
        "seconds": round(float(data.seconds.sum()), 3),
    }
    return write_report(folder, report_of(data), data.image_ids, about)


def write_report(folder: Path, report: Report, image_ids: np.ndarray, about: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write `report.json` and `points.npz` of a report into a folder.

    Args:
        folder: that exists.
        report: of B images.
        image_ids: `(B,)`.
        about: what else `report.json` should say: the command, versions, seconds.
    """
    images = [_image(report, row, int(number)) for row, number in enumerate(image_ids)]
    if (folder / OUTCOMES).is_file():
        counted = {entry.pop("image"): entry for entry in json.loads((folder / OUTCOMES).read_bytes())["images"]}
        images = [{**entry, "outcomes": counted.get(entry["image"])} for entry in images]
    content = report_content(report, image_ids, about) | {"images": images}
    arrays = {"points": report.points, "originals": report.images, "labels": report.labels, "image_ids": image_ids}
    if report.targets is not None:
        arrays["targets"] = report.targets
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    write_whole(folder / REPORT, text.encode())
    write_whole(folder / POINTS, buffer.getvalue())
    return folder / REPORT, folder / POINTS


def report_content(report: Report, image_ids: np.ndarray, about: Mapping[str, Any]) -> dict[str, Any]:
    """What `report.json` says; see `write_report`."""
    images = [_image(report, row, int(number)) for row, number in enumerate(image_ids)]
    return {"schema": SCHEMA, "title": report.title, **about, "images": images}


def _image(report: Report, row: int, image_id: int) -> dict[str, Any]:
    """All that is known of one image, as JSON has it: what is not finite is null."""
    status = report.status[row]
    entry: dict[str, Any] = {
        "image": image_id,
        "label": int(report.labels[row]),
        "adversarial_label": int(report.adversarial_labels[row]) if report.adversarial_labels[row] >= 0 else None,
        "target": None if report.targets is None else int(report.targets[row]),
        "status": status.name,
        "meaning": status.value,
        "message": report.messages.get(row),
        "distance": _number(report.distances[row]),
        "border_distance": None if report.border_distances is None else _number(report.border_distances[row]),
        "queries": int(report.queries[row]),
        "queries_by_phase": {phase: int(count[row]) for phase, count in report.queries_by_phase.items()},
        "verdict": None,
        "sigmoid": None,
    }
    if report.verdict is not None and int(report.verdict.queries[row]):
        probability, low, high, queries = (value[row].item() for value in report.verdict)
        entry["verdict"] = {"probability": probability, "low": low, "high": high, "queries": int(queries)}
    if report.sigmoid is not None and math.isfinite(float(report.sigmoid.centre[row])):
        names = ("centre", "log10_slope", "floor_adversarial", "floor_original")
        entry["sigmoid"] = {name: _number(value[row]) for name, value in zip(names, report.sigmoid, strict=True)}
    return entry


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
