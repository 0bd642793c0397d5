"""Where an attack begins: a point of the adversarial side for each image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import row_sums
from popskipjump.rng import integers, uniform

Propose = Callable[[Tensor, int], Tensor]  # (rows (A,), how many were tried) -> points (A, d)


@dataclass(frozen=True, eq=False)
class Pool:
    """Images to start from, with their classes; an image starts from one of another class, or of its target class."""

    images: Tensor  # (N, *S)
    labels: Tensor  # (N,)

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels) or not len(self.images):
            raise InputError(f"a pool needs one label for each image: {len(self.images)} and {len(self.labels)} given.")


def majority_adversarial(problem: Problem, points: Tensor, rows: Tensor, votes: int, phase: str) -> Tensor:
    """Whether most of `votes` answers at each point are adversarial: `(A, d)`, `(A,)` -> bool `(A,)` on the CPU.

    An image whose budget cannot pay all the votes gets fewer; with none, the answer is False.
    """
    yes = torch.zeros(len(rows), dtype=torch.int64)
    asked = torch.zeros(len(rows), dtype=torch.int64)
    for _ in range(votes):
        # Nothing more is asked where the majority is certain.
        open_ = (2 * yes <= votes) & (2 * (asked - yes) < votes) & (problem.affordable(rows) > 0)
        going = open_.nonzero().flatten()
        if not len(going):
            break
        chosen = problem.there(going)
        yes[going] += problem.decide(points[chosen].clone(), rows[going], phase).cpu().to(torch.int64)
        asked[going] += 1
    return 2 * yes > asked


def find_starts(
    problem: Problem, rows: Tensor, propose: Propose, tries: int, votes: int, assured: int = 0
) -> tuple[Tensor, Tensor]:
    """Try proposals until the majority of a few votes calls one adversarial.

    Args:
        problem: what is asked.
        rows: `(A,)`.
        propose: where to look.
        tries: proposals at most.
        votes: answers about each.
        assured: answers about one that won these votes. Of many guesses, some win a few votes by chance alone.

    Returns:
        points `(A, d)`, and bool `(A,)` whether one was found.
    """
    points = problem.originals(rows).clone()
    found = torch.zeros(len(rows), dtype=torch.bool)
    for attempt in range(tries):
        going = ((~found) & (problem.affordable(rows) > 0)).nonzero().flatten()
        if not len(going):
            break
        candidates = propose(rows[going], attempt)
        good = majority_adversarial(problem, candidates, rows[going], votes, "start").nonzero().flatten()
        if assured and len(good):
            there = candidates[problem.there(good)]
            good = good[majority_adversarial(problem, there, rows[going[good]], assured, "start")]
        points[problem.there(going[good])] = candidates[problem.there(good)]
        found[going[good]] = True
    return points, found


def from_pool(problem: Problem, pool: Pool, truth: Tensor, targets: Tensor | None, nearest: bool = False) -> Propose:
    """Propose images of the pool, each image in an order of its own.

    Args:
        problem: what is attacked.
        pool: where to take them from.
        truth: `(B,)` on the CPU: the class an image may not start from.
        targets: `(B,)` on the CPU, or None: the class it must start from.
        nearest: in the order of their distance, instead of one that depends on the seed.
    """
    flat = pool.images.reshape(len(pool.images), -1)
    low = problem.bounds.low  # counted from there, or the squares of large values would hide small distances
    compared = flat.to(torch.float32) - low if nearest else flat[:0]
    squares = row_sums(compared**2)
    labels = pool.labels.cpu()

    def propose(rows: Tensor, attempt: int) -> Tensor:
        chosen = []
        roots = problem.key.child("start").roots(problem.image_id[rows])
        for row, root in zip(rows.tolist(), roots, strict=True):
            fits = (labels != truth[row]) if targets is None else (labels == targets[row])
            candidates = fits.nonzero().flatten()
            if not len(candidates):  # an image of its own class is never adversarial: the tries run out
                chosen.append(problem.original[row])
                continue
            if nearest:
                # The square of the distance, but for what is the same for all; of all images, without a copy of some.
                far = torch.addmv(squares, compared, problem.original[row].cpu() - low, alpha=-2)[candidates]
                place = int(far.argsort(stable=True)[attempt % len(candidates)])
            else:
                first = int(integers(root.reshape(1), 1, len(candidates)))
                # A stride prime to any length visits all of them before one comes again.
                place = (first + attempt * 7919) % len(candidates)
            chosen.append(flat[candidates[place]].to(problem.device, torch.float32))
        return torch.stack(chosen)

    return propose


def from_noise(problem: Problem) -> Propose:
    """Propose the original blended with noise, ever more of it, and a few plain pictures."""
    low, span = problem.bounds.low, problem.bounds.range

    def propose(rows: Tensor, attempt: int) -> Tensor:
        original = problem.originals(rows)
        roots = problem.there(problem.key.child("start-noise", attempt).roots(problem.image_id[rows]))
        noise = low + span * uniform(roots, problem.dimension)
        plain = (
            noise,
            2 * low + span - original,  # the negative
            torch.full_like(noise, low + span / 2),
            torch.full_like(noise, low),
            torch.full_like(noise, low + span),
            (noise > low + span / 2).to(noise.dtype) * span + low,
        )
        if attempt < len(plain):
            return plain[attempt]
        share = 0.3 + 0.7 * ((attempt * 0.618034) % 1.0)
        return original + share * (noise - original)

    return propose
