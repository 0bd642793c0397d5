"""What the engine's parts cost, beside the ways that were tried and rejected.

    python benchmarks/parts.py --out benchmarks/results/parts.md

Microseconds of processor time, best of several rounds in which the candidates take turns. One thread.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from common import command, correct_images, embedded_pool, header, markdown, save, seconds
from torch.utils.mkldnn import to_mkldnn

import popskipjump as psj
from popskipjump.attacks.directions.adaptive.dct import basis_of
from popskipjump.attacks.directions.adaptive.envelope import envelope, within_bounds
from popskipjump.attacks.directions.adaptive.spectrum import Evidence, filtered, infer
from popskipjump.attacks.directions.pool import DirectionPool
from popskipjump.attacks.searches.warm import TWO_SIDED
from popskipjump.geometry import row_sums
from popskipjump.oracles import Ticket
from popskipjump.rng import Key, normal
from popskipjump.sigmoid import Grid, SigmoidPosterior, information_by_table, mutual_information
from popskipjump.sigmoid.acquisition import exact_information
from popskipjump.types import Bounds

ROWS, D, IMAGES, ROUNDS = 512, 784, 100, 7
Work = Callable[[], object]


def _repeated(work: Work, repeat: int) -> None:
    for _ in range(repeat):
        work()


def compare(candidates: dict[str, Work], per: int, repeat: int = 3) -> dict[str, float]:
    """Microseconds of each candidate, divided by `per`."""
    best = dict.fromkeys(candidates, np.inf)
    for _ in range(ROUNDS):
        for name, work in candidates.items():
            taken, _ = seconds(partial(_repeated, work, repeat), clock="cpu")
            best[name] = min(best[name], taken / repeat * 1e6 / per)
    return best


def models() -> dict[str, float]:
    """A query of the embedded net, in batches of 512 images with a little noise."""
    x, _ = correct_images(ROWS)
    points = (torch.from_numpy(x) + 0.05 * normal(Key(0).roots(torch.arange(ROWS)), D).reshape(x.shape)).clamp(0, 1)
    plain = psj.zoo.mnist_model()
    last: torch.nn.Module = copy.deepcopy(plain)
    last = last.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch types it for tensors only
    last_points = points.to(memory_format=torch.channels_last)
    converted = to_mkldnn(copy.deepcopy(plain))
    frozen = psj.oracles.FastForward(plain)
    forwards: dict[str, Work] = {
        "eager": lambda: plain(points),
        "eager, channels_last": lambda: last(last_points),
        "eager, channels_last, conversion included": lambda: last(points.contiguous(memory_format=torch.channels_last)),
        "converted to mkldnn tensors": lambda: converted(points.to_mkldnn()).to_dense(),
        "frozen and fused (`optimize=True`)": lambda: frozen(points),
    }
    with torch.no_grad():
        for forward in forwards.values():
            forward(), forward()
        return compare(forwards, ROWS)


def directions() -> dict[str, float]:
    """512 perturbed points of 784 values."""
    pool = DirectionPool(Key(0), D, torch.arange(1), torch.device("cpu"), sphere=False)
    roots, numbers, zero = Key(0).roots(torch.arange(ROWS)), torch.arange(2), torch.zeros(2, dtype=torch.int64)
    buffer, point = torch.empty(ROWS, D), torch.rand(D, generator=torch.Generator().manual_seed(0))
    scale, generator, floats = torch.full((D,), 0.01), torch.Generator().manual_seed(0), np.random.default_rng(0)

    def pooled() -> None:
        blocks, signs = pool.draw(zero, 1, numbers)
        for part, block, sign in zip(torch.split(buffer, 256), blocks, signs.mul_(0.01), strict=True):
            torch.addcmul(point, block, sign, out=part)

    return compare(
        {
            "pool with signs, drawn and added (used)": pooled,
            "a hashed normal for every value, added": lambda: torch.addcmul(point, normal(roots, D), scale, out=buffer),
            "torch.randn, added": lambda: torch.addcmul(
                point, torch.randn(ROWS, D, generator=generator), scale, out=buffer
            ),
            "NumPy float32 normals, not added": lambda: floats.standard_normal((ROWS, D), dtype=np.float32),
        },
        ROWS,
    )


def quick_directions() -> dict[str, float]:
    """512 of QSJ's points as if they were one image's: what its arithmetic takes at least, with warm caches."""
    basis, generator = basis_of((1, 28, 28)), torch.Generator().manual_seed(0)
    pool, first, second = (torch.randn(ROWS, D, generator=generator) for _ in range(3))
    scale, centre, spread, radial = (torch.rand(D, generator=generator) for _ in range(4))
    sums, factors = torch.zeros(2, D), torch.ones(2, ROWS)

    def points() -> None:
        torch.mul(pool, scale, out=first)
        asked, free = basis.turn_to_points(first, second)
        along = row_sums(torch.mul(asked, radial, out=free))
        torch.addcmul(centre, asked, spread, out=asked).addr_(along, radial)
        sums.addmm_(factors, asked.clamp_(0, 1))

    grid = Grid(35, 8, (-0.5, 2.5), TWO_SIDED)
    posterior = SigmoidPosterior.uniform(grid, IMAGES)
    return compare(
        {
            "a direction, from the pool to the sums": points,
            "of that, the two products with cosines": lambda: basis.turn_to_points(first, second),
        },
        ROWS,
    ) | compare(
        {"a step of a search: the information of 35 places alone": lambda: information_by_table(posterior)}, IMAGES
    )


def image_work() -> Work:
    """What an iteration computes for 100 images: envelope, clipping, and the normal from the sums of the answers."""
    basis, generator = basis_of((1, 28, 28)), torch.Generator().manual_seed(0)
    point, change, signal = (torch.rand(IMAGES, D, generator=generator) for _ in range(3))
    weight = torch.ones(IMAGES, len(basis.band_size))
    prior, strength = basis.likely.expand(IMAGES, -1), torch.full((IMAGES,), 0.3)

    def work() -> None:
        spread = envelope(basis, change)
        seen = spread * within_bounds(point, 0.1 * spread, Bounds.of((0.0, 1.0)))
        evidence = Evidence(basis.to_coefficients(signal / seen), weight, weight)
        found = filtered(basis, infer(basis, evidence, prior, strength), evidence)
        basis.to_points(found).mul_(seen)

    return work


class Counted:
    """An oracle that counts its calls."""

    def __init__(self, oracle: psj.Classifier) -> None:
        self.oracle, self.device, self.calls = oracle, oracle.device, 0
        self.checked, self.numbered = oracle.checked, oracle.numbered

    def ask(self, points: torch.Tensor, ticket: Ticket) -> torch.Tensor:
        """See `Oracle`."""
        self.calls += 1
        return self.oracle.ask(points, ticket)


def least_of_quick() -> dict[str, float]:
    """The least that QSJ's arithmetic takes outside of the model, us per query, at 100 images with 1,000 queries each.

    Each part is timed alone, with warm caches, and multiplied by how often a run needs it.
    """
    images, labels = correct_images(IMAGES)
    oracle = Counted(psj.Classifier(psj.TorchModel(psj.zoo.mnist_model(), optimize=True)))
    report = psj.evaluate(oracle, images, labels, attack="qsj", budget=1000, starts=embedded_pool(), verdict=0)
    queries = int(report.queries.sum())
    directions, searched = (int(report.queries_by_phase[phase].sum()) for phase in ("direction", "search"))
    steps = (report.trace.queries[1:] > report.trace.queries[:-1]).sum()  # an image that has ended asks no more
    posterior = SigmoidPosterior.uniform(Grid(35, 8, (-0.5, 2.5), TWO_SIDED), IMAGES)
    places, said = [17] * IMAGES, [True] * IMAGES
    asked, logits = torch.rand(queries // oracle.calls, D), torch.rand(queries // oracle.calls, 10)
    direction = quick_directions()["a direction, from the pool to the sums"]

    def search() -> None:
        information_by_table(posterior)
        posterior.update(places, said)

    image = compare({"search": search, "iteration": image_work()}, IMAGES)
    call = compare({"call": lambda: (asked.clamp_(0, 1), logits.sum(), logits.argmax(dim=1) != 0)}, 1)["call"]
    parts = {
        "directions, from the pool to the sums": direction * directions / queries,
        "searches: information and posterior": image["search"] * searched / queries,
        "iterations: envelope, clipping, spectrum, filter": image["iteration"] * float(steps) / queries,
        "calls: clipping, and labels from logits": call * oracle.calls / queries,
    }
    return parts | {"together": sum(parts.values())}


def information(images: int) -> dict[str, float]:
    """The mutual information at all positions, for one image; grid of 101."""
    grid = Grid()
    posterior = SigmoidPosterior.uniform(grid, images)
    for step in range(12):
        posterior.update([(37 * step) % 100] * images, [step % 3 == 0] * images)
    posterior.rescale(posterior.weights.sum(dim=(1, 2)))
    near = SigmoidPosterior(grid, posterior.weights.clone())
    near.weights[:, ::9] = 1e-41  # what a search left in one cell of nine before such weights were given up
    wide = SigmoidPosterior.uniform(Grid(slopes=31), images)
    fast = compare(
        {
            "low rank, 64 channels (used)": lambda: mutual_information(posterior),
            "low rank, 124 channels (31 slopes)": lambda: mutual_information(wide),
            "low rank, weights near float32's end kept": lambda: mutual_information(near),
        },
        images,
    )
    if images > 1:
        return fast
    return fast | compare({"full tables, float64": lambda: exact_information(posterior)}, images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tables = {
        "The model, us / query": models(),
        "Directions, us / query": directions(),
        "QSJ's operations, us": quick_directions(),
        "QSJ outside of the model at the least, us / query": least_of_quick(),
        "Mutual information, us / search step, 1 image": information(1),
        "Mutual information, us / image and search step, 100 images": information(100),
    }
    text = header("Parts of the engine", command())
    for title, found in tables.items():
        text += "\n" + markdown((title, ""), [(name, f"{value:.2f}") for name, value in found.items()]) + "\n"
    save(args.out, text)


if __name__ == "__main__":
    main()
