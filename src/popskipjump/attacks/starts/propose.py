"""Proposed starting points, and the votes that confirm them as adversarial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from popskipjump.attacks.problem import Problem
from popskipjump.errors import InputError
from popskipjump.geometry import clip, row_sums
from popskipjump.rng import integers, uniform
from popskipjump.types import Bounds

Propose = Callable[[Tensor, int], Tensor]  # (rows (A,), how many were tried) -> points (A, d)


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidate starting images and their classes; an attack starts from one of another class, or of the target."""

    images: Any  # (N, *S), a tensor, an array or a data frame; `evaluate` makes it a tensor
    labels: Any  # (N,), of the classifier's own classes

    def __post_init__(self) -> None:
        dimensions = [len(getattr(part, "shape", ())) for part in (self.images, self.labels)]
        if dimensions[0] == 1 and dimensions[1] > 1:
            raise InputError(
                f"a pool is Pool(images, labels), and these look exchanged: images have the shape "
                f"{tuple(self.images.shape)}, labels {tuple(self.labels.shape)}."
            )
        if len(self.images) != len(self.labels) or not len(self.images):
            raise InputError(f"a pool needs one label for each image: {len(self.images)} and {len(self.labels)} given.")


@dataclass(frozen=True, eq=False)
class CheckedPool(Pool):
    """A pool of tensors whose values lie within bounds. A large pool serves many shards, and is checked once."""

    bounds: Bounds

    @cached_property
    def flat(self) -> Tensor:
        """Images `(N, d)` float32 above the lower bound, or the squares of large values would swamp small distances."""
        flat: Tensor = self.images.reshape(len(self.images), -1).to(torch.float32)
        return flat - self.bounds.low if self.bounds.low else flat

    @cached_property
    def squares(self) -> Tensor:
        """Squared lengths of `flat`, `(N,)`."""
        return row_sums(self.flat**2)


def majority_adversarial(problem: Problem, points: Tensor, rows: Tensor, votes: int, phase: str) -> Tensor:
    """Whether most of `votes` answers at each point are adversarial: `(A, d)`, `(A,)` -> bool `(A,)` on the CPU.

    An image whose budget does not cover all votes gets fewer; without any vote, the result is False.
    """
    yes = torch.zeros(len(rows), dtype=torch.int64)
    asked = torch.zeros(len(rows), dtype=torch.int64)
    for _ in range(votes):
        # Stop the vote once the majority is decided.
        open_ = (2 * yes <= votes) & (2 * (asked - yes) < votes) & (problem.affordable(rows) > 0)
        going = open_.nonzero().flatten()
        if not len(going):
            break
        chosen = problem.index(going)
        yes[going] += problem.decide(points[chosen].clone(), rows[going], phase).cpu().to(torch.int64)
        asked[going] += 1
    return 2 * yes > asked


def enlarged(problem: Problem, rows: Tensor, points: Tensor, factor: float) -> Tensor:
    """Points moved away from their originals by a factor, within the bounds: `(A, d)`."""
    original = problem.originals(rows)
    return clip(original + factor * (points - original), problem.bounds)


def find_starts(
    problem: Problem, rows: Tensor, propose: Propose, tries: int, votes: int, confirm_votes: int = 0
) -> tuple[Tensor, Tensor]:
    """Try proposals until a majority vote finds one adversarial.

    Args:
        problem: the images and their oracle.
        rows: `(A,)`.
        propose: function that proposes points.
        tries: largest number of proposals.
        votes: number of votes on each proposal.
        confirm_votes: number of further votes on a winner, because some of many proposals win a few votes by chance.

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
        if confirm_votes and len(good):
            chosen = candidates[problem.index(good)]
            good = good[majority_adversarial(problem, chosen, rows[going[good]], confirm_votes, "start")]
        points[problem.index(going[good])] = candidates[problem.index(good)]
        found[going[good]] = True
    return points, found


def from_pool(problem: Problem, pool: Pool, truth: Tensor, targets: Tensor | None, nearest: bool = False) -> Propose:
    """Propose images of a pool; the order differs between the attacked images.

    Args:
        problem: the attacked images.
        pool: candidate images.
        truth: `(B,)` on the CPU: true classes; an image never starts from its own class.
        targets: `(B,)` on the CPU, or None: the class that a starting image must have.
        nearest: propose the nearest images first, instead of an order that depends on the seed.
    """
    checked = pool if isinstance(pool, CheckedPool) else CheckedPool(pool.images, pool.labels, problem.bounds)
    flat = pool.images.reshape(len(pool.images), -1)
    labels = pool.labels.cpu()

    def propose(rows: Tensor, attempt: int) -> Tensor:
        chosen = []
        roots = problem.key.child("start").roots(problem.image_id[rows])
        for row, root in zip(rows.tolist(), roots, strict=True):
            fits = (labels != truth[row]) if targets is None else (labels == targets[row])
            candidates = fits.nonzero().flatten()
            if not len(candidates):  # propose the original, which is not adversarial
                chosen.append(problem.original[row])
                continue
            if nearest:
                # Squared distances up to a constant; computed for the whole pool to avoid copying the candidates.
                above = problem.original[row].cpu() - checked.bounds.low
                far = torch.addmv(checked.squares, checked.flat, above, alpha=-2)[candidates]
                place = int(far.argsort(stable=True)[attempt % len(candidates)])
            else:
                first = int(integers(root.reshape(1), 1, len(candidates)))
                # A prime stride visits all candidates before it repeats one.
                place = (first + attempt * 7919) % len(candidates)
            chosen.append(flat[candidates[place]].to(problem.device, torch.float32))
        return torch.stack(chosen)

    return propose


def from_noise(problem: Problem) -> Propose:
    """Propose noise and simple images (negative, grey, black, white) first, then the original blended with noise."""
    low, span = problem.bounds.low, problem.bounds.range

    def propose(rows: Tensor, attempt: int) -> Tensor:
        original = problem.originals(rows)
        roots = problem.index(problem.key.child("start-noise", attempt).roots(problem.image_id[rows]))
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
