"""Data of `psj watch`: the state of a run and the steps of its images, as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from popskipjump.experiments.charts import sigmoid_chart
from popskipjump.experiments.pictures import difference, gain_of, picture
from popskipjump.runs.steps import STEPS, kept_steps, read_steps, unpacked_picture
from popskipjump.storage import RunFolder
from popskipjump.storage.folder import info, read_spec

_TEMPLATE, _SCRIPT = "watch.html", "watch.js"


def page_of(folder: Path, *, live: bool) -> str:
    """The page of a run.

    Args:
        folder: of the run.
        live: the page asks the server for news; False puts all that is known into the page.

    Raises:
        StorageError: the folder holds no run.
    """
    read_spec(folder)
    environment = Environment(
        loader=PackageLoader("popskipjump.experiments", "templates"), autoescape=True, undefined=StrictUndefined
    )
    loader = environment.loader
    script = "" if loader is None else loader.get_source(environment, _SCRIPT)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    known: dict[str, Any] = {"state": state_of(folder), "images": {}}
    if not live:
        known["images"] = {str(image): steps_of(folder, image) for image in kept_steps(folder)}
    data = json.dumps(known, allow_nan=False).replace("<", "\\u003c")  # no end of the script's element within
    nonce = secrets.token_urlsafe(16)
    return environment.get_template(_TEMPLATE).render(
        script=script, digest=digest, data=data, live=live, nonce=nonce, name=folder.resolve().name
    )


def state_of(folder: Path) -> dict[str, Any]:
    """The state of a run at a glance.

    Raises:
        StorageError: the folder holds no run.
    """
    found = info(folder)
    spec = read_spec(folder)
    return {
        "name": folder.resolve().name,
        "words": spec.words,
        "norm": {"l2": "ℓ₂", "linf": "ℓ∞"}[spec.norm],
        "state": found.state,
        "finished": found.finished,
        "asked": found.asked,
        "queries": found.queries + found.journalled,
        "images": kept_steps(folder),
        "changed": _changed(folder),
    }


def steps_of(folder: Path, image: int) -> dict[str, Any] | None:
    """The steps of an image, ready to be drawn; None if the run keeps none of it."""
    found = read_steps(folder, image)
    if found is None:
        return None
    about, steps = found
    original = unpacked_picture(about.get("picture"))
    label = about.get("label")
    return {
        "image": image,
        "label": label,
        "original": None if original is None else picture(original),
        "steps": [view for step in steps if (view := _step(step, original)) is not None],
        "result": _result(folder, image),
    }


def _step(step: dict[str, Any], original: np.ndarray | None) -> dict[str, Any] | None:
    """One step; None where a line of the file makes no sense."""
    try:
        shown = _pictures(unpacked_picture(step.get("picture")), original)
        return {
            "step": int(step["step"]),
            "queries": int(step["queries"]),
            "distance": _finite(step["distance"]),
            "position": _finite(step["position"]),
            "length": _finite(step["gap"]),
            "changed": [f"{int(i)}: {before:.4g} → {after:.4g}" for i, before, after in step.get("changed", [])],
            "chart": _chart(step),
            **shown,
        }
    except (KeyError, TypeError, ValueError):
        return None


def _pictures(point: np.ndarray | None, original: np.ndarray | None) -> dict[str, Any]:
    if point is None or original is None or point.shape != original.shape:
        return {"point": None, "difference": None, "gain": None}
    change = point - original
    gain = gain_of(change)
    return {"point": picture(point), "difference": difference(change, gain), "gain": f"{gain:g}"}


def _chart(step: dict[str, Any]) -> dict[str, Any] | None:
    """The fitted sigmoid with the answers on the search line; None without a fit."""
    fit, places = step.get("sigmoid"), int(step.get("places", 0))
    if not fit or any(value is None for value in fit) or places > 100_000:
        return None
    asked, adversarial = np.zeros(places, dtype=np.int64), np.zeros(places, dtype=np.int64)
    for place, count, yes in step.get("probes", []):
        if 0 <= int(place) < places:
            asked[int(place)], adversarial[int(place)] = int(count), int(yes)
    centre, slope, low, high = (float(value) for value in fit)
    chart = sigmoid_chart(centre, slope, low, high, asked, adversarial)
    if chart is None:
        return None
    found = chart._asdict()
    return found | {"dots": [list(dot) for dot in chart.dots]}


def _result(folder: Path, image: int) -> dict[str, Any] | None:
    """How the image ended, once it has."""
    with RunFolder.reading(folder) as run:
        if image not in set(run.finished()):
            return None
        result = run.results([image])[0]
    reached = int(result.arrays.get("adversarial_label", np.array(-1)))
    return {
        "status": result.status,
        "distance": _finite(result.distance),
        "queries": result.queries,
        "label": reached if reached >= 0 else None,
    }


def _changed(folder: Path) -> float:
    """When a step was written last: seconds, for a page that asks only for what is new."""
    try:
        return max((path.stat().st_mtime for path in (folder / STEPS).glob("*.jsonl")), default=0.0)
    except OSError:
        return 0.0


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(float(value)) else None
