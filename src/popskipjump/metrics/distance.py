"""Border distance: distance to the noiseless decision boundary along the ray that an attack found (section 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.geometry import Norm, clip, norm_of, per_row
from popskipjump.oracles.base import Labelling, device_of
from popskipjump.oracles.classifier import chunk_rows
from popskipjump.oracles.criteria import Criterion, Targeted, Untargeted
from popskipjump.types import Bounds

_MAX_ROWS = 1024
_NEAR = 2.0
_FAR = 1e4


@dataclass(frozen=True)
class _Rays:
    """Rays from originals through points, with the noiseless decision along them."""

    white_box: Labelling
    criterion: Criterion
    original: Tensor  # (B, d)
    points: Tensor  # (B, d)
    shape: tuple[int, ...]  # of one input
    bounds: Bounds
    on_rows: Callable[[int], None] | None = None

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Points on rays at given positions (0: the original, 1: the point): `(R,)`, `(R,)` -> `(R, d)`."""
        # lerp returns both ends exactly, so that a point that is barely adversarial stays adversarial
        return clip(torch.lerp(self.original[rows], self.points[rows], per_row(position)), self.bounds)

    def adversarial(self, rows: Tensor, position: Tensor) -> Tensor:
        """Whether the noiseless decision at each position is adversarial: `(R,)`, `(R,)` -> bool `(R,)`."""
        size = chunk_rows(self.original.shape[1], _MAX_ROWS)
        device = device_of(self.white_box)
        found = torch.empty(len(rows), dtype=torch.bool, device=rows.device)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            inputs = self.at(rows[part], position[part]).reshape(-1, *self.shape).to(device)
            found[part] = self.criterion.decide(self.white_box.labels(inputs).to(rows.device), rows[part])
            if self.on_rows is not None:
                self.on_rows(len(inputs))
        return found


@torch.no_grad()
def border_distance(
    white_box: Labelling,
    original: Tensor,
    points: Tensor,
    labels: Tensor,
    norm: str | Norm = "l2",
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    targets: Tensor | None = None,
    steps: int = 64,
    reach: float | None = None,
    bisections: int = 20,
    on_rows: Callable[[int], None] | None = None,
) -> Tensor:
    """Distance from each original to the first change of the noiseless decision on the ray through its point.

    The decision is evaluated at `steps` positions of the ray, and the first interval with a change is bisected
    `bisections` times. Two changes within one interval are missed. These calls are not counted as queries: the paper
    uses them for evaluation only.

    Args:
        white_box: noiseless labels of the base classifier.
        original: `(B, *S)` x_*.
        points: `(B, *S)` returned by the attack; may lie on either side of the boundary.
        labels: `(B,)` true classes.
        norm: "l2" or "linf", or a norm, in which the distance is measured; the ray is straight in every norm.
        bounds: positions outside are clipped to the bounds, and their distance is measured after clipping.
        targets: `(B,)` the classes that count as adversarial; None counts every class but the true one.
        steps: number of positions evaluated.
        reach: how far the ray is followed, as a multiple of the point's own distance. None evaluates even steps up to
            twice the distance, and then geometrically growing steps until all coordinates are at the bounds.
        bisections: number of halvings of the first interval with a change.
        on_rows: called with the number of inputs after every call of the white box.

    Returns:
        `(B,)`: `inf` where the ray meets no boundary (also where the point equals the original, or is not finite), 0
        where the original itself is adversarial.
    """
    _check_batch(original, points, labels, targets)
    _check_search(steps, reach, bisections)
    norm, limits = norm_of(norm), Bounds.of(bounds)
    finite = points.flatten(1).isfinite().all(dim=1)  # (B,)
    points = torch.where(finite.reshape(-1, *(1 for _ in points.shape[1:])), points, original)
    device, shape = original.device, tuple(original.shape[1:])
    criterion = Untargeted(labels.to(device)) if targets is None else Targeted(targets.to(device))
    rays = _Rays(white_box, criterion, original.flatten(1), points.flatten(1), shape, limits, on_rows)

    everyone = torch.arange(len(original), device=device)
    wrong = rays.adversarial(everyone, torch.zeros_like(everyone, dtype=original.dtype))
    distance = torch.full((len(original),), torch.inf, dtype=original.dtype, device=device)
    distance[wrong] = 0.0

    near = _places(steps, _NEAR if reach is None else reach).to(original)
    found = [_first_change(rays, everyone[~wrong], near)]
    if reach is None:
        rest = everyone[~wrong & ~torch.isin(everyone, found[0][0])]
        found.append(_first_change(rays, rest, _far_places(steps).to(original), _NEAR))
    for rows, low, high in found:
        border = _bisected(rays, rows, low, high, bisections)
        distance[rows] = norm.size(rays.at(rows, border) - rays.original[rows])
    return distance


def _bisected(rays: _Rays, rows: Tensor, low: Tensor, high: Tensor, bisections: int) -> Tensor:
    """Bisect `[low, high]` and return the adversarial end of the final interval: all `(R,)`."""
    for _ in range(bisections):
        middle = (low + high) / 2
        beyond = rays.adversarial(rows, middle)
        low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
    return high


def _far_places(steps: int) -> Tensor:
    """Geometrically spaced positions from `_NEAR` to `_FAR`, `(P,)`."""
    return torch.logspace(math.log10(_NEAR), math.log10(_FAR), steps + 1, dtype=torch.float64)[1:]


def _places(steps: int, reach: float) -> Tensor:
    """Evenly spaced positions in `(0, reach]`, and the point itself at position 1: `(P,)`, increasing."""
    even = torch.arange(1, steps + 1, dtype=torch.float64) * (reach / steps)
    return even if reach < 1 else torch.unique(torch.cat((even, torch.ones(1, dtype=torch.float64))))


def _first_change(rays: _Rays, rows: Tensor, places: Tensor, start: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Rays with an adversarial position: row `(F,)`, last position before the first adversarial one, and that one."""
    every = rays.adversarial(rows.repeat_interleave(len(places)), places.repeat(len(rows)))
    hit = every.reshape(len(rows), len(places))
    some = hit.any(dim=1)
    first = hit[some].to(torch.int8).argmax(dim=1)  # argmax returns the first maximum
    before = torch.cat((places.new_full((1,), start), places))
    return rows[some], before[first], places[first]


def _check_batch(original: Tensor, points: Tensor, labels: Tensor, targets: Tensor | None) -> None:
    if original.ndim < 2 or points.shape != original.shape:
        raise InputError(
            f"originals and points must be batches of one shape, not {tuple(original.shape)} and {tuple(points.shape)}."
        )
    for name, classes in (("labels", labels), ("targets", targets)):
        if classes is not None and classes.shape != original.shape[:1]:
            raise InputError(f"{name} must have shape ({len(original)},), not {tuple(classes.shape)}.")


def _check_search(steps: int, reach: float | None, bisections: int) -> None:
    if steps < 1 or bisections < 0 or not (reach is None or 0 < reach < float("inf")):
        raise InputError(
            f"steps must be at least 1, bisections at least 0 and reach positive and finite, not {steps}, {bisections} "
            f"and {reach}."
        )
