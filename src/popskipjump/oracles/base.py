"""Interfaces: `Oracle`, the label queries of an attack, and `WhiteBox`, the access reserved for evaluation."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


class Ticket(NamedTuple):
    """Image and query number of each row of a batch; they address the answer's random stream and its record.

    `serial` is None until the query reaches the ledger (`Counted`), which assigns it.
    """

    image: Tensor  # (M,) int64, on the CPU, non-decreasing: id of the image that each row belongs to
    serial: Tensor | None = None  # (M,) int64, on the CPU: number of earlier queries of the same image

    def part(self, rows: slice | Tensor) -> Ticket:
        """The ticket of a subset of the rows."""
        return Ticket(self.image[rows], None if self.serial is None else self.serial[rows])


@runtime_checkable
class Oracle(Protocol):
    """Anything that turns a batch of inputs into labels."""

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """Return one label per row. Equal rows get independent answers, no answer is cached, and the call may block.

        Args:
            points: `(M, *S)` float32, within the bounds; valid only during the call.
            ticket: image and query number of each row `(M,)`; an oracle without its own random streams ignores it.

        Returns:
            `(M,)` int64 labels.
        """


class Labelling(Protocol):
    """A noiseless classifier that gives labels and nothing else."""

    def labels(self, points: Tensor) -> Tensor:
        """Noiseless labels: `(M, *S)` -> int64 `(M,)`."""


@runtime_checkable
class WhiteBox(Protocol):
    """White-box access to a classifier: for metrics and PSJ-TrueGrad only; its calls are not counted as queries."""

    def labels(self, points: Tensor) -> Tensor:
        """Noiseless labels: `(M, *S)` -> int64 `(M,)`."""

    def log_probs(self, points: Tensor) -> Tensor:
        """Noiseless log-probabilities: `(M, *S)` -> `(M, K)`."""

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """Gradient of (rival logit - true logit), which points to the adversarial side.

        Args:
            points: `(M, *S)`.
            labels: `(M,)` true classes.
            targets: `(M,)` the rival classes; None takes the best class other than the true one.

        Returns:
            `(M, *S)`.
        """


def device_of(oracle: object) -> torch.device:
    """The device on which an oracle expects its points; the CPU if the oracle has no `device`."""
    return torch.device(getattr(oracle, "device", "cpu"))


def is_whole(value: object) -> bool:
    """Whether a value is an integer; bool, text, infinity and nan are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return bool(value % 1 == 0)
