"""Faults on purpose come at their rates, can be repeated, and are survived."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_toys import Linear, Logging, everything, source_with, spec_of
from torch import Tensor

from popskipjump import InputError, Status, Ticket
from popskipjump.oracles.classifier import checked_labels
from popskipjump.runs.collect import collect
from popskipjump.testing import FaultError, Faults, FaultyOracle

# Where another test has imported JAX, it warns of its threads; the children here use none of them.
forks = pytest.mark.filterwarnings(
    r"ignore:os\.fork\(\) was called:RuntimeWarning", "ignore:.*multi-threaded, use of fork:DeprecationWarning"
)


class Zeros:
    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        return torch.zeros(len(points), dtype=torch.int64)


TICKET = Ticket(torch.zeros(3, dtype=torch.int64), torch.arange(3))


def met(oracle: FaultyOracle, calls: int) -> list[str]:
    """What each call came to."""
    found = []
    for _ in range(calls):
        try:
            checked_labels(oracle.ask(torch.zeros(3, 2), TICKET), 3)
            found.append("answer")
        except Exception as error:
            found.append(type(error).__name__)
    return found


def test_faults_come_at_their_rates() -> None:
    faults = Faults(fail=0.1, hang=0.05, late=0.2, garbage=0.02, hang_seconds=7, late_seconds=3)
    waits: list[float] = []
    oracle = FaultyOracle(Zeros(), faults, seed=1, sleep=waits.append)
    met(oracle, 4000)
    for kind in ("fail", "hang", "late", "garbage"):  # 6 standard errors: wrong with probability below 1e-8
        rate = getattr(faults, kind)
        assert abs(oracle.events[kind] - 4000 * rate) < 6 * (4000 * rate * (1 - rate)) ** 0.5
    assert sum(oracle.events.values()) == oracle.calls == 4000
    assert waits.count(7) == oracle.events["hang"]
    assert waits.count(3) == oracle.events["late"]


def test_the_same_seed_gives_the_same_faults() -> None:
    faults = Faults(fail=0.3, garbage=0.3)
    runs = [met(FaultyOracle(Zeros(), faults, seed), 200) for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]


def test_garbage_is_never_taken_for_an_answer() -> None:
    assert set(met(FaultyOracle(Zeros(), Faults(garbage=1.0)), 50)) == {"OracleError"}


def test_a_late_answer_is_the_answer() -> None:
    oracle = FaultyOracle(Zeros(), Faults(late=1.0), sleep=lambda seconds: None)
    assert oracle.ask(torch.zeros(3, 2), TICKET).tolist() == [0, 0, 0]


def test_a_hang_ends_in_an_error() -> None:
    with pytest.raises(FaultError, match="no answer within"):
        FaultyOracle(Zeros(), Faults(hang=1.0, hang_seconds=0.01)).ask(torch.zeros(3, 2), TICKET)


@forks
def test_death_is_that_of_the_process() -> None:
    child = os.fork()
    if not child:
        FaultyOracle(Zeros(), Faults(die=1.0)).ask(torch.zeros(3, 2), TICKET)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.parametrize("rates", [{"fail": 1.5}, {"fail": -0.1}, {"fail": 0.6, "late": 0.6}, {"hang_seconds": 1e9},
                                   {"late": float("nan")}, {"die": "often"}])  # fmt: skip
def test_rates_that_cannot_be_are_refused(rates: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Faults(**rates)


def test_a_run_with_faults_accounts_for_every_image(tmp_path: Path) -> None:
    faulty = FaultyOracle(Logging(), Faults(fail=0.01, garbage=0.002, late=0.01), seed=2, sleep=lambda seconds: None)
    source = source_with(faulty)
    data = collect(spec_of(source), range(9), tmp_path, source=source)
    assert faulty.events["fail"] > 0
    good = [row for row, status in enumerate(data.status) if status is Status.FINISHED]
    assert len(good) + len(data.messages) == 9
    assert len(good) >= 5
    assert bool((Linear().labels(torch.from_numpy(data.points[good])).numpy() >= 0).all())


@forks
def test_a_run_that_dies_and_dies_again_ends_as_one_that_lives(tmp_path: Path) -> None:
    whole = collect(spec_of(source_with(None)), range(4), tmp_path / "whole", source=source_with(Logging()))
    deaths = 0
    for attempt in range(60):
        child = os.fork()
        if not child:
            code = 1
            try:
                oracle = FaultyOracle(Logging(), Faults(die=0.02), seed=attempt)
                source = source_with(oracle)
                collect(spec_of(source), range(4), tmp_path / "killed", source=source)
                code = 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            break
        assert os.WIFSIGNALED(status)
        deaths += 1
    assert 0 < deaths < 60
    source = source_with(Logging())
    data = collect(spec_of(source), range(4), tmp_path / "killed", source=source)
    assert source.model.count == 0
    assert everything(data) == everything(whole)
    assert np.isfinite(data.distances).all()
