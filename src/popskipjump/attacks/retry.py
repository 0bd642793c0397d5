"""Retry policy for failed classifier calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from popskipjump.errors import InputError

MOST_SECONDS = 86_400  # of a time limit


@dataclass(frozen=True)
class Retry:
    """How often a query is tried, and how long to wait in between.

    A call that fails (an exception, a time-out, an answer that is no label) is repeated image by image, so that one bad
    image does not cost the others anything. Every try is counted: the classifier was asked.

    Args:
        tries: of each query, the first included.
        wait: seconds before the second try.
        factor: how many times longer each further wait is.
        sleep: waits so many seconds.
        timeout: seconds after which a call counts as failed; None waits for as long as it takes. A call that hangs goes
            on in a thread of its own, as Python cannot end it; after eight of them the classifier is not asked again.
    """

    tries: int = 3
    wait: float = 0.1
    factor: float = 4.0
    sleep: Callable[[float], None] = time.sleep
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.tries < 1 or not (self.wait >= 0 and self.factor >= 1):
            raise InputError(f"tries and factor must be at least 1, wait at least 0: {self}.")
        if self.timeout is not None and not 0 < self.timeout <= MOST_SECONDS:
            raise InputError(f"timeout must be a number of seconds above 0, at most {MOST_SECONDS:,}: {self}.")

    def rounds(self, images: int) -> Iterator[None]:
        """Wait, then try again, for as long as the policy says; images of one call are always tried apart once."""
        for number in range(max(self.tries - 1, 1 if images > 1 else 0)):
            if self.wait:
                self.sleep(self.wait * self.factor**number)
            yield
