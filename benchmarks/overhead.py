"""Total time of the engine against the time of the bare model on the engine's own queries, in one run.

    python benchmarks/overhead.py --images 1 16 100 500 --repeat 3 --out benchmarks/results/overhead.md

While the engine runs, the inputs of the model's calls are set aside. Every so many queries the engine's clock stands
still and the bare model answers those calls again: as the engine made them ("same calls"), and joined to batches of 512
("best batches"), the limit of what any engine could reach. So engine and model take turns within a second and see the
same machine. Of long runs a sample of the stretches is answered again, and

    total / bare = total / time in the model * time in the model / bare model's time, the latter on the sample.

The answers' noise is the engine's work: at 10% flips, too, the comparison is with the bare model. Every case runs in a
process of its own, so that its peak memory is its own (the calls that were set aside included).
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import (
    CLOCKS,
    Goal,
    apart,
    command,
    correct_images,
    embedded_pool,
    header,
    markdown,
    peak_mb,
    save,
    seconds,
    spread,
)
from query_problems import DATA, cifar

import popskipjump as psj
from popskipjump.attacks.walk import BoundaryWalk
from popskipjump.oracles import Ticket

STRETCH = 8192  # queries between two turns of the bare model, at most
TURNS = 32  # of it in a run, at least
SAMPLED = 40  # stretches of a run that the bare model answers again, about
BATCH = 512
PARTS = {"search": "search", "direction": "direction", "step_rule": "step"}
# (model, images, flips) -> what total / best batches should be; of one image, total / same calls
GOALS = {
    ("eager", 100, 0.0): Goal(1.12, 1.05),
    ("eager", 100, 0.1): Goal(1.10, 1.04),
    ("optimised", 100, 0.0): Goal(1.22, 1.08),
    ("eager", 1, 0.0): Goal(1.5, 1.2),
    ("eager", 1, 0.1): Goal(1.5, 1.2),
}


class Meter:
    """A model's forward pass, with the engine's clock and the bare model's around it."""

    def __init__(self, bare: Callable[[torch.Tensor], torch.Tensor], clock: str, expected: int) -> None:
        self.bare, self.clock = bare, CLOCKS[clock]
        self.length = min(STRETCH, expected // TURNS)
        self.every = max(1, round(expected / self.length / SAMPLED))
        self.paused = self.inside = self.sampled = self.same = self.best = 0.0
        self.rows = self.calls = self.stretch = 0
        self.kept: list[torch.Tensor] = []
        self.kept_time = 0.0
        self.in_part: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # part -> total, in the model

    def now(self) -> float:
        """The engine's time."""
        return self.clock() - self.paused

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        """What the model gives."""
        start = self.clock()
        answer = self.bare(points)
        taken = self.clock() - start
        self.inside += taken
        self.rows += len(points)
        self.calls += 1
        if self.stretch % self.every == 0:
            self._keep(points, taken)
        if self.rows // self.length > self.stretch:
            self.turn()
            self.stretch = self.rows // self.length
        return answer

    def _keep(self, points: torch.Tensor, taken: float) -> None:
        start = self.clock()
        self.kept.append(points.clone())
        self.kept_time += taken
        self.paused += self.clock() - start

    def turn(self) -> None:
        """The bare model's turn."""
        start = self.clock()
        with torch.no_grad():
            if self.kept:
                self.sampled += self.kept_time
                self.same += self._answer(self.kept)
                self.best += self._answer(list(torch.split(torch.cat(self.kept), BATCH)))
        self.kept, self.kept_time = [], 0.0
        self.paused += self.clock() - start

    def _answer(self, calls: list[torch.Tensor]) -> float:
        start = self.clock()
        for call in calls:
            self.bare(call)
        return self.clock() - start

    def timed(self, name: str, part: Any) -> Any:
        """A part of the walk, with its time written down."""
        return _TimedPart(self, name, part)


class _TimedPart:
    def __init__(self, meter: Meter, name: str, part: Any) -> None:
        self.meter, self.name, self.part = meter, name, part

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)

    def __call__(self, *arguments: Any) -> Any:
        start, inside = self.meter.now(), self.meter.inside
        result = self.part(*arguments)
        times = self.meter.in_part[self.name]
        times[0] += self.meter.now() - start
        times[1] += self.meter.inside - inside
        return result


@dataclasses.dataclass(frozen=True)
class Metered:
    """An attack with timed parts; PSJ unless it is told."""

    meter: Meter
    iterations: int = 32
    config: Any = None

    def build(self, dimension: int) -> BoundaryWalk[Any, Any, Any, Any, Any]:
        """See `AttackConfig`."""
        walk = (self.config or psj.PopSkipJump(iterations=self.iterations)).build(dimension)
        timed = {field: self.meter.timed(name, getattr(walk, field)) for field, name in PARTS.items()}
        return dataclasses.replace(walk, **timed)


class Blind:
    """An oracle that shows no white box, so that nothing but the attack is timed."""

    def __init__(self, oracle: psj.Classifier) -> None:
        self.oracle, self.device = oracle, oracle.device
        self.checked, self.numbered = oracle.checked, oracle.numbered

    def ask(self, points: torch.Tensor, ticket: Ticket) -> torch.Tensor:
        """See `Oracle`."""
        return self.oracle.ask(points, ticket)


def subject(name: str, images: int) -> tuple[psj.TorchModel, np.ndarray, np.ndarray, psj.Pool]:
    """A model, images that it classifies correctly, their labels, and starting points."""
    if name == "resnet":
        problem = cifar(None, images)
        if problem.module is None or problem.starts is None:
            raise SystemExit("no net to time")
        return psj.TorchModel(problem.module), problem.images.numpy(), problem.labels.numpy(), problem.starts
    return (
        psj.TorchModel(psj.zoo.mnist_model(), optimize=name == "optimised"),
        *correct_images(images),
        embedded_pool(),
    )


def repetition(
    name: str, images: int, flips: float, clock: str, iterations: int = 32, budget: int | None = None
) -> dict[str, float]:
    """One run of the engine, the bare model in between; with a budget, of QSJ."""
    model, x, y, pool = subject(name, images)
    warm = torch.from_numpy(x[np.arange(BATCH) % len(x)])
    for _ in range(3):  # the frozen copy is made, and compiled, in the first calls
        model.labels(warm)
        model.labels(warm[:1])
    noise = psj.noise.Flip(flips) if flips else None
    # The tables of the grid are made once in a process, not once in a run.
    psj.evaluate(Blind(psj.Classifier(model, noise)), x[:1], y[:1], iterations=1, starts=pool, verdict=0)
    expected = images * (budget or (45_000 if flips else 13_000))
    meter = Meter(model.forward, clock, expected)
    model.forward = meter
    oracle = Blind(psj.Classifier(model, noise))
    start = meter.now()
    quick = None if budget is None else psj.QuickSkipJump(iterations=budget // 20)
    attack = Metered(meter, iterations, quick)
    report = psj.evaluate(oracle, x, y, attack=attack, starts=pool, verdict=0, keep_trace=False, budget=budget)
    meter.turn()
    total = meter.now() - start
    per_query = 1e6 / meter.rows
    result = {
        "total / best": total / meter.inside * meter.sampled / meter.best,
        "total / same": total / meter.inside * meter.sampled / meter.same,
        "queries / image": report.queries.sum() / images,
        "rows / call": meter.rows / meter.calls,
        "model us": meter.inside * meter.best / meter.sampled * per_query,
        "s / image": total / images,
        "peak MB": peak_mb(),
        "in the model": meter.inside * per_query,
    }
    outside = {part: (whole - inside) * per_query for part, (whole, inside) in meter.in_part.items()}
    result |= {part: outside[part] for part in PARTS.values()}
    result["the rest"] = (total - meter.inside) * per_query - sum(outside.values())
    return result


def case(
    name: str, images: int, flips: float, clock: str, repeat: int, threads: int, budget: int | None
) -> dict[str, list[float]]:
    """All repetitions of a case."""
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeat):
        for key, value in apart(repetition, name, images, flips, clock, 32, budget, threads=threads).items():
            found[key].append(float(value))
    return found


def judged(key: tuple[str, int, float], found: dict[str, list[float]]) -> str:
    if key not in GOALS:
        return ""
    return GOALS[key].judge(float(np.median(found["total / same" if key[1] == 1 else "total / best"])))


def tables(results: dict[tuple[str, int, float], dict[str, list[float]]]) -> str:
    """Ratios with their verdict, then the time by phase."""
    ratios, phases = [], []
    for key, found in results.items():
        median = {name: float(np.median(values)) for name, values in found.items()}
        label = (key[0], key[1], f"{key[2]:.0%}")
        ratios.append(
            (
                *label,
                f"{median['queries / image']:,.0f}",
                f"{median['rows / call']:,.0f}",
                spread(found["total / best"]),
                spread(found["total / same"]),
                f"{median['model us']:.1f}",
                f"{median['s / image']:.3f}",
                f"{median['peak MB']:,.0f}",
                judged(key, found),
            )
        )
        names = ("in the model", *PARTS.values(), "the rest")
        phases.append((*label, *(f"{median[name]:.2f}" for name in names)))
    columns = ("model", "images", "flips")
    first = ("queries / image", "rows / call", "total / best batches", "total / same calls", "bare model us / query")
    ratio_table = markdown((*columns, *first, "s / image", "peak MB", "goal"), ratios)
    parts = ("in the model", *(f"{part}, outside it" for part in PARTS.values()), "the rest")
    return f"{ratio_table}\n\nTime by phase, us per query:\n\n{markdown((*columns, *parts), phases)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[1, 16, 100, 500])
    parser.add_argument("--flips", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument(
        "--models",
        nargs="+",
        choices=["eager", "optimised", "resnet"],
        default=["eager", "optimised"],
        help=f"the embedded net as it is or optimised; resnet: of the folder {DATA}",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attack", choices=["psj", "qsj"], default="psj")
    parser.add_argument("--budget", type=int, default=5000, help="queries per image, of QSJ")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: one thread on a busy machine")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    title = header("Engine against bare model", command())
    note = f"Medians of {args.repeat} repetitions [smallest to largest]; {args.clock} clock.\n"
    results: dict[tuple[str, int, float], dict[str, list[float]]] = {}
    budget = args.budget if args.attack == "qsj" else None
    for images in args.images:
        for name in args.models:
            for flips in args.flips:
                key = (name, images, flips)
                taken, results[key] = seconds(partial(case, *key, args.clock, args.repeat, args.threads, budget))
                values = {name: round(float(np.median(v)), 3) for name, v in results[key].items()}
                print(time.strftime("%H:%M:%S"), *key, f"({taken:.0f} s)", values, flush=True)
                if args.out is not None:  # a run of hours leaves what it has
                    args.out.parent.mkdir(parents=True, exist_ok=True)
                    args.out.write_text(f"{title}\n{note}\n{tables(results)}\n")
    save(args.out, f"{title}\n{note}\n{tables(results)}")


if __name__ == "__main__":
    main()
