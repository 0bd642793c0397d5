"""Retry policy for failed classifier calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from popskipjump.arguments import check_types
from popskipjump.errors import InputError

MOST_SECONDS = 86_400  # of a time limit


@dataclass(frozen=True)
class Retry:
    """How often a failed query is repeated, and how long to wait in between.

    A call that fails (an exception, a time-out, an answer that is no label) is repeated image by image, so that one bad
    image does not affect the others. Every try counts as a query, because the classifier received it.

    Args:
        tries: largest number of tries of a query, including the first.
        wait: seconds before the second try.
        factor: factor by which each further wait is longer.
        sleep: function that waits a number of seconds.
        timeout: seconds after which a call counts as failed; None waits for as long as it takes. A call that hangs
            keeps running in its own thread, because Python cannot end it; after eight such calls the classifier is not
            queried again.
    """

    tries: int = 3
    wait: float = 0.1
    factor: float = 4.0
    sleep: Callable[[float], None] = time.sleep
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_types(self)
        if self.tries < 1 or not (self.wait >= 0 and self.factor >= 1):
            raise InputError(f"tries and factor must be at least 1, wait at least 0: {self}.")
        if self.timeout is not None and not 0 < self.timeout <= MOST_SECONDS:
            raise InputError(f"timeout must be a number of seconds above 0, at most {MOST_SECONDS:,}: {self}.")

    def rounds(self, images: int) -> Iterator[None]:
        """Yield once per repetition, after the wait; a failed call of several images is repeated at least once."""
        for number in range(max(self.tries - 1, 1 if images > 1 else 0)):
            if self.wait:
                self.sleep(self.wait * self.factor**number)
            yield
