"""What confirming a point must cost under gradual noise: an oracle that knows P(adversarial) on every ray.

    python benchmarks/trust_bound.py                 # the images of trust.py
    python benchmarks/trust_bound.py --first 500     # images that no report uses

A test of P(adversarial) > 1/2 with an error of 1% takes log(125) / KL(P, 1/2) answers at least: many near the border,
few far outside. The walk is the one of `trust.py`. For each of its final rays P is found along the ray (exactly for
logit sampling, from fresh answers otherwise), and an oracle chooses the place to test. Its choices minimise the mean
log-distance, under the goals of a median of 60 queries and a mean of 120. The oracle pays for one place, never for
finding out which one. Two costs: of the best possible test, and of our test, which does not know P (simulated).
"""

from __future__ import annotations

import argparse
import math
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from common import command, correct_images, embedded_pool, header, markdown, save
from torch import Tensor
from trust import GRADUAL
from trust_cases import NOISY

import popskipjump as psj
from popskipjump.attacks import Problem
from popskipjump.attacks.settle import Line, Settle, Settled, log_evidence
from popskipjump.noise import noise_of
from popskipjump.rng import Key, uniform

MEDIAN, MEAN = 60.0, 120.0  # goals for the queries of the settle phase
PLACES = torch.linspace(-0.6, 1.2, 37, dtype=torch.float64)  # log-distances from the walk's point
NEEDED = math.log(125)  # 1% for each image, of which the first place has 80%
PRICES = np.geomspace(1e-6, 1e-2, 60)  # of a query, in units of log-distance
LONGEST, RUNS = 1000, 100  # of simulated tests


class Rays(NamedTuple):
    """The last line of each walk, and what was known there."""

    outer: Tensor  # (n, d)
    original: Tensor  # (n, d)
    safe: Tensor  # (n,) distance of the walk's point from the original, in units of the line
    furthest: Tensor  # (n,) the same of the starting point
    rows: Tensor  # (n,)


class Recorded(Settle):
    """The settle phase, which also notes where it begins."""

    def __call__(self, problem: Problem, line: Line, furthest: Tensor, place: Tensor) -> Settled:
        """See `Settle`."""
        if not hasattr(self, "rays"):  # a second call tests starting points
            original = problem.originals(line.rows)
            size = (line.outer - original).norm(dim=1).double()
            object.__setattr__(self, "rays", Rays(line.outer, original, 1 - line.safe, furthest / size, line.rows))
        return super().__call__(problem, line, furthest, place)


def increasing(values: Tensor) -> Tensor:
    """The nearest increasing sequence, by pooling adjacent violators: `(k,)` -> `(k,)`."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    return torch.tensor([value for value, count in pools for _ in range(count)], dtype=torch.float64)


def probabilities(model: psj.TorchModel, noise: str, rays: Rays, labels: np.ndarray, draws: int) -> Tensor:
    """P(adversarial) at all `PLACES` of each ray, increasing outward: `(n, k)`."""
    found = []
    for row, (outer, original, safe) in enumerate(zip(rays.outer, rays.original, rays.safe, strict=True)):
        reach = (safe * PLACES.exp()).float().unsqueeze(1)
        points = (original + reach * (outer - original)).clamp(0, 1).reshape(-1, 1, 28, 28)
        truth = noise_of(noise).truth(model, points, draws=draws, key=Key(1000 + row))  # type: ignore[union-attr]
        found.append(increasing(1 - truth.probabilities[:, labels[rays.rows[row]]].double()))
    return torch.stack(found)


@lru_cache(maxsize=1)
def simulated() -> tuple[np.ndarray, np.ndarray]:
    """Mean answers until our test confirms, at most `LONGEST`, for some P: both `(k,)`."""
    chance = torch.linspace(0.51, 1.0, 50, dtype=torch.float64)
    taken = []
    for place, p in enumerate(chance):
        yes = (uniform(Key(place).roots(torch.arange(RUNS)), LONGEST).double() < p).cumsum(dim=1)
        asked = torch.arange(1, LONGEST + 1).expand_as(yes)
        gradual = torch.zeros(yes.numel(), dtype=torch.bool)
        enough = log_evidence(yes.flatten(), asked.flatten(), gradual).reshape(yes.shape) >= NEEDED
        taken.append(torch.where(enough.any(dim=1), enough.to(torch.int8).argmax(dim=1) + 1, LONGEST).double().mean())
    return chance.numpy(), torch.stack(taken).numpy()


def least_added(added: np.ndarray, queries: np.ndarray) -> tuple[float, float, float]:
    """The least mean of `added` under the goals, with median and mean of the queries: `(n, k)` each.

    For each price of a query every image takes its best place; the half of the images that lose least by it takes its
    best place within the median. The cheapest price with a mean within the goal is the answer.
    """
    for price in PRICES:
        cost = added + price * queries
        within = np.where(queries <= MEDIAN, cost, np.inf)
        free, bound = cost.argmin(axis=1), within.argmin(axis=1)
        loss = within.min(axis=1) - cost.min(axis=1)
        half = np.argsort(loss)[: (len(loss) + 1) // 2]
        free[half] = bound[half]
        rows = np.arange(len(free))
        asked = queries[rows, free]
        if asked.mean() <= MEAN:
            return float(added[rows, free].mean()), float(np.median(asked)), float(asked.mean())
    return math.nan, math.nan, math.nan


def row_of(noise: str, attack: str, budget: int, count: int, first: int, draws: int) -> tuple[object, ...]:
    """A line of the table."""
    images, labels = correct_images(count, first=first)
    model, settle = psj.TorchModel(psj.zoo.mnist_model()), Recorded()
    report = psj.evaluate(
        model, images, labels, attack, noise, budget=budget, starts=embedded_pool(), keep_trace=False, settle=settle
    )
    rays: Rays = settle.rays  # type: ignore[attr-defined]
    chance = probabilities(model, noise, rays, labels, draws)
    there = ((rays.furthest / rays.safe).log().unsqueeze(1) >= PLACES) & (chance > 0.5)
    usable = there.any(dim=1).numpy()
    border = PLACES[there.to(torch.int8).argmax(dim=1)].numpy()[usable]
    chance, there = chance[usable], there[usable]
    p = chance.clamp(0.5 + 1e-6, 1 - 1e-9)
    ideal = (NEEDED / (math.log(2) + torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p))).numpy()
    ours = np.interp(chance.numpy(), *simulated())
    outward = np.broadcast_to(PLACES.clamp(min=0).numpy(), ideal.shape)
    above = PLACES.numpy() - border[:, None]
    rows = rays.rows.numpy()[usable]
    with np.errstate(divide="ignore", invalid="ignore"):
        added = np.log(report.distances / report.walked)[rows]
    sure = report.success[rows] & np.isfinite(added)
    queries = report.queries_by_phase["settle"][rows]
    told: list[object] = [
        noise, f"{attack} {budget:,}", len(rows), f"{np.median(queries):.0f}, {queries.mean():.0f}",
        f"{np.clip(added[sure], 0, None).mean():.3f}", f"{(added - border)[sure].mean():.3f}", f"{-border.mean():.3f}"
    ]  # fmt: skip
    for cost in (outward, above):
        for asked in (ideal, ours):
            value, _, mean = least_added(cost, np.where(there.numpy(), np.maximum(asked, 8), 1e6))
            told.append(f"{value:.3f} ({mean:.0f})")
    return tuple(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=150, help="fresh answers at each of 37 places of a ray")
    parser.add_argument("--noises", nargs="*", default=list(GRADUAL))
    parser.add_argument("--attacks", nargs="*", default=[f"{attack}:{budget}" for attack, budget in NOISY])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for noise in options.noises:
        for name in options.attacks:
            attack, budget = name.split(":")
            rows.append(row_of(noise, attack, int(budget), options.images, options.first, options.draws))
            print(*rows[-1], flush=True)
    table = markdown(
        ("noise", "attack", "images", "settle queries now: median, mean", "added now", "beyond the border now",
         "walk's point beyond the border", "oracle, ideal test: added (mean queries)", "oracle, our test: added",
         "oracle, ideal test: beyond the border", "oracle, our test: beyond the border"),
        rows,
    )  # fmt: skip
    save(options.out, "\n".join((header("What confirming must cost under gradual noise", command()), "", table)))


if __name__ == "__main__":
    main()
