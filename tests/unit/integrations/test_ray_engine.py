"""Runs on Ray: the same bits as in one process, whatever dies, and nothing asked twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ray_toys import Broken, Deadly, FailsOnOne, Slow
from run_toys import IMAGES, Logging, everything, source_with, spec_of

from popskipjump import EngineError, InputError, OracleError, Status
from popskipjump.runs.collect import collect, complete, resume, source_of
from popskipjump.runs.source import Source
from popskipjump.storage import RunSpec, info

pytest.importorskip("ray", reason="Ray is not installed")
from popskipjump.integrations.ray import RayEngine
from popskipjump.integrations.ray.cluster import connected

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's pipes and sockets
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MNIST = range(20, 28)


@pytest.fixture(scope="module")
def ray() -> Iterator[ModuleType]:
    """One local Ray for all tests: to start one takes seconds."""
    with connected(None, 3, 0, 64 << 20) as found:
        yield found


@pytest.fixture(scope="module")
def mnist() -> tuple[Source, RunSpec]:
    source = source_of()
    return source, source.spec(attack="psj", noise="flip:0.1", budget=400, verdict=5)


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory: pytest.TempPathFactory, mnist: tuple[Source, RunSpec]) -> dict[str, bytes]:
    source, spec = mnist
    return everything(collect(spec, MNIST, tmp_path_factory.mktemp("here"), source=source))


def listening(processes: set[int]) -> set[str]:
    """The addresses on which some processes accept connections, as Linux writes them."""
    sockets = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):  # closed meanwhile
                sockets.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in sockets}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="sockets are listed by Linux only")
def test_a_ray_of_our_own_can_be_reached_from_this_machine_alone(ray: ModuleType) -> None:
    node = ray.nodes()[0]
    assert node["NodeManagerAddress"] == "127.0.0.1"
    mine = {os.getpid()}
    for _ in range(4):  # generations of child processes
        mine |= {int(child) for process in mine for child in children_of(process)}
    found = listening(mine)
    assert found
    assert found <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def children_of(process: int) -> list[str]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [child for task in tasks for child in task.read_text().split()]


@pytest.mark.parametrize("engine", [RayEngine(workers=1), RayEngine(workers=2, shard=3)])
def test_one_process_one_worker_and_two_workers_give_the_same_bits(
    tmp_path: Path, ray: ModuleType, mnist: tuple[Source, RunSpec], in_one_process: dict[str, bytes], engine: RayEngine
) -> None:
    source, spec = mnist
    counts: list[int] = []
    progress: list[Any] = []
    options: dict[str, Any] = {"on_queries": counts.append, "on_progress": progress.append}
    data = collect(spec, MNIST, tmp_path, source=source, engine=engine, **options)
    assert everything(data) == in_one_process
    assert sum(counts) == data.queries.sum()
    shares = [now.share for now in progress]
    assert shares == sorted(shares)
    assert progress[-1] == (8, 8, 1.0)
    assert not list((tmp_path / spec.digest / "workers").iterdir())


def calls_in(log: Path) -> list[tuple[int, list[str]]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(line.split()[0]), line.split()[1:]) for line in lines]


def asked_again(calls: Any) -> int:
    """Queries asked twice, but for those of each process's last call, whose answers may not have arrived."""
    last = {process: place for place, (process, _) in enumerate(calls)}
    seen: dict[str, int] = {}
    again = 0
    for place, (_, numbers) in enumerate(calls):
        for number in numbers:
            again += number in seen and seen[number] != last[calls[seen[number]][0]]
            seen[number] = place
    return again


def kill_a_worker_after(log: Path, count: int, killed: list[int]) -> threading.Thread:
    def wait_and_kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and len(calls_in(log)) < count:
            time.sleep(0.005)
        if calls := calls_in(log):
            killed.append(calls[-1][0])
            os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_killed_worker_loses_only_the_call_in_flight(tmp_path: Path, ray: ModuleType) -> None:
    expected = collect(spec_of(source_with(None)), range(IMAGES), tmp_path / "whole", source=source_with(Logging()))
    source, log = source_with(Slow(str(tmp_path / "log"))), tmp_path / "log"
    killed: list[int] = []
    thread = kill_a_worker_after(log, 40, killed)
    data = collect(
        spec_of(source), range(IMAGES), tmp_path / "ray", source=source, engine=RayEngine(workers=2, shard=3)
    )
    thread.join()
    processes = {process for process, _ in calls_in(log)}
    assert killed[0] in processes
    assert len(processes) == 3, "Ray has not replaced the worker"
    assert everything(data) == everything(expected)
    assert asked_again(calls_in(log)) == 0
    assert info(data.folder).deaths == 1


class Interrupting:
    """Raises Ctrl-C in the process that hands out the shards, after so many queries."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, queries: int) -> None:
        self.left -= queries
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_interrupted_on_ray_goes_on_in_one_process_and_back(tmp_path: Path, ray: ModuleType) -> None:
    expected = collect(spec_of(source_with(None)), range(IMAGES), tmp_path / "whole", source=source_with(Logging()))
    log = tmp_path / "log"
    source = source_with(Slow(str(log)))
    spec, root = spec_of(source), tmp_path / "ray"
    engine = RayEngine(workers=2, shard=4)
    with pytest.raises(KeyboardInterrupt):
        collect(spec, range(IMAGES), root, source=source, engine=engine, on_queries=Interrupting(100))
    assert info(root / spec.digest).journalled >= 100
    with pytest.raises(KeyboardInterrupt):
        collect(spec, range(IMAGES), root, source=source, on_queries=Interrupting(100))
    data = resume(root / spec.digest, source=source, engine=RayEngine(workers=2, shard=2))
    assert everything(data) == everything(expected)
    assert asked_again(calls_in(log)) == 0


@pytest.mark.slow
def test_a_classifier_that_fails_in_the_workers_can_be_mended(tmp_path: Path, ray: ModuleType) -> None:
    source, engine = source_with(Broken()), RayEngine(workers=2)
    with pytest.raises(OracleError, match="no answer"):
        collect(spec_of(source), range(3), tmp_path, source=source, engine=engine)
    data = collect(spec_of(source), range(3), tmp_path, source=source_with(Logging()), engine=engine)
    expected = collect(spec_of(source), range(3), tmp_path / "whole", source=source_with(Logging()))
    assert everything(data) == everything(expected)


@pytest.mark.slow
def test_an_image_on_which_the_classifier_fails_does_not_end_the_others(tmp_path: Path, ray: ModuleType) -> None:
    source = source_with(FailsOnOne())
    data = collect(spec_of(source), range(3, 7), tmp_path, source=source, engine=RayEngine(workers=2, shard=1))
    assert data.status == [Status.FINISHED, Status.ORACLE_FAILED, Status.FINISHED, Status.FINISHED]
    assert data.messages == {4: "ConnectionError: no answer"}


@pytest.mark.slow
def test_an_image_that_kills_every_worker_is_named_and_the_others_are_kept(tmp_path: Path, ray: ModuleType) -> None:
    source = source_with(Deadly())
    spec = spec_of(source)
    with pytest.raises(EngineError, match="images 4 died again and again"):
        complete(spec, range(3, 7), tmp_path, source=source, engine=RayEngine(workers=2, shard=1, retries=1))
    assert info(tmp_path / spec.digest).finished == 3


def test_a_model_that_cannot_be_sent_is_refused_with_a_way_out(tmp_path: Path, ray: ModuleType) -> None:
    class Unsendable(Logging):
        def __reduce__(self) -> tuple[Any, ...]:
            raise TypeError("a lock")

    source = source_with(Unsendable())
    with pytest.raises(InputError, match=r"file\.py:factory"):
        collect(spec_of(source), [0], tmp_path, source=source, engine=RayEngine(workers=1))


@pytest.mark.parametrize("choices", [{"workers": 0}, {"cpus": 0}, {"gpus": -1}, {"shard": 1.5}, {"retries": True}])
def test_numbers_that_make_no_sense_are_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        RayEngine(**choices)
