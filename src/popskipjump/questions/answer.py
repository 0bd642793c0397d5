"""The answer to a question: words, JSON, and a page with a figure."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from popskipjump import __version__
from popskipjump.storage.files import write_whole

SCHEMA = 1  # of the JSON files


class Line(NamedTuple):
    """A curve over x, with a band around it or without one."""

    name: str
    x: np.ndarray  # (P,)
    y: np.ndarray  # (P,)
    low: np.ndarray | None = None  # (P,)
    high: np.ndarray | None = None  # (P,)
    steps: bool = False  # constant between two x


class Marks(NamedTuple):
    """Places with intervals, one above the other: for example one image each."""

    name: str
    x: np.ndarray  # (P,)
    low: np.ndarray  # (P,)
    high: np.ndarray  # (P,)


class Chart(NamedTuple):
    """A plot in numbers; a template draws it."""

    title: str
    across: str  # names of the axes
    up: str
    lines: tuple[Line, ...] = ()
    marks: tuple[Marks, ...] = ()
    rule: float | None = None  # x of a dotted line, such as a ratio of 1


class Table(NamedTuple):
    """Rows of text under a head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Finding(NamedTuple):
    """One thing that was found out, with its consequence."""

    name: str
    good: bool | None  # None: neither good nor bad
    saw: str  # what we saw
    means: str  # what it means
    do: str  # what to do


class Page(NamedTuple):
    """All that a page says."""

    title: str
    headline: str
    good: bool | None
    words: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    limits: tuple[str, ...] = ()  # what this does not show


class Answer(Protocol):
    """The result of a question."""

    @property
    def name(self) -> str:
        """Of the question and of its files: "certify"."""

    def page(self) -> Page:
        """What the page of this answer says."""


def as_json(value: Any) -> Any:
    """A value as JSON has it: dataclasses and named tuples as objects, arrays as lists, what is not finite as null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    elif isinstance(value, Enum | Path):
        value = value.name if isinstance(value, Enum) else str(value)
    if isinstance(value, dict):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(answer: Answer) -> str:
    """The file of an answer."""
    content = {
        "schema": SCHEMA,
        "question": answer.name,
        "popskipjump": __version__,
        "headline": answer.page().headline,
        "answer": as_json(answer),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def save(answer: Answer, folder: Path, markdown: bool = False) -> list[Path]:
    """Write `NAME.json` and `NAME.html` (and `NAME.md`) into a folder that exists; the paths."""
    from popskipjump.questions.pages import render, render_markdown

    page = answer.page()
    texts = {"json": json_text(answer), "html": render(page)}
    if markdown:
        texts["md"] = render_markdown(page)
    paths = []
    for ending, text in texts.items():
        paths.append(folder / f"{answer.name}.{ending}")
        write_whole(paths[-1], text.encode("utf-8"))
    return paths


def in_words(page: Page) -> str:
    """A page for a terminal."""
    lines = [page.headline, *(f"  {text}" for text in page.words)]
    for finding in page.findings:
        sign = {True: "ok", False: "!!", None: "--"}[finding.good]
        lines += [f"  [{sign}] {finding.name}", f"       saw: {finding.saw}", f"       means: {finding.means}"]
        lines += [f"       do: {finding.do}"]
    for text in page.limits:
        lines.append(f"  note: {text}")
    return "\n".join(lines)
