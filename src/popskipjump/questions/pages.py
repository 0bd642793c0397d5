"""Pages of answers: self-contained HTML (no network, no script, no other file), and Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from popskipjump.questions.answer import Chart, Line, Marks, Page

WIDTH, HEIGHT = 560.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 10.0, 42.0


class Tick(NamedTuple):
    """A place on an axis."""

    at: float
    text: str


class Drawn(NamedTuple):
    """A line, as SVG writes points: "x,y x,y"."""

    number: int  # which colour
    name: str
    curve: str
    band: str


class Bar(NamedTuple):
    """An interval with its middle."""

    number: int
    low: float
    high: float
    at: float | None  # None where the value is infinite
    y: float


class Plot(NamedTuple):
    """A chart with every place computed."""

    chart: Chart
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    across: list[Tick]
    up: list[Tick]
    lines: list[Drawn]
    bars: list[Bar]
    names: list[str]
    rule: float | None


def render(page: Page) -> str:
    """A page as HTML; everything that comes from outside is escaped."""
    environment = Environment(
        loader=PackageLoader("popskipjump.questions", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("question.html").render(page=page, plots=[plot(chart) for chart in page.charts])


def render_markdown(page: Page) -> str:
    """A page as Markdown, for a pull request or a model card; the charts are left out."""
    sign = {True: "**pass**: ", False: "**attention**: ", None: ""}
    parts = [f"# {_escaped(page.title)}", sign[page.good] + _escaped(page.headline)]
    parts += [_escaped(text) for text in page.words]
    for finding in page.findings:
        said = (("what we saw", finding.saw), ("what it means", finding.means), ("what to do", finding.do))
        parts.append(f"## {_escaped(finding.name)}\n" + "\n".join(f"- {name}: {_escaped(text)}" for name, text in said))
    for table in page.tables:
        rows = [table.head, tuple("---" for _ in table.head), *table.rows]
        body = "\n".join("| " + " | ".join(map(_escaped, row)) + " |" for row in rows)
        parts.append(f"## {_escaped(table.title)}\n{body}")
    if page.limits:
        parts.append("## What this does not show\n" + "\n".join(f"- {_escaped(text)}" for text in page.limits))
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    plain = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_|<>[]#" else c for c in plain) if plain.strip("-") else plain


def plot(chart: Chart) -> Plot:
    """Where everything of a chart lies."""
    right = WIDTH - RIGHT
    marked = sum(len(marks.x) for marks in chart.marks)
    height = max(HEIGHT, TOP + BOTTOM + 11.0 * marked) if not chart.lines else HEIGHT
    bottom = height - BOTTOM
    shown: list[Line | Marks] = [*chart.lines, *chart.marks]
    first, last = _extent([_finite_x(item) for item in shown], chart.rule)
    floor, roof = _extent([_finite_y(line) for line in chart.lines], None) if chart.lines else (0.0, 1.0)

    def x(value: np.ndarray | float) -> np.ndarray:
        return LEFT + (right - LEFT) * (np.clip(value, first, last) - first) / (last - first)

    def y(value: np.ndarray | float) -> np.ndarray:
        return bottom - (bottom - TOP) * (np.clip(value, floor, roof) - floor) / (roof - floor)

    drawn = []
    for number, line in enumerate(chart.lines):
        low, high = (line.y if part is None else part for part in (line.low, line.high))
        (across, up), (edge, below), (_, above) = (_corners(line, part) for part in (line.y, low, high))
        band = _points(np.concatenate((x(edge), x(edge)[::-1])), np.concatenate((y(below), y(above)[::-1])))
        drawn.append(Drawn(number, line.name, _points(x(across), y(up)), "" if line.low is None else band))
    return Plot(
        chart=chart,
        width=WIDTH,
        height=height,
        left=LEFT,
        right=right,
        top=TOP,
        bottom=bottom,
        across=[Tick(float(x(tick)), f"{tick:g}") for tick in ticks(first, last)],
        up=[Tick(float(y(tick)), f"{tick:g}") for tick in ticks(floor, roof)] if chart.lines else [],
        lines=drawn,
        bars=_bars(chart.marks, x, bottom),
        names=[item.name for item in shown],
        rule=None if chart.rule is None else float(x(chart.rule)),
    )


def _bars(groups: tuple[Marks, ...], x: Callable[[float], np.ndarray], bottom: float) -> list[Bar]:
    total = max(sum(len(marks.x) for marks in groups), 1)
    step = (bottom - TOP) / total
    bars: list[Bar] = []
    for number, marks in enumerate(groups):
        for at, low, high in zip(marks.x, marks.low, marks.high, strict=True):
            ends = [float(x(v)) for v in (low, high)]
            where = float(x(at)) if math.isfinite(at) else None
            bars.append(Bar(number, ends[0], ends[1], where, TOP + step * (len(bars) + 0.5)))
    return bars


def _finite_x(item: Line | Marks) -> np.ndarray:
    values = item.x if isinstance(item, Line) else np.concatenate((item.x, item.low, item.high))
    return np.asarray(values[np.isfinite(values)])


def _finite_y(line: Line) -> np.ndarray:
    parts = [part for part in (line.y, line.low, line.high) if part is not None]
    values = np.concatenate(parts)
    return np.asarray(values[np.isfinite(values)])


def _extent(groups: list[np.ndarray], also: float | None) -> tuple[float, float]:
    values = np.concatenate([*groups, np.array([] if also is None else [also])])
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (min(low, 0.0), high) if high > 0 and low < 0.5 * high else (low, high) if high > low else (low, low + 1)


def _corners(line: Line, up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line through its points, or its steps."""
    return (np.repeat(line.x, 2)[1:], np.repeat(up, 2)[:-1]) if line.steps else (line.x, up)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two: about four to eight."""
    size = 10.0 ** math.floor(math.log10((high - low) / 2))
    step = next(size * k for k in (1, 2, 5, 10, 20) if (high - low) / (size * k) <= 7)
    return [float(f"{step * k:.10g}") for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _points(across: np.ndarray, up: np.ndarray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
