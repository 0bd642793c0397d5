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

KNOWN = 32  # nearest images of a pool whose order is remembered

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


class FromPool:
    """Proposes images of a pool; the order differs between the attacked images.

    Args:
        problem: the attacked images.
        pool: candidate images.
        truth: `(B,)` on the CPU: true classes; an image never starts from its own class.
        targets: `(B,)` on the CPU, or None: the class that a starting image must have.
        nearest: propose the nearest images first, instead of an order that depends on the seed.
    """

    def __init__(
        self, problem: Problem, pool: Pool, truth: Tensor, targets: Tensor | None, nearest: bool = False
    ) -> None:
        self.problem, self.truth, self.targets, self.nearest = problem, truth, targets, nearest
        self.checked = pool if isinstance(pool, CheckedPool) else CheckedPool(pool.images, pool.labels, problem.bounds)
        self.flat = pool.images.reshape(len(pool.images), -1)
        self.labels = pool.labels.cpu()
        self.known: dict[int, Tensor] = {}  # the first images proposed for a row, by their places in the pool

    def __call__(self, rows: Tensor, attempt: int) -> Tensor:
        """See `Propose`; the original, which is not adversarial, where the pool has no image that fits."""
        roots = self.problem.key.child("start").roots(self.problem.image_id[rows])
        pairs = zip(rows.tolist(), roots, strict=True)
        return torch.stack([self._proposed(row, root, attempt) for row, root in pairs])

    def further(self, rows: Tensor, number: int) -> Tensor:
        """The nearest images but `number`, and the original where the pool has no more: `(A, d)`."""
        chosen = []
        for row in rows.tolist():
            order = self._order(row)
            chosen.append(self._image(order[number]) if number < len(order) else self.problem.original[row])
        return torch.stack(chosen)

    def _proposed(self, row: int, root: Tensor, attempt: int) -> Tensor:
        candidates = self._candidates(row)
        if not len(candidates):
            return self.problem.original[row]
        if self.nearest:
            attempt %= len(candidates)
            order = self._order(row) if attempt < KNOWN else self._sorted(row)
            return self._image(order[attempt])
        first = int(integers(root.reshape(1), 1, len(candidates)))
        # A prime stride visits all candidates before it repeats one.
        return self._image(candidates[(first + attempt * 7919) % len(candidates)])

    def _image(self, place: Tensor) -> Tensor:
        image: Tensor = self.flat[place]
        return image.to(self.problem.device, torch.float32)

    def _candidates(self, row: int) -> Tensor:
        """Places in the pool of the images that fit."""
        fits: Tensor = (self.labels != self.truth[row]) if self.targets is None else (self.labels == self.targets[row])
        return fits.nonzero().flatten()

    def _order(self, row: int) -> Tensor:
        """The places of the nearest images, which are sorted once."""
        if row not in self.known:
            self.known[row] = self._sorted(row)[:KNOWN].clone()
        return self.known[row]

    def _sorted(self, row: int) -> Tensor:
        """The places of all images that fit, the nearest first."""
        candidates, checked = self._candidates(row), self.checked
        # Squared distances up to a constant; computed for the whole pool to avoid copying the candidates.
        above = self.problem.original[row].cpu() - checked.bounds.low
        far = torch.addmv(checked.squares, checked.flat, above, alpha=-2)[candidates]
        return candidates[far.argsort(stable=True)]


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
