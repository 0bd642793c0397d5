"""A call to the classifier that takes too long has failed, and the rest goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from popskipjump import InputError, OracleError, Status, Ticket, evaluate
from popskipjump.attacks import Retry
from popskipjump.oracles import TimeLimit
from popskipjump.oracles.limit import MOST_HANGING
from popskipjump.runs.keep import evaluate_in

TICKET = Ticket(torch.zeros(2, dtype=torch.int64), torch.arange(2))
LONG = 60.0  # seconds, which no test waits for


class Hanging:
    """An oracle that waits for an event in chosen calls."""

    def __init__(self, calls: set[int]) -> None:
        self.hangs, self.count, self.free = calls, 0, threading.Event()
        self.threads: set[threading.Thread] = set()

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        number, self.count = self.count, self.count + 1
        self.threads.add(threading.current_thread())
        if number in self.hangs:
            self.free.wait(LONG)
        return torch.full((len(points),), number)


def test_answers_and_errors_come_through() -> None:
    limit = TimeLimit(Hanging(set()), LONG)
    assert [limit.ask(torch.zeros(2, 3), TICKET).tolist() for _ in range(2)] == [[0, 0], [1, 1]]

    class Failing:
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            raise ConnectionError("lost")

    with pytest.raises(ConnectionError, match="lost"):
        TimeLimit(Failing(), LONG).ask(torch.zeros(2, 3), TICKET)


def test_a_call_that_hangs_fails_in_time_and_its_late_answer_is_thrown_away() -> None:
    oracle = Hanging({0})
    limit = TimeLimit(oracle, 0.05)
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        limit.ask(torch.zeros(2, 3), TICKET)
    limit.seconds = LONG
    oracle.free.set()
    assert limit.ask(torch.zeros(2, 3), TICKET).tolist() == [1, 1]
    assert len(oracle.threads) == 2


def test_a_classifier_that_only_hangs_is_not_asked_for_ever() -> None:
    oracle = Hanging(set(range(100)))
    limit = TimeLimit(oracle, 0.01)
    for _ in range(MOST_HANGING + 3):
        with pytest.raises(OracleError):
            limit.ask(torch.zeros(2, 3), TICKET)
    assert oracle.count <= MOST_HANGING
    with pytest.raises(OracleError, match="not asked again"):
        limit.ask(torch.zeros(2, 3), TICKET)
    oracle.free.set()


def test_the_threads_end_with_the_oracle() -> None:
    before, limit = set(threading.enumerate()), TimeLimit(Hanging(set()), LONG)
    limit.ask(torch.zeros(2, 3), TICKET)
    (thread,) = set(threading.enumerate()) - before
    del limit
    thread.join(LONG)
    assert not thread.is_alive()


class Sometimes:
    """A function that hangs in one call, and else divides a square in two."""

    def __init__(self) -> None:
        self.count, self.free = 0, threading.Event()

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.count += 1
        if self.count == 20:
            self.free.wait(LONG)
        labels: np.ndarray = (batch.sum(axis=1) > 1).astype(np.int64)
        return labels


IMAGES = np.array([[0.2, 0.1], [0.9, 0.8]], dtype=np.float32)
PATIENT = Retry(wait=0.0, timeout=1.0)


def test_one_call_that_hangs_costs_no_image(tmp_path: Path) -> None:
    for evaluated in (
        evaluate(Sometimes(), IMAGES, [0, 1], budget=150, retry=PATIENT),
        evaluate_in(tmp_path / "run", Sometimes(), IMAGES, [0, 1], budget=150, retry=PATIENT, name="f", digest="1"),
    ):
        assert evaluated.success.all()
        assert Status.ORACLE_FAILED not in evaluated.status


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_limit_that_makes_no_sense_is_refused(timeout: float) -> None:
    with pytest.raises(InputError, match="timeout"):
        Retry(timeout=timeout)
