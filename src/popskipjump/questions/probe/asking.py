"""Repeated queries of points, with a count and a record of rejected queries."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from popskipjump.errors import BudgetError, OracleError
from popskipjump.oracles import Ledger, Oracle, Ticket, device_of
from popskipjump.oracles.classifier import checked_labels
from popskipjump.types import Bounds

REJECTED = -1  # in place of a label
_CHUNK = 4096


class Asker:
    """Labels of points, counted; an input that the classifier does not answer is noted as rejected.

    A call that raises is repeated row by row, to find out which inputs are at fault: these queries count too.

    Args:
        oracle: whom to ask.
        ledger: counts, numbers and limits the queries of each image.
        bounds: points are clipped to them.
        image_id: `(B,)` int64, the names of the images in random streams.
        on_queries: called with the number of queries after every call.
    """

    def __init__(
        self,
        oracle: Oracle,
        ledger: Ledger,
        bounds: Bounds,
        image_id: Tensor,
        on_queries: Callable[[int], None] | None = None,
    ) -> None:
        self.oracle, self.ledger, self.bounds, self.image_id = oracle, ledger, bounds, image_id
        self.device = device_of(oracle)
        self.errors: dict[str, int] = {}  # what the classifier raised -> how often
        self.failed_batches = 0  # calls that failed although each of their rows was answered alone
        self._on_queries = on_queries
        self._singly = False

    def labels(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        """Labels of points, `REJECTED` where there is none.

        Args:
            points: `(M, *S)` float32.
            rows: `(M,)` int64, non-decreasing: for which image each is asked.
            phase: what to count the queries under.

        Returns:
            `(M,)` int64 on the CPU.
        """
        parts = [slice(first, first + _CHUNK) for first in range(0, len(rows), _CHUNK)]
        return torch.cat([self._labels(points[part], rows[part], phase) for part in parts])

    def _labels(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        if self._singly:
            return self._one_by_one(points, rows, phase)
        try:
            return self._ask(points, rows, phase)
        except BudgetError:
            raise
        except Exception as error:
            answers = self._one_by_one(points, rows, phase)
            if bool((answers != REJECTED).all()):
                self.failed_batches += 1
                self._note(error)
            self._singly = True
            return answers

    def _one_by_one(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        answers = torch.full((len(rows),), REJECTED, dtype=torch.int64)
        for place in range(len(rows)):
            part = slice(place, place + 1)
            try:
                answers[part] = self._ask(points[part], rows[part], phase)
            except BudgetError:
                raise
            except Exception as error:
                self._note(error)
        return answers

    def _note(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"[:200]
        if text in self.errors or len(self.errors) < 20:
            self.errors[text] = self.errors.get(text, 0) + 1

    def _ask(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        self.ledger.phase = phase
        serial = self.ledger.charge(rows)
        inside = points.clamp(self.bounds.low, self.bounds.high).to(self.device)
        answer = self.oracle.ask(inside, Ticket(self.image_id[rows], serial))
        if self._on_queries is not None:
            self._on_queries(len(rows))
        return checked_labels(answer, len(rows)).cpu()

    def counts(self, points: Tensor, rows: Tensor, times: int, phase: str) -> Tensor:
        """Labels of every point asked `times` times: points `(M, *S)`, rows `(M,)` -> int64 `(M, times)`."""
        answers = []
        for point, row in zip(points, rows.tolist(), strict=True):
            repeated = point.expand(times, *point.shape)
            answers.append(self.labels(repeated, torch.full((times,), row), phase))
        return torch.stack(answers)

    def check_alive(self, answers: Tensor) -> None:
        """Raise if nothing at all was answered."""
        if bool((answers == REJECTED).all()):
            error = next(iter(self.errors), "no answer")
            raise OracleError(f"the classifier answered none of {answers.numel()} queries: {error}.")
