"""What an attack may ask, and what only an evaluation may know."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


class Ticket(NamedTuple):
    """Who asks: the address of each answer's randomness, and of its record.

    The ledger issues `serial`; above it in the chain it is None.
    """

    image: Tensor  # (M,) int64, on the CPU, non-decreasing: the id of the image each row is asked for
    serial: Tensor | None = None  # (M,) int64, on the CPU: how many queries that image had before

    def part(self, rows: slice | Tensor) -> Ticket:
        """The ticket of some of the rows."""
        return Ticket(self.image[rows], None if self.serial is None else self.serial[rows])


@runtime_checkable
class Oracle(Protocol):
    """Anything that turns a batch of inputs into labels."""

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """Labels of a batch; equal rows get independent answers; may block; never cached.

        Args:
            points: `(M, *S)` float32, within the bounds; valid only during the call.
            ticket: `(M,)` who asks; an oracle without randomness of its own ignores it.

        Returns:
            `(M,)` int64 labels.
        """


@runtime_checkable
class WhiteBox(Protocol):
    """Access to a classifier's inside: for metrics and PSJ-TrueGrad only, and never counted."""

    def labels(self, points: Tensor) -> Tensor:
        """Noiseless labels: `(M, *S)` -> int64 `(M,)`."""

    def log_probs(self, points: Tensor) -> Tensor:
        """Noiseless log-probabilities: `(M, *S)` -> `(M, K)`."""

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """Gradient of (rival logit - true logit), which points to the adversarial side.

        Args:
            points: `(M, *S)`.
            labels: `(M,)` true classes.
            targets: `(M,)` the rivals; None takes the best other class.

        Returns:
            `(M, *S)`.
        """


def device_of(oracle: object) -> torch.device:
    """Where an oracle wants its points; the CPU if it does not say."""
    return torch.device(getattr(oracle, "device", "cpu"))


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; a truth value, text, infinity and nan are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return bool(value % 1 == 0)
