"""Runs whose processes are killed, whose classifier misbehaves, and whose memory is limited.

    python benchmarks/endurance.py driver --kills 20 --out benchmarks/results/kills-driver.md
    python benchmarks/endurance.py workers --kills 10 --out benchmarks/results/kills-workers.md
    python benchmarks/endurance.py faults --out benchmarks/results/faults.md
    python benchmarks/endurance.py memory --out benchmarks/results/memory.md

driver, workers: the embedded network under 10% flips notes every call in a file before it answers. Processes are killed
(SIGKILL) after random numbers of calls and up to 20 ms, again and again, until the run is complete. Then the file is
compared with the results: each query of the run was asked, and none twice but those of calls that were in flight at a
kill. workers kills Ray workers while the driver goes on.

faults: 1% of the calls fail, 1% hang, 0.1% return garbage. Each is counted where it is made and where it is met.

memory: 8 images of 3 x 224 x 224 and 5,000 of 28 x 28 under a limit of 2 GB; each run has a process of its own.
The exit code says whether all is as it must be.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import apart, command, correct_images, embedded_pool, header, markdown, peak_mb, save
from torch import Tensor, nn

import popskipjump as psj
from popskipjump.attacks import Retry
from popskipjump.integrations.ray import RayEngine
from popskipjump.noise import Flip
from popskipjump.oracles import Classifier, Ticket, TorchModel
from popskipjump.oracles.classifier import checked_labels
from popskipjump.oracles.limit import SlowAnswerError
from popskipjump.runs.collect import Place, RunData, Source, collect
from popskipjump.storage import RunSpec, info
from popskipjump.testing import FaultError, Faults, FaultyOracle

IMAGES, BUDGET, SHARD = 12, 1000, 3
PATIENCE = 120.0  # seconds to wait for a call
LIMIT = 2 << 30


class Logged:
    """The embedded network under 10% flips; every call is noted in a file before it is answered."""

    repeatable = True

    def __init__(self, log: Path) -> None:
        self.log = str(log)
        self._oracle: Classifier | None = None

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        if self._oracle is None:
            self._oracle = Classifier(TorchModel(psj.zoo.mnist_model(), optimize=True), Flip(0.1), seed=3)
        assert ticket.serial is not None  # for mypy
        line = np.concatenate(([os.getpid(), len(points)], ticket.image.numpy(), ticket.serial.numpy()))
        for name, content in ((self.log, line.astype("<i8").tobytes()), (f"{self.log}.ticks", b".")):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, content)
            os.close(file)
        return self._oracle.ask(points, ticket)


class Call(NamedTuple):
    """One call in the log."""

    process: int
    queries: list[tuple[int, int]]  # image and number


def calls_of(log: Path) -> list[Call]:
    """All calls, in the order in which they were made."""
    words, place, found = np.fromfile(log, dtype="<i8").tolist(), 0, []
    while place < len(words):
        process, count = words[place : place + 2]
        image, number = (words[place + 2 + k * count : place + 2 + (k + 1) * count] for k in (0, 1))
        found.append(Call(process, list(zip(image, number, strict=True))))
        place += 2 + 2 * count
    return found


def ticks(log: Path) -> int:
    """How many calls were made."""
    path = Path(f"{log}.ticks")
    return path.stat().st_size if path.exists() else 0


def source_of(log: Path) -> Source:
    """Some images, and the network that notes its calls."""
    images, labels = correct_images(IMAGES)
    model = Logged(log)
    return Source("given", "some", "logged", "embedded", images, labels, model, 10, Place("given", None, None, None))


def spec_of(source: Source) -> RunSpec:
    """The run; without a pool, as there are few images."""
    return source.spec(attack="qsj", budget=BUDGET, starts="noise", verdict=10)


def same(one: RunData, other: RunData) -> bool:
    """Whether all that is known of the images is the same to the last bit, but for the time it took."""
    arrays = {name: value for name, value in vars(one).items() if isinstance(value, np.ndarray) and name != "seconds"}
    equal = all(np.array_equal(value, getattr(other, name), equal_nan=True) for name, value in arrays.items())
    phases = all(
        np.array_equal(one.queries_by_phase[name], other.queries_by_phase[name]) for name in one.queries_by_phase
    )
    return equal and phases and one.status == other.status


class Account(NamedTuple):
    """What the log says of a run whose processes were killed."""

    in_flight: int  # queries asked once more, because their call was in flight at a kill
    again: int  # queries asked once more although their call had been answered
    missing: int  # queries of the results that were never asked


def account(calls: list[Call], data: RunData) -> Account:
    """Compare the log with the results."""
    last = {call.process: place for place, call in enumerate(calls)}
    asked: dict[tuple[int, int], int] = {}
    in_flight = again = 0
    for place, call in enumerate(calls):
        for query in call.queries:
            if (before := asked.get(query)) is not None:
                was_last = last[calls[before].process] == before
                in_flight, again = in_flight + was_last, again + (not was_last)
            asked[query] = place
    counted = zip(data.image_ids.tolist(), data.queries.tolist(), strict=True)
    missing = sum((image, number) not in asked for image, count in counted for number in range(count))
    return Account(in_flight, again, missing)


def wait_for(log: Path, calls: int, rng: np.random.Generator, over: Callable[[], bool]) -> bool:
    """Wait until so many calls were made, and then for a part of one; False if the run is over before."""
    end = time.monotonic() + PATIENCE
    while ticks(log) < calls:
        if over() or time.monotonic() > end:
            return False
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, 0.02))
    return True


def kill_driver(root: Path, kills: int, total: int, rng: np.random.Generator) -> int:
    """Fork processes that go on with the run, and kill them, until it is complete; how many were killed."""
    log, killed = root / "log", 0
    while True:
        child = os.fork()
        if not child:
            code = 1
            try:
                source = source_of(log)
                collect(spec_of(source), range(IMAGES), root, source=source)
                code = 0
            finally:
                os._exit(code)
        state: list[int] = []

        def over(process: int = child, state: list[int] = state) -> bool:
            found, status = os.waitpid(process, os.WNOHANG)
            state += [status] if found else []
            return bool(found)

        more = int(rng.integers(1, max(2, total // (kills + 1))))
        if killed < kills and wait_for(log, ticks(log) + more, rng, over):
            os.kill(child, signal.SIGKILL)
        status = state[0] if state else os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                raise SystemExit("a process failed by itself")
            return killed
        killed += 1


def kill_workers(root: Path, kills: int, total: int, rng: np.random.Generator) -> int:
    """Attack on two Ray workers and kill one after the other; how many were killed."""
    log, killed, done = root / "log", set[int](), threading.Event()
    mine = os.getpid()

    def kill() -> None:
        while len(killed) < kills:
            more = int(rng.integers(1, max(2, total // (kills + 1))))
            if not wait_for(log, ticks(log) + more, rng, done.is_set):
                return
            process = calls_of(log)[-1].process
            if process not in killed and process != mine:
                killed.add(process)
                os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        source = source_of(log)
        engine = RayEngine(workers=2, shard=SHARD, retries=kills)
        collect(spec_of(source), range(IMAGES), root, source=source, engine=engine)
    finally:
        done.set()
        killer.join()
    return len(killed)


def kills(kind: str, count: int, seed: int) -> tuple[str, bool]:
    """The uninterrupted run, and the one whose processes are killed."""
    work = {"driver": kill_driver, "workers": kill_workers}[kind]
    with tempfile.TemporaryDirectory() as folder:
        whole, root = Path(folder) / "whole", Path(folder) / "killed"
        whole.mkdir()
        root.mkdir()
        source = source_of(whole / "log")
        spec = spec_of(source)
        expected = collect(spec, range(IMAGES), whole, source=source)
        total = ticks(whole / "log") * (1 if kind == "driver" else IMAGES // SHARD)  # smaller shards make more calls
        killed = work(root, count, total, np.random.default_rng(seed))
        shown = info(root / spec.digest)
        found = collect(spec, range(IMAGES), root, source=source_of(root / "log"))
        calls = calls_of(root / "log")
    what = account(calls, found)
    good = same(expected, found) and killed == count and not what.again and not what.missing
    good = good and what.in_flight <= shown.in_flight
    rows = [
        ("processes killed", killed, count),
        ("results identical to the uninterrupted run", "yes" if same(expected, found) else "NO", "yes"),
        ("queries of the run", f"{int(found.queries.sum()):,}", ""),
        ("calls, of all processes", f"{len(calls):,}", ""),
        ("recorded answers asked again", what.again, 0),
        ("recorded answers lost", what.missing, 0),
        ("queries in flight at a kill, asked again", what.in_flight, "stated"),
        ("... as `psj runs` shows them", f"{shown.in_flight} in {shown.deaths} deaths", "at least as many"),
    ]
    return markdown(("what", "found", "must"), rows) + f"\n\n{'pass' if good else 'FAIL'}", good


class Met:
    """An oracle that counts what became of each call, and its queries."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.device = oracle, oracle.device
        self.events: Counter[str] = Counter()
        self.queries = 0

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        self.queries += len(points)
        try:
            answer = self.oracle.ask(points, ticket)
            labels = checked_labels(answer, len(points))
        except SlowAnswerError:
            self.events["hang"] += 1
            raise
        except FaultError:
            self.events["fail"] += 1
            raise
        except psj.OracleError:
            self.events["garbage"] += 1
            raise
        self.events["answered"] += 1
        return labels


def faults(count: int, budget: int) -> tuple[str, bool]:
    """A classifier that misbehaves."""
    images, labels = correct_images(count)
    model = TorchModel(psj.zoo.mnist_model(), optimize=True)
    rates = Faults(fail=0.01, hang=0.01, garbage=0.001, hang_seconds=4.0)
    faulty = FaultyOracle(Classifier(model, Flip(0.1), seed=3), rates, seed=5)
    met: list[Met] = []

    def wrap(oracle: Any) -> Met:
        met.append(Met(oracle))
        return met[0]

    began = time.perf_counter()
    report = psj.evaluate(
        faulty,
        images,
        labels,
        "psj",
        budget=budget,
        starts=embedded_pool(),
        retry=Retry(wait=0.01, timeout=2.0),
        hooks=psj.Hooks(wrap_oracle=wrap),
    )
    seconds = time.perf_counter() - began
    with torch.no_grad():
        now = model.labels(torch.from_numpy(report.points)).numpy()
    confirmed = np.asarray(report.success)
    wrong = int((now[confirmed] == labels[confirmed]).sum())
    equal = dict(faulty.events) == dict(met[0].events)
    ended = Counter(status.name for status in report.status)
    good = equal and int(report.queries.sum()) == met[0].queries and wrong <= 0.01 * count + 3
    good = good and all(faulty.events[kind] for kind in ("fail", "hang", "garbage"))
    events = [(kind, faulty.events[kind], met[0].events[kind]) for kind in ("answered", "fail", "hang", "garbage")]
    words = ", ".join(f"{name} {number}" for name, number in ended.items())
    return (
        f"{markdown(('call', 'made', 'met by the attack'), events)}\n\n{count} images in {seconds:.0f} s: {words}. "
        f"Queries counted by the report {int(report.queries.sum()):,}, by the classifier {met[0].queries:,}. Confirmed "
        f"points {int(confirmed.sum())}, of which the network without noise still gives the true class to {wrong}.\n\n"
        f"{'pass' if good else 'FAIL'}"
    ), good


def large_source() -> Source:
    """Eight random images of 3 x 224 x 224 and a small convolutional net whose classes they are spread over."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
        )  # fmt: skip
        coarse = torch.rand(8, 3, 7, 7)
    images = nn.functional.interpolate(coarse, size=(224, 224), mode="bilinear").clamp(0, 1)
    with torch.no_grad():
        net[-1].bias -= net(images).mean(dim=0)
        labels = net(images).argmax(dim=1).numpy()
    place = Place("given", None, None, None)
    return Source("given", "large", "conv", "seed-0", images.numpy(), labels, TorchModel(net.eval()), 10, place)


def small_source() -> Source:
    """The embedded images, five times over, a little darker each time."""
    images, labels = psj.zoo.mnist_images()
    many = np.concatenate([images * (1 - 0.01 * step) for step in range(5)])
    model = TorchModel(psj.zoo.mnist_model(), optimize=True)
    return Source(
        "given", "small", "mnist", "net", many, np.tile(labels, 5), model, 10, Place("given", None, None, None)
    )


CASES: dict[str, tuple[Callable[[], Source], dict[str, Any]]] = {
    "8 images of 3 x 224 x 224, QSJ 1,000": (large_source, {"attack": "qsj", "budget": 1000}),
    "8 images of 3 x 224 x 224, PSJ 1,000, a trace of 4,000 iterations": (
        large_source,
        {"attack": "psj", "budget": 1000, "iterations": 4000},
    ),
    "5,000 images of 28 x 28, QSJ 100": (small_source, {"attack": "qsj", "budget": 100}),
}


def limited(case: str) -> tuple[float, float, int, list[str]]:
    """Peak memory, seconds, images done, and what the user is told."""
    make, choices = CASES[case]
    notes: list[str] = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        source = make()
        spec = source.spec(**choices, starts="pool")
        data = collect(spec, range(len(source.images)), Path(folder), source=source, memory=LIMIT, on_note=notes.append)
    return peak_mb(), time.perf_counter() - began, int(np.isfinite(data.distances).sum()), notes


def memory() -> tuple[str, bool]:
    """Runs under a limit of memory."""
    rows, good = [], True
    for case in CASES:
        peak, seconds, done, notes = apart(limited, case)
        good = good and peak < LIMIT >> 20
        rows.append((case, f"{peak:,.0f}", f"{seconds:.0f}", f"{done:,}", "; ".join(notes) or "nothing"))
        print(*rows[-1], flush=True)
    columns = ("run", "peak memory, MB", "seconds", "images with a point", "what the user is told")
    return markdown(columns, rows) + f"\n\nThe limit is {LIMIT >> 20:,} MB: {'pass' if good else 'FAIL'}", good


def main() -> None:
    """Measure one of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("driver", "workers", "faults", "memory"))
    parser.add_argument("--kills", type=int, default=None)
    parser.add_argument("--images", type=int, default=50, help="of faults")
    parser.add_argument("--budget", type=int, default=2000, help="of faults")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what in ("driver", "workers"):
        number = options.kills or {"driver": 20, "workers": 10}[options.what]
        title, (text, good) = f"Kills: {options.what}", kills(options.what, number, options.seed)
    elif options.what == "faults":
        title, (text, good) = "Faults on purpose", faults(options.images, options.budget)
    else:
        title, (text, good) = "Memory by a stated limit", memory()
    save(options.out, header(title, command()) + "\n" + text)
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
