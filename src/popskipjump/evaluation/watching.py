"""`evaluate(progress=True)`: one live line in a terminal or a notebook, a line every 30 seconds in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TextIO

from popskipjump.attacks import Progress
from popskipjump.evaluation.hooks import Hooks

LIVE, LOG = 0.5, 30.0  # seconds between lines


class Watch:
    """Progress display: counts queries and iterations, and writes the state of an evaluation.

    Args:
        stream: output stream; None is the error stream.
        clock: function that returns the time in seconds.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._live = self._stream.isatty() or type(self._stream).__module__.startswith("ipykernel")
        self._began = self._said = clock()
        self._asked, self._step = 0, "looking for starting points"
        self._width = 0

    def hooks(self, given: Hooks | None) -> Hooks:
        """Hooks that update this display and then call the given hooks."""
        given = given or Hooks()

        def on_queries(count: int) -> None:
            self._asked += count
            self._tell()
            if given.on_queries is not None:
                given.on_queries(count)

        def on_border(share: float) -> None:
            self._step = f"border distances, {share:.0%}"
            self._tell()
            if given.on_border is not None:
                given.on_border(share)

        def on_progress(progress: Progress) -> None:
            self._step = f"step {progress.iteration}, {progress.images} images under way"
            if given.on_progress is not None:
                given.on_progress(progress)

        return replace(given, on_queries=on_queries, on_progress=on_progress, on_border=on_border)

    def _tell(self) -> None:
        if self._clock() - self._said >= (LIVE if self._live else LOG):
            self._said = self._clock()
            self._write(f"psj: {self._asked:,} queries, {self._step}")

    def end(self) -> None:
        """The last line."""
        if self._asked:
            self._write(f"psj: {self._asked:,} queries in {self._clock() - self._began:.1f} s")
            if self._live:
                self._stream.write("\n")

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width) if self._live else text + "\n")
        self._stream.flush()
        self._width = len(text)
