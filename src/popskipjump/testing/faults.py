"""Fault injection: an oracle that fails, hangs, answers late, returns garbage or dies, at given rates.

```python
faulty = FaultyOracle(Classifier(model), Faults(fail=0.01, hang=0.01, garbage=0.001), seed=3)
report = evaluate(faulty, images, labels)
print(faulty.events)
```
Which call meets which fault follows from the seed and the number of the call alone, so that a run can be repeated.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.oracles import Oracle, Ticket, device_of
from popskipjump.oracles.traits import model_of
from popskipjump.rng import Key, integers, uniform

KINDS = ("fail", "hang", "late", "garbage", "die")
LONGEST_HANG = 600.0  # seconds: even a hang on purpose ends


class FaultError(ConnectionError):
    """The failure that a `FaultyOracle` raises: of the kind that a network raises."""


@dataclass(frozen=True)
class Faults:
    """The rates of faults, each the share of calls that meet it; together at most 1.

    Args:
        fail: raises `FaultError`; nothing was asked.
        hang: sleeps for `hang_seconds`, then raises `FaultError`, as a service that never answers.
        late: sleeps for `late_seconds`, then answers.
        garbage: returns what is no answer: too few labels, negative ones, real numbers or text.
        die: ends the process at once (SIGKILL), as a crash does.
        hang_seconds: at most 600.
        late_seconds: at most 600.
    """

    fail: float = 0.0
    hang: float = 0.0
    late: float = 0.0
    garbage: float = 0.0
    die: float = 0.0
    hang_seconds: float = 1.0
    late_seconds: float = 0.1

    def __post_init__(self) -> None:
        for field in fields(self):
            value, most = getattr(self, field.name), LONGEST_HANG if field.name.endswith("seconds") else 1.0
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise InputError(f"{field.name} must be a number in [0, {most:g}], not {value!r}.")
        if math.fsum(getattr(self, kind) for kind in KINDS) > 1 + 1e-12:
            raise InputError("the rates of faults must be at most 1 together.")


class FaultyOracle:
    """An oracle around another that meets faults.

    Args:
        oracle: answers where nothing goes wrong.
        faults: the rates.
        seed: of all randomness.
        sleep: waits for some seconds; another function lets a test run without waiting.
    """

    def __init__(
        self, oracle: Oracle, faults: Faults, seed: int = 0, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.oracle, self.faults = oracle, faults
        self.device = device_of(oracle)
        self.model = model_of(oracle)  # lets `evaluate` find the white box, for metrics alone
        self.events: Counter[str] = Counter()  # calls by what they met: "answered", "fail", "hang", ...
        self._key = Key(seed).child("faults")
        self._sleep = sleep
        self._call = 0

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return self._call

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`; or whatever goes wrong."""
        number, self._call = self._call, self._call + 1
        kind = self._kind(number)
        self.events[kind] += 1
        if kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "hang":
            self._sleep(self.faults.hang_seconds)
            raise FaultError(f"no answer within {self.faults.hang_seconds:g} s (call {number}, on purpose).")
        if kind == "fail":
            raise FaultError(f"the connection was lost (call {number}, on purpose).")
        if kind == "late":
            self._sleep(self.faults.late_seconds)
        answer = self.oracle.ask(points, ticket)
        return self._garbage(answer, number) if kind == "garbage" else answer

    def _kind(self, number: int) -> str:
        """What call `number` meets."""
        draw = float(uniform(self._key.child("kind").roots(torch.tensor([number])), 1))
        for kind in KINDS:
            draw -= getattr(self.faults, kind)
            if draw < 0:
                return kind
        return "answered"

    def _garbage(self, answer: Tensor, number: int) -> Tensor:
        """Something that a `checked_labels` must refuse."""
        which = int(integers(self._key.child("garbage").roots(torch.tensor([number])), 1, 4))
        if which == 0:
            return answer[:-1]
        if which == 1:
            return -1 - answer
        if which == 2:
            return answer.to(torch.float32) + 0.5
        return torch.full_like(answer, -(1 << 40))
