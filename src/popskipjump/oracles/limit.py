"""A time limit for calls of the classifier."""

from __future__ import annotations

import queue
import threading
from typing import NamedTuple

from torch import Tensor

from popskipjump.errors import OracleError
from popskipjump.oracles.base import Oracle, Ticket, device_of
from popskipjump.oracles.traits import is_checked, is_numbered

MOST_HANGING = 8  # calls that never ended; then no more are made


class SlowAnswerError(OracleError, TimeoutError):
    """A call to the classifier took longer than its time limit."""


class _Call(NamedTuple):
    points: Tensor
    ticket: Ticket
    answer: queue.SimpleQueue[Tensor | BaseException]


class TimeLimit:
    """An oracle whose calls fail when they take too long.

    Calls are made in a thread of their own. One that takes too long is left to itself, as Python cannot end it, and the
    next call gets another thread; a late answer is thrown away.

    Args:
        oracle: what is asked.
        seconds: that one call may take.
    """

    def __init__(self, oracle: Oracle, seconds: float) -> None:
        self.oracle, self.seconds = oracle, seconds
        self.device = device_of(oracle)
        self.checked = is_checked(oracle)
        self.numbered = is_numbered(oracle)
        self._calls: queue.SimpleQueue[_Call | None] | None = None  # of the thread that waits for calls
        self._thread: threading.Thread | None = None
        self._hanging: list[threading.Thread] = []

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= MOST_HANGING:
            raise SlowAnswerError(
                f"{len(self._hanging)} calls to the classifier have not ended after {self.seconds:g} s each: it is not "
                "asked again before one of them ends. Give it more time (timeout=), or mend it."
            )
        call = _Call(points, ticket, queue.SimpleQueue())
        self._waiting().put(call)
        try:
            answer = call.answer.get(timeout=self.seconds)
        except queue.Empty:
            self._leave()
            raise SlowAnswerError(f"the classifier did not answer within {self.seconds:g} s.") from None
        except BaseException:  # Ctrl-C: the thread may be in the middle of a call
            self._leave()
            raise
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __del__(self) -> None:
        """Let the thread end."""
        if self._calls is not None:
            self._calls.put(None)

    def _waiting(self) -> queue.SimpleQueue[_Call | None]:
        if self._calls is None:
            self._calls = queue.SimpleQueue()
            self._thread = threading.Thread(target=_serve, args=(self.oracle, self._calls), daemon=True)
            self._thread.start()
        return self._calls

    def _leave(self) -> None:
        if self._calls is not None and self._thread is not None:
            self._calls.put(None)
            self._hanging.append(self._thread)
        self._calls, self._thread = None, None


def _serve(oracle: Oracle, calls: queue.SimpleQueue[_Call | None]) -> None:
    """Make one call after the other, until there are no more."""
    while (call := calls.get()) is not None:
        try:
            call.answer.put(oracle.ask(call.points, call.ticket))
        except BaseException as error:  # raised again where the call was made
            call.answer.put(error)
