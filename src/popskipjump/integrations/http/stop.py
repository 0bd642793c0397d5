"""A stop signal for several threads that query a classifier."""

from __future__ import annotations

import threading
from typing import Any

from torch import Tensor

from popskipjump.oracles import Oracle, Ticket, device_of
from popskipjump.oracles.traits import Interrupts, is_checked
from popskipjump.storage.journalled import is_repeatable


class Stoppable:
    """An oracle that raises KeyboardInterrupt once `stop` is set."""

    def __init__(self, oracle: Oracle, stop: threading.Event) -> None:
        self._oracle, self._stop, self.device = oracle, stop, device_of(oracle)
        self.checked, self.repeatable = is_checked(oracle), is_repeatable(oracle)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        if self._stop.is_set():
            raise KeyboardInterrupt
        try:
            return self._oracle.ask(points, ticket)
        except Exception:
            if self._stop.is_set():  # the answer was not waited for
                raise KeyboardInterrupt from None
            raise


def interrupt(model: Any, stop: threading.Event) -> None:
    """End all asking: of threads that are about to ask, and of an endpoint that waits for its server."""
    stop.set()
    if isinstance(model, Interrupts):
        model.interrupt()
