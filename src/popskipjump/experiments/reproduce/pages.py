"""Output files of an experiment: the table, the figure, and the page with its finding."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from popskipjump.errors import DataError, InputError
from popskipjump.experiments.reproduce.base import Cell, Evidence, Experiment, Finding, Table, in_words, judged

SCHEMA = 1  # of result.json
FILES = ("table.csv", "table.md", "figure.png", "figure.svg", "page.md", "page.html", "result.json")
WORDS = {True: "yes", False: "no", None: "undecided"}


@dataclass(frozen=True)
class Origin:
    """Where the numbers come from."""

    command: str
    date: str
    seed: int
    preset: str
    dataset: str
    model: str
    machine: str
    versions: Mapping[str, str]


def write_experiment(folder: Path, experiment: Experiment, evidence: Evidence, origin: Origin) -> Finding:
    """Write everything about one experiment into its folder; files of an earlier time are replaced, one by one."""
    table, (finding, claims) = experiment.table(evidence), judged(experiment, evidence)
    figure = experiment.draw(evidence)
    headline, ours = experiment.headline(evidence), experiment.ours(evidence)
    figure.suptitle(headline, fontsize=10, x=0.01, ha="left", wrap=True)
    notes = experiment.notes(evidence.setup)
    result = {
        "schema": SCHEMA,
        "name": experiment.name,
        "title": experiment.title,
        "claim": experiment.claim,
        "supported": finding.supported,
        "headline": headline,
        "finding": finding.sentence,
        "ours": ours,
        "claims": {str(number): value for number, value in claims.items()},
        "reasons": {str(number): words for number, words in experiment.reasons(evidence).items()},
        "notes": notes,
        "images": in_words(experiment.sample(evidence)),
        "origin": {**origin.__dict__, "versions": dict(origin.versions)},
        "columns": list(table.columns),
        "rows": [[_plain(cell) for cell in row] for row in table.rows],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / "table.csv", csv_of(table).encode())
        _put(folder / "table.md", f"{markdown_of(table)}\n".encode())
        _put(folder / "figure.png", _image(figure, "png"))
        _put(folder / "figure.svg", _image(figure, "svg"))
        _put(
            folder / "result.json", (json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
        )
        _put(folder / "page.md", page_of(result, markdown_of(table)).encode())
        _put(folder / "page.html", html_of(result, table, figure).encode())
    except OSError as error:
        raise InputError(
            f"the results cannot be written to {folder} ({error.strerror}): choose another --out."
        ) from error
    return finding


def page_of(result: Mapping[str, Any], table: str) -> str:
    """The page, in Markdown."""
    origin = result["origin"]
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    lines = [
        f"# {result['title']}",
        "",
        f"{result['headline']}.",
        "",
        f"**The paper's claim.** {result['claim']}",
        "",
        f"**Do our numbers support it? {WORDS[result['supported']].capitalize()}.** {result['finding']}",
        "",
        *([f"**Our own attack.** {result['ours']}", ""] if result.get("ours") else []),
        f"{sample_of(result)} `{origin['command']}`; {versions}.",
        *[f"\n{note}" for note in result["notes"]],
        "",
        "![the figure](figure.png)",
        "",
        table,
        "",
    ]
    return "\n".join(lines)


def html_of(result: Mapping[str, Any], table: Table, figure: Figure) -> str:
    """The page in HTML, in one file; on a narrow screen its text is as large, and wide figures and tables scroll."""
    environment = Environment(
        loader=PackageLoader("popskipjump.experiments", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("reproduced.html").render(
        result=result,
        verdict=WORDS[result["supported"]],
        rows=[[_shown(cell).replace("\\|", "|") for cell in row] for row in table.rows],
        figure="data:image/png;base64," + base64.b64encode(_image(figure, "png")).decode(),
        narrowest=round(60 * figure.get_figwidth()),  # below this its smallest letters cannot be read
        sample=sample_of(result),
    )


def sample_of(result: Mapping[str, Any]) -> str:
    """What was measured, in a sentence."""
    origin = result["origin"]
    images = (
        "Simulated answers"
        if result["images"] == "no image"
        else f"{result['images'].capitalize()} of {origin['dataset']}"
    )
    machine = f", {origin['machine']}" if origin.get("machine") else ""  # results of earlier versions have none
    return f'{images}, {origin["model"]}, size "{origin["preset"]}", seed {origin["seed"]}, {origin["date"]}{machine}.'


def csv_of(table: Table) -> str:
    """The table for programs: full numbers, empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return text.getvalue()


def markdown_of(table: Table) -> str:
    """The table for people."""
    lines = [f"| {' | '.join(table.columns)} |", "|" + "---|" * len(table.columns)]
    lines += [f"| {' | '.join(_shown(cell) for cell in row)} |" for row in table.rows]
    return "\n".join(lines)


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell.replace("|", "\\|")
    if isinstance(cell, float) and not math.isfinite(cell):
        return "–" if math.isnan(cell) else "∞"
    return f"{cell:,}" if isinstance(cell, int) else f"{cell + 0.0:g}"  # no minus before a zero


def _plain(cell: Cell) -> Cell:
    """A cell as JSON has it: what is not finite is text."""
    return _shown(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell


def _image(figure: Figure, kind: str) -> bytes:
    data = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with mpl.rc_context({"svg.hashsalt": "popskipjump"}):  # so that the same figure is the same file
        figure.savefig(data, format=kind, metadata=metadata)
    return data.getvalue()


def _put(path: Path, content: bytes) -> None:
    """Write a file so that it is either the old one or the new one, whatever happens."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    os.replace(part, path)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Keep what was measured."""
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, data.getvalue())
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): choose another --out.") from error


def load_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """What was measured before; None if nothing was."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}): delete it, and it will be measured again.") from error
