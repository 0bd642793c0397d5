"""PSJ under random crops, followed from inside: its parts beside exact ones, and what each iteration measured.

The border that single crops lead to is where half of the crops are adversarial. A white box knows it exactly: the
normal there is the gradient of the margin of that crop which changes last.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import popskipjump as psj
from popskipjump.attacks.border import Border
from popskipjump.attacks.directions.monte_carlo import LineSpread, accumulate, combine
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Begun, Move, Window
from popskipjump.attacks.walk import AnyWalk
from popskipjump.geometry import per_row
from popskipjump.oracles import Ticket

HALVINGS = 12  # of the search line: 1/4,096 of it
COLUMNS = ("iteration", "image", "wanted", "given", "cosine", "offset", "share")  # of a recorded direction


class Crops:
    """All crops of images, seen through the network."""

    def __init__(self, model: psj.TorchModel, size: int) -> None:
        self.model, self.size = model, size

    def margins(self, points: Tensor, labels: Tensor) -> Tensor:
        """Margin of every crop, positive where it is adversarial: `(M, C, H, W)`, `(M,)` -> `(M, K)`."""
        squares = points.unfold(2, self.size, 1).unfold(3, self.size, 1)  # (M, C, down, across, s, s)
        down, across = squares.shape[2:4]
        crops = squares.permute(0, 2, 3, 1, 4, 5).reshape(-1, points.shape[1], self.size, self.size)
        resized = functional.interpolate(crops, size=points.shape[2:], mode="bilinear", align_corners=False)
        logits: Tensor = self.model.module(resized)
        own = labels.repeat_interleave(down * across).unsqueeze(1)
        rival = logits.scatter(1, own, -torch.inf).amax(dim=1)
        return (rival - logits.gather(1, own).squeeze(1)).reshape(len(points), -1)

    def half(self, points: Tensor, labels: Tensor) -> Tensor:
        """Positive where more than half of the crops are adversarial: `(M,)`."""
        margins = self.margins(points, labels)
        middle: Tensor = margins.sort(dim=1, descending=True).values[:, margins.shape[1] // 2]
        return middle

    def normal(self, points: Tensor, labels: Tensor) -> Tensor:
        """The normal of the border of the half, at points on it: `(M, d)`."""
        with torch.enable_grad():
            inputs = points.detach().clone().requires_grad_()
            self.half(inputs, labels).sum().backward()
        assert inputs.grad is not None
        return inputs.grad.flatten(1)

    @torch.no_grad()
    def crossing(self, outer: Tensor, original: Tensor, labels: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Where half of the crops change on lines from `outer` `(A, d)` (0) to the originals (1): float64 `(A,)`."""
        low = torch.zeros(len(outer), dtype=torch.float64)
        high = torch.ones_like(low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            points = torch.lerp(outer, original, per_row(middle).to(outer.dtype)).reshape(-1, *shape)
            inside = self.half(points, labels) > 0
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        return (low + high) / 2

    def share(self, points: Tensor, labels: Tensor) -> Tensor:
        """Share of the crops that are adversarial: `(M,)`."""
        with torch.no_grad():
            return (self.margins(points, labels) > 0).double().mean(dim=1)


@dataclass(frozen=True)
class ExactBorder:
    """A search, whose border is then put where half of the crops change on the same line."""

    inner: Any
    crops: Crops

    def __getattr__(self, name: str) -> Any:
        """All else is the inner search's."""
        return getattr(self.inner, name)

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: Any,
    ) -> tuple[Border, Any]:
        """See `Search`."""
        border, state = self.inner(problem, rows, outer, window, iteration, previous, state)
        return moved(problem, border, self.crops), state


def moved(problem: Problem, border: Border, crops: Crops) -> Border:
    """The border where half of the crops change on its line."""
    original = problem.originals(border.rows)
    position = crops.crossing(border.outer, original, labels_of(problem, border), problem.shape)
    point = problem.norm.blend(border.outer, original, problem.on_device(position))
    distance = problem.on_cpu(problem.norm.size(point - original))
    return border._replace(position=position, safe=position, point=point, distance=distance)


def labels_of(problem: Problem, border: Border) -> Tensor:
    """The true classes of the images of a border."""
    assert problem.labels is not None
    return problem.labels[border.rows]


@dataclass(frozen=True, eq=False)
class Recorded:
    """A direction, beside the exact normal at the border of the half on the same ray.

    Args:
        inner: the direction; None takes the exact normal itself.
        crops: the white box.
        limit: directions at most, for the record.
        log: one row of `COLUMNS` for each iteration and image.
    """

    inner: Any
    crops: Crops
    limit: int
    log: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def fewest(self) -> int:
        """See `Direction`."""
        return 1 if self.inner is None else int(self.inner.fewest)

    def begin(self, problem: Problem, begun: Begun) -> Any:
        """See `Direction`."""
        return () if self.inner is None else self.inner.begin(problem, begun)

    def __call__(self, problem: Problem, border: Border, iteration: int, state: Any) -> tuple[Tensor, Any]:
        """See `Direction`."""
        labels, exact = labels_of(problem, border), moved(problem, border, self.crops)
        normal = self.crops.normal(exact.point.reshape(-1, *problem.shape), labels)
        found, state = (normal, state) if self.inner is None else self.inner(problem, border, iteration, state)
        wanted = border.sample_ratio * 100 * iteration**0.5
        share = self.crops.share(border.point.reshape(-1, *problem.shape), labels)
        columns = (
            torch.full((len(labels),), float(iteration)),
            problem.image_id[border.rows],
            wanted,
            wanted.clamp(max=self.limit),
            functional.cosine_similarity(found, normal, dim=1),
            border.distance / exact.distance - 1,
            share,
        )
        self.log.extend(zip(*(column.tolist() for column in columns), strict=True))
        return found, state

    def far(self, state: Any) -> None:
        """See `Direction`."""

    def learn(self, problem: Problem, before: Border, found: Border, move: Move, state: Any) -> Any:
        """See `Direction`."""
        return state


@dataclass(frozen=True, eq=False)
class Probed:
    """PSJ whose directions are recorded, and whose border or direction may be exact."""

    attack: psj.PopSkipJump
    crops: Crops
    exact_border: bool = False
    exact_direction: bool = False
    shots: bool = False  # measure single directions instead
    log: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def iterations(self) -> int:
        """As many as PSJ's."""
        return self.attack.iterations

    def build(self, dimension: int) -> AnyWalk:
        """See `AttackConfig`."""
        walk = self.attack.build(dimension)
        inner = None if self.exact_direction else walk.direction
        kind = Shots if self.shots else Recorded
        direction = kind(inner, self.crops, self.attack.count.limit, self.log)
        search = ExactBorder(walk.search, self.crops) if self.exact_border else walk.search
        return replace(walk, direction=direction, search=search)

    def recorded(self) -> np.ndarray:
        """The log, a row for each entry."""
        return np.array(self.log, dtype=float)


class HalfOracle:
    """Answers whether more than half of the crops are adversarial, without noise."""

    def __init__(self, problem: Problem, crops: Crops) -> None:
        self.problem, self.crops = problem, crops

    @torch.no_grad()
    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        assert self.problem.labels is not None
        labels = self.problem.labels[ticket.image]
        return torch.where(self.crops.half(points, labels) > 0, (labels + 1) % 10, labels)


@dataclass(frozen=True, eq=False)
class Shots(Recorded):
    """Single directions at the exact border, in some iterations of a walk: cosines by radius, number and answers.

    A row of the log is: iteration, image, part of the line, directions, whether the answers are exact, cosine.
    """

    iterations: tuple[int, ...] = (4, 16, 32)
    parts: tuple[float, ...] = (1 / 300, 1 / 100, 1 / 30, 1 / 10)
    number: int = 1_000

    def __call__(self, problem: Problem, border: Border, iteration: int, state: Any) -> tuple[Tensor, Any]:
        """See `Direction`."""
        if iteration in self.iterations:
            exact = moved(problem, border, self.crops)
            labels = labels_of(problem, border)
            normal = self.crops.normal(exact.point.reshape(-1, *problem.shape), labels)
            noiseless = replace(problem, oracle=HalfOracle(problem, self.crops))
            for part in self.parts:
                for known, asked in ((False, problem), (True, noiseless)):
                    found = estimate(asked, exact, part, self.number, iteration)
                    cosines = functional.cosine_similarity(found, normal, dim=1).tolist()
                    ids = problem.image_id[border.rows].tolist()
                    self.log.extend(
                        (float(iteration), float(image), part, float(self.number), float(known), cosine)
                        for image, cosine in zip(ids, cosines, strict=True)
                    )
        found, state = self.inner(problem, border, iteration, state)
        return found, state


def estimate(problem: Problem, border: Border, part: float, number: int, iteration: int) -> Tensor:
    """PSJ's estimate from so many directions whose coordinates have this part of the line: `(A, d)`."""
    counts = torch.full((len(border.rows),), number)
    spread = problem.on_device(LineSpread(part)(problem, border, iteration))
    sums, answers = accumulate(problem, border, spread, counts, iteration, False)
    return combine(sums, answers, problem.on_device(counts), border.point, True)
