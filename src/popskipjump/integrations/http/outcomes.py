"""Outcomes of the requests, the retry policy, and counts."""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from popskipjump.errors import InputError, OracleError


class Outcome(str, Enum):
    """How one attempt at a query ended. The value is its column in reports."""

    ANSWERED = "answered"
    REJECTED = "rejected"  # rate limited, flagged as an attack, refused
    LATE = "late"  # no whole answer within the timeout
    FAILED = "failed"  # no connection, a server error, or an answer that cannot be used


class NoAnswerError(OracleError):
    """An attempt at a request brought no answer.

    Args:
        outcome: which way.
        text: what the server did, without any of its content.
        kind: "busy" is asked again with the full patience, "refused" and "unusable" a few times, "fatal" never; a
            "refused" or "too large" request of many rows is divided.
        wait: seconds after which the server wants to be asked again.
    """

    def __init__(self, outcome: Outcome, text: str, kind: str = "busy", wait: float | None = None) -> None:
        super().__init__(text)
        self.outcome, self.kind, self.wait = outcome, kind, wait


@dataclass(frozen=True)
class Patience:
    """How often, and after which pauses, a query without an answer is asked again.

    A pause is `first * factor**n` seconds, `longest` at most, and drawn between half of that and all of it, so that
    many clients of a restarted server do not return at the same moment. The defaults outlast a minute of downtime.

    Args:
        attempts: at a request whose server is busy, late, broken or gone.
        refusals: attempts at a request that the server refuses, or answers in a form that cannot be used.
        first: seconds before the second attempt.
        factor: growth of the pause.
        longest: pause in seconds; also the most that a server's own Retry-After is obeyed.
    """

    attempts: int = 10
    refusals: int = 3
    first: float = 0.25
    factor: float = 2.0
    longest: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.refusals < 1:
            raise InputError(f"attempts and refusals must be 1 or more, not {self.attempts} and {self.refusals}.")
        if not (self.first >= 0 and self.factor >= 1 and self.longest >= 0):
            raise InputError("first and longest must be 0 or more seconds, and factor 1 or more.")

    def allows(self, kind: str, attempt: int) -> bool:
        """Whether a request that has failed `attempt` times may be sent once more."""
        limit = {"busy": self.attempts, "refused": self.refusals, "unusable": self.refusals}.get(kind, 1)
        return attempt < limit

    def pause(self, attempt: int, wanted: float | None = None) -> float:
        """Seconds to wait after the failure number `attempt`, counted from 1."""
        # The exponent is capped because a float overflows long before anybody waits that long.
        grown = min(self.longest, self.first * self.factor ** min(attempt - 1, 64))
        drawn = grown * (0.5 + 0.5 * secrets.randbelow(1 << 20) / (1 << 20))  # timing alone: no result depends on it
        return drawn if wanted is None else max(drawn, min(wanted, self.longest))


COLUMNS = ("sent", *(outcome.value for outcome in Outcome), "given_up")


class Tally:
    """Counts of outcomes by image: how many queries were sent, and what became of them.

    `sent` counts a query once for every attempt, so `sent = answered + rejected + late + failed`; the ledger of an
    attack counts each query once. `given_up` are queries that ended without an answer.
    """

    def __init__(self) -> None:
        self._counts: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()

    def add(self, images: np.ndarray, outcome: Outcome) -> None:
        """Count one attempt at queries of these images: int64 `(M,)`."""
        self._count(images, "sent", outcome.value)

    def give_up(self, images: np.ndarray) -> None:
        """Count queries that end without an answer: int64 `(M,)`."""
        self._count(images, "given_up")

    def _count(self, images: np.ndarray, *columns: str) -> None:
        places = [COLUMNS.index(column) for column in columns]
        found, counts = np.unique(images, return_counts=True)
        with self._lock:
            for image, count in zip(found.tolist(), counts.tolist(), strict=True):
                row = self._counts.setdefault(image, np.zeros(len(COLUMNS), dtype=np.int64))
                row[places] += count

    def of(self, image: int) -> dict[str, int]:
        """The counts of one image, by column."""
        with self._lock:
            row = self._counts.get(image)
        return dict.fromkeys(COLUMNS, 0) if row is None else dict(zip(COLUMNS, row.tolist(), strict=True))

    def total(self) -> dict[str, int]:
        """The counts of all images, by column."""
        with self._lock:
            rows = list(self._counts.values())
        sums = np.sum(rows, axis=0) if rows else np.zeros(len(COLUMNS), dtype=np.int64)
        return dict(zip(COLUMNS, sums.tolist(), strict=True))

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file: the totals, and the counts of each image."""
        with self._lock:
            images = sorted(self._counts)
        return {"total": self.total(), "images": [{"image": image, **self.of(image)} for image in images]}

    def keep(self, path: Path) -> None:
        """Write the counts to a file, added to those of earlier processes that it holds.

        Raises:
            InputError: the file cannot be written, or holds something else.
        """
        try:
            before = json.loads(path.read_bytes())["images"] if path.exists() else []
            whole = Tally()
            for entry in [*before, *self.as_json()["images"]]:
                counts = np.array([entry[column] for column in COLUMNS], dtype=np.int64)
                whole._counts[int(entry["image"])] = whole._counts.get(int(entry["image"]), 0) + counts
            path.write_text(json.dumps(whole.as_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the outcomes cannot be written to {path} ({error.strerror}).") from error
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise InputError(f"{path} holds no outcomes of queries: move it away. It was not changed.") from None

    def __str__(self) -> str:
        sums = self.total()
        without = [f"{sums[o.value]:,} {o.value}" for o in Outcome if o is not Outcome.ANSWERED]
        return (
            f"queries sent: {sums['sent']:,}, of which {sums['answered']:,} answered, {', '.join(without)}; "
            f"{sums['given_up']:,} given up after all attempts"
        )
