"""Progress line of a command: images done, queries so far, and the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from popskipjump import attacks

_GROWTH = 1.5  # iteration t asks about sqrt(t) queries, so t iterations are about t^1.5 of work
_QUIET = 30.0  # seconds between lines where there is no terminal: logs of CI and of clusters
_WHOLE_RUN = 1e9  # seconds: the time that is left follows from the whole run, as single iterations may take minutes


class _Queries(ProgressColumn):
    """The count of queries, read when the line is drawn."""

    def __init__(self, bar: Bar) -> None:
        super().__init__(Column(no_wrap=True))
        self._bar = bar

    def render(self, task: Task) -> Text:
        return Text(f"{self._bar.asked:,} queries", style="cyan")


class _Left(ProgressColumn):
    """How long it will take, and in the end how long it took."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text(f"in {timedelta(seconds=int(task.finished_time or 0))}")
        seconds = task.time_remaining
        return Text("- left" if seconds is None else f"{timedelta(seconds=int(seconds))} left")


class Bar:
    """A progress bar over one or several stages of known relative work; it appears with the first query.

    Where the console is no terminal, a plain line is written every 30 seconds instead.
    """

    def __init__(self, console: Console, work: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.asked = 0
        self._console, self._clock = console, clock
        self._said = clock()
        self._before, self._stage = 0.0, 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:3.0f}%"),
            _Queries(self),
            _Left(Column(no_wrap=True)),
            console=console,
            speed_estimate_period=_WHOLE_RUN,
        )
        self._task = self._bar.add_task("", total=work, start=False)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.asked:
            self._bar.stop()

    def stage(self, name: str, work: float = 1.0) -> None:
        """Begin the next stage; the one before is done."""
        self._before += self._stage
        self._stage = work
        self._bar.update(self._task, description=name, completed=self._before)

    def iteration(self, progress: attacks.Progress) -> None:
        """After an iteration of the attack; see `evaluate(on_progress=)`."""
        self.share(1.0 if not progress.images else (progress.iteration / max(progress.iterations, 1)) ** _GROWTH)

    def share(self, share: float) -> None:
        """After a part of the stage, in [0, 1]."""
        self._bar.update(self._task, completed=self._before + self._stage * share)

    def within(self, name: str, work: float, share: float) -> None:
        """A part of a stage that begins when it is first heard of: where it is."""
        if self._bar.tasks[0].description != name:
            self.stage(name, work)
        self.share(share)
        self._say_at_times()

    def queries(self, count: int) -> None:
        """After a call to the classifier; see `evaluate(on_queries=)`."""
        if not self.asked:  # what is wrong with the input has been said by now
            self._bar.start_task(self._task)
            self._bar.start()
        self.asked += count
        self._say_at_times()

    def _say_at_times(self) -> None:
        if not self._console.is_terminal and self._clock() - self._said >= _QUIET:
            self._say()

    def _say(self) -> None:
        """One line for a log."""
        self._said = self._clock()
        task = self._bar.tasks[0]
        left = "" if task.time_remaining is None else f", {timedelta(seconds=int(task.time_remaining))} left"
        self._console.print(f"{task.description}: {task.percentage:.0f}%, {self.asked:,} queries{left}", markup=False)

    def done(self, name: str | None = None) -> None:
        """Fill the bar, and say what was done: the name of its last stage, unless another is given."""
        self._bar.update(self._task, completed=self._bar.tasks[0].total, description=name)
