"""What all searches of a line share: who can still ask, what was asked, and the border where it was found."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.geometry import l2_size
from popskipjump.sigmoid import Estimate

Indices = np.ndarray[tuple[int, ...], np.dtype[np.intp]]
Asked = tuple[Indices, list[int] | Indices, list[bool]]  # in one step: which images, at which places, what was answered


def cannot_ask(problem: Problem, rows: Tensor, decisions: int) -> Tensor:
    """Which images cannot pay so many decisions, or have failed: rows `(A,)` -> bool `(A,)`."""
    stop = problem.affordable(rows) < decisions
    for row in problem.failed:
        stop |= rows == row
    return stop


def border_at(
    problem: Problem,
    rows: Tensor,
    outer: Tensor,
    position: Tensor,
    safe: Tensor,
    effort: Tensor,
    searched: Tensor,
    settled: Tensor,
    estimate: Estimate | None,
    probes: Tensor | None = None,
) -> Border:
    """The border at known positions of the lines from `outer` `(A, d)` to the originals; the rest as in `Border`."""
    original = problem.originals(rows)
    point = problem.norm.blend(outer, original, problem.on_device(position))
    distance = problem.on_cpu(problem.norm.size(point - original))
    gap = problem.on_cpu(l2_size(outer - original))
    return Border(rows, outer, point, position, safe, distance, gap, effort, searched, settled, estimate, probes)


def counted(log: list[Asked], images: int, places: int) -> Tensor:
    """How often each place of each line was asked, and found adversarial: int64 `(images, 2, places)`."""
    probes = torch.zeros(images, 2, places, dtype=torch.int64)
    if log:
        who, where, said = (np.concatenate(column) for column in zip(*log, strict=True))
        np.add.at(probes[:, 0].numpy(), (who, where), 1)
        np.add.at(probes[:, 1].numpy(), (who, where), said)
    return probes
