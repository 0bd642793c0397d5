"""Views of a report: numbers in a dictionary, columns, an HTML table; figures and pages are imported by name.

What draws lies in layers above this one. It is therefore named here and imported when it is called.
"""

from __future__ import annotations

import html
import importlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from popskipjump.types import Status

if TYPE_CHECKING:
    from popskipjump.evaluation.report import Report

_DRAWN = {"plot": "popskipjump.experiments.report_views", "to_html": "popskipjump.experiments.report_views"}
_SHOWN = 12  # rows of the table in a notebook


def drawn(view: str, report: Report, **options: Any) -> Any:
    """Call a view that lies above this layer."""
    return getattr(importlib.import_module(_DRAWN[view]), view)(report, **options)


def attacked(report: Report) -> np.ndarray:
    """Images with a point that was found by the attack: bool `(B,)`."""
    at_once = np.array([state is Status.MISCLASSIFIED for state in report.status], dtype=bool)
    return np.asarray(np.isfinite(report.distances) & ~at_once)


def _median(values: np.ndarray | None, chosen: np.ndarray) -> float | None:
    return None if values is None or not chosen.any() else float(np.median(values[chosen]))


def summary(report: Report) -> dict[str, Any]:
    """The report in a few numbers, as JSON has them; medians are over the attacked images."""
    chosen = attacked(report)
    return {
        "title": report.title,
        "norm": report.norm.name,
        "images": len(report.status),
        "attacked": int(chosen.sum()),
        "confirmed": int(report.success.sum()),
        "success_rate": float(report.success.mean()),
        "status": {state.name: count for state, count in Counter(report.status).most_common()},
        "median_distance": _median(report.distances, chosen),
        "median_border_distance": _median(report.border_distances, chosen),
        "median_queries": _median(report.queries, chosen),
        "queries": int(report.queries.sum()),
    }


def columns(report: Report) -> dict[str, Any]:
    """One entry per image in every column."""
    found: dict[str, Any] = {
        "label": report.labels,
        "adversarial_label": report.adversarial_labels,
        "status": [state.name for state in report.status],
        "success": report.success,
        "distance": report.distances,
        "queries": report.queries,
    }
    if report.targets is not None:
        found["target"] = report.targets
    if report.border_distances is not None:
        found["border_distance"] = report.border_distances
    if report.verdict is not None:
        found["p_adversarial"] = np.asarray(report.verdict.probability)
        found["p_low"], found["p_high"] = np.asarray(report.verdict.low), np.asarray(report.verdict.high)
    return found | {f"queries_{phase}": count for phase, count in report.queries_by_phase.items()}


def confirmed(report: Report) -> str:
    """How many points are confirmed; those that the classifier gets wrong by itself are no success of the attack."""
    text = f"{report.title}: {int(report.success.sum())} of {len(report.status)} images confirmed adversarial"
    wrong = sum(state is Status.MISCLASSIFIED for state in report.status)
    return f"{text}, {wrong} of them misclassified from the start" if wrong else text


def short(report: Report) -> str:
    """One line for a prompt."""
    numbers = summary(report)
    text = confirmed(report)
    if numbers["median_distance"] is not None:
        text += f", median {report.norm.name.upper()} distance {numbers['median_distance']:.4g}"
        text += f", {numbers['median_queries']:,.0f} queries per image"
    return f"<{type(report).__name__} {text}>"


def table(report: Report) -> str:
    """A heading and a row per image as HTML, for a notebook; nothing in it is a script or a link."""
    rows = []
    for row, state in enumerate(report.status[:_SHOWN]):
        good = bool(report.success[row])
        reached = int(report.adversarial_labels[row])
        cells = [
            str(row),
            f"{int(report.labels[row])} → {reached if reached >= 0 else '?'}",
            f'<b style="color:{"#00803e" if good else "#c22"}">{"yes" if good else "NO"}</b>',
            f"{report.distances[row]:.4g}",
            f"{int(report.queries[row]):,}",
            f'<span title="{html.escape(state.value, quote=True)}">{state.name}</span>',
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = ("image", "label", "confirmed", f"{report.norm.name} distance", "queries", "status")
    head = "".join(f"<th>{text}</th>" for text in heads)
    more = len(report.status) - len(rows)
    end = f"<p>and {more} more images</p>" if more > 0 else ""
    text = html.escape(short(report)[1:-1])
    return f"<p><b>{text}</b></p><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{end}"
