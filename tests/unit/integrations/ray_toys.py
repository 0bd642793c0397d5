"""Classifiers that Ray workers make: one that notes its calls, one that fails, one that kills its process."""

from __future__ import annotations

import os
import signal

from present import present
from run_toys import Logging
from torch import Tensor

from popskipjump.oracles import Ticket


class Slow(Logging):
    """A classifier that takes its time, and notes every call with its process."""

    def __init__(self, log: str) -> None:
        super().__init__(seconds=0.01)
        self.log = log

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        numbers = zip(ticket.image.tolist(), present(ticket.serial).tolist(), strict=True)
        with open(self.log, "a") as file:
            file.write(f"{os.getpid()} " + " ".join(f"{image}:{number}" for image, number in numbers) + "\n")
        return super().ask(points, ticket)


class Broken(Logging):
    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        raise ConnectionError("no answer")


class Deadly(Logging):
    """Kills its process when it is asked about one image."""

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        if 4 in ticket.image.tolist():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().ask(points, ticket)


class FailsOnOne(Logging):
    """Fails when it is asked about one image."""

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        if 4 in ticket.image.tolist():
            raise ConnectionError("no answer")
        return super().ask(points, ticket)
