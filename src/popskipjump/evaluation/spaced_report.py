"""The report of an evaluation within a space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.evaluation.report import Report
from popskipjump.metrics import border_distance
from popskipjump.oracles import WhiteBox, device_of
from popskipjump.oracles.traits import module_of
from popskipjump.space import Space
from popskipjump.space.norms import ScaledNorm
from popskipjump.types import Bounds, Status


@dataclass(frozen=True, eq=False, repr=False)
class SpacedReport(Report):
    """A report whose points are valid inputs of a space, and whose distances are in the space's units."""

    space: Space  # the mask included, but for masks of each image
    free: np.ndarray  # (B,) int64, features that may change
    decode: Callable[[np.ndarray], Any] | None  # from points to a frame; None if the images were an array

    @property
    def frame(self) -> Any:
        """The points as a frame, with the columns, dtypes and index of the images."""
        if self.decode is None:
            raise InputError("the images were an array: the points are in `points`.")
        return self.decode(self.points)

    def __str__(self) -> str:
        least, most = int(self.free.min()), int(self.free.max())
        number = f"{least}" if least == most else f"{least} to {most}"
        return (
            f"{super().__str__()}\n  distances are in {self.space.unit}; "
            f"{number} of {self.space.dimension} features may change"
        )


class _Boxed:
    """A white box that moves inputs into the space's bounds first."""

    def __init__(self, white_box: WhiteBox, space: Space) -> None:
        self._white_box = white_box
        self.module = module_of(white_box)  # whose mode is kept
        self.device = device_of(white_box)
        shape = tuple(space.shape or ())
        self._low, self._high = (
            torch.from_numpy(end.copy()).to(self.device, torch.float32).reshape(shape)
            for end in (space.low, space.high)
        )

    def _inside(self, points: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(points, self._high), self._low)

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        return self._white_box.labels(self._inside(points))

    def log_probs(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        return self._white_box.log_probs(self._inside(points))

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """See `WhiteBox`."""
        return self._white_box.margin_gradient(self._inside(points), labels, targets)


def in_space(report: Report, space: Space, free: np.ndarray, **changes: Any) -> SpacedReport:
    """A report of valid inputs, whose distances are in the space's units already, with the space.

    Args:
        report: of B images.
        space: where they are.
        free: `(B,)` features that may change.
        changes: other fields.
    """
    values = {entry.name: getattr(report, entry.name) for entry in fields(Report)}
    scale = np.where(space.scale > 0, space.scale, 1.0)
    values["norm"] = ScaledNorm(report.norm, torch.from_numpy(scale))
    values["bounds"] = Bounds(float(np.min(space.low)), float(np.max(space.high)))
    return SpacedReport(**values | {"decode": None} | changes, space=space, free=free)


def spaced(
    report: Report,
    space: Space,
    free: np.ndarray,
    white_box: WhiteBox | None,
    decode: Callable[[np.ndarray], Any] | None,
) -> SpacedReport:
    """The report, with the space; border distances where all free features are continuous."""
    scale = np.where(space.scale > 0, space.scale, 1.0)
    norm = ScaledNorm(report.norm, torch.from_numpy(scale))
    bounds = Bounds(float(np.min(space.low)), float(np.max(space.high)))
    boxed = _Boxed(white_box, space) if white_box is not None and space.is_continuous else None
    border = None
    if boxed is not None:
        targets = None if report.targets is None else torch.from_numpy(report.targets)
        original, points, truth = map(torch.from_numpy, (report.images, report.points, report.labels))
        found = border_distance(boxed, original, points, truth, norm, bounds=bounds, targets=targets)
        border = found.to("cpu", torch.float64).numpy()
        states = np.array([0.0 if s is Status.MISCLASSIFIED else 1.0 if s.has_point else np.inf for s in report.status])
        border = np.where(states == 1.0, border, states)
    return in_space(report, space, free, border_distances=border, white_box=boxed, decode=decode)
