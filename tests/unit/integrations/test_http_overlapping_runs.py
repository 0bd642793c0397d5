"""Kept runs on slow classifiers: shards in threads find what one shard after the other finds, and lose nothing."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest
import torch
from present import present
from torch import Tensor

pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import LIFE, Script, question, scripted, serving_oracle, status
from run_toys import IMAGES, SHAPE, Logging, everything, source_with, spec_of

import popskipjump as psj
from popskipjump.errors import InputError, OracleError
from popskipjump.integrations.http import OverlappingEngine, Patience
from popskipjump.oracles import Ticket
from popskipjump.runs.collect import collect


class Repeatable(Logging):
    """Declares that its noise is addressed, so that a run that was interrupted keeps all its answers."""

    repeatable = True


def asked(log: Path) -> Counter[tuple[int, int]]:
    """How often each query, (image, number), was asked."""
    lines = log.read_text().splitlines()
    return Counter(tuple(query) for line in lines for query in json.loads(line)[1])


def test_a_kept_run_in_threads_is_the_one_without_them(tmp_path: Path) -> None:
    source = source_with(Repeatable())
    here = collect(spec_of(source), range(IMAGES), tmp_path / "here", source=source)
    told: list[int] = []
    with serving_oracle(Logging(), SHAPE) as url, psj.Endpoint(url) as endpoint:
        remote, engine = source_with(endpoint), OverlappingEngine(groups=3)
        there = collect(
            spec_of(remote), range(IMAGES), tmp_path / "there", source=remote, engine=engine, on_queries=told.append
        )
        answered = endpoint.tally.total()["answered"]
    ours, theirs = everything(there), everything(here)
    for name in ours.keys() - {"border_distances", "trace_border"}:  # a server has no noiseless network to look at
        assert ours[name] == theirs[name], name
    assert sum(told) == there.queries.sum() == answered


class Meeting(Repeatable):
    """Answers only once queries of `groups` different groups wait at the same time."""

    def __init__(self, log: Path, groups: int) -> None:
        super().__init__(log)
        self.together = threading.Barrier(groups)
        self.met: set[str] = set()

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        name = threading.current_thread().name
        if name not in self.met:
            self.met.add(name)
            self.together.wait(LIFE)
        return super().ask(points, ticket)


def test_groups_ask_at_the_same_time_and_every_query_once(tmp_path: Path) -> None:
    oracle = Meeting(tmp_path / "log", groups=3)
    source = source_with(oracle)
    data = collect(spec_of(source), range(IMAGES), tmp_path / "run", source=source, engine=OverlappingEngine(3))
    assert len(oracle.met) == 3
    assert set(asked(tmp_path / "log").values()) == {1}
    assert len(asked(tmp_path / "log")) == data.queries.sum()


def test_ctrl_c_ends_all_groups_and_the_next_call_asks_nothing_again(tmp_path: Path) -> None:
    source = source_with(Repeatable())
    here = collect(spec_of(source), range(IMAGES), tmp_path / "here", source=source)

    def ctrl_c(queries: int) -> None:
        told.append(queries)
        if sum(told) > 300:
            raise KeyboardInterrupt

    told: list[int] = []
    source = source_with(Repeatable(tmp_path / "log"))
    folder, engine = tmp_path / "run", OverlappingEngine(3)
    with pytest.raises(KeyboardInterrupt):
        collect(spec_of(source), range(IMAGES), folder, source=source, engine=engine, on_queries=ctrl_c)
    there = collect(spec_of(source), range(IMAGES), folder, source=source, engine=engine)
    assert everything(there) == everything(here)
    assert set(asked(tmp_path / "log").values()) == {1}
    assert asked(tmp_path / "log").total() == here.queries.sum()


class Bad(Repeatable):
    """Breaks on some images."""

    def __init__(self, bad: set[int]) -> None:
        super().__init__()
        self.bad = bad

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        if self.bad & set(ticket.image.tolist()):
            raise RuntimeError("this image breaks the classifier")
        return super().ask(points, ticket)


def test_a_shard_that_fails_altogether_does_not_end_the_others(tmp_path: Path) -> None:
    source = source_with(Bad({0, 1, 2}))
    data = collect(spec_of(source), range(IMAGES), tmp_path / "run", source=source, engine=OverlappingEngine(3))
    assert [status is psj.Status.ORACLE_FAILED for status in data.status] == [True] * 3 + [False] * 6
    source = source_with(Bad(set(range(IMAGES))))
    with pytest.raises(OracleError, match="breaks the classifier"):
        collect(spec_of(source), range(IMAGES), tmp_path / "all", source=source, engine=OverlappingEngine(3))


def test_an_interrupted_endpoint_ends_what_waits_and_works_again() -> None:
    points, ticket, labels = question(3)
    script = Script(*[status(503)] * 3)
    with (
        scripted(script) as url,
        psj.Endpoint(url, patience=Patience(attempts=99, first=LIFE, longest=LIFE)) as endpoint,
    ):
        found: list[Exception] = []

        def ask() -> None:
            try:
                endpoint.ask(points, ticket)
            except OracleError as error:
                found.append(error)

        waiting = threading.Thread(target=ask, daemon=True)
        waiting.start()
        while not endpoint.tally.of(0)["failed"]:
            waiting.join(0.01)
        endpoint.interrupt()
        waiting.join(LIFE)
        assert "ended" in str(present(found[0] if found else None))
        script.behaviours.clear()
        assert torch.equal(endpoint.ask(points, ticket), labels)


@pytest.mark.parametrize("groups", [0, True, 1.5])
def test_a_number_of_groups_that_is_none_is_refused(groups: int) -> None:
    with pytest.raises(InputError, match="groups"):
        OverlappingEngine(groups)
