"""Classifiers with a border that is known exactly: for tests, tutorials and sanity checks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.geometry import inner, l2_size, per_row
from popskipjump.rng import uniform


@dataclass(frozen=True, eq=False)
class Plane:
    """Class 1 where `<normal, x> > offset`, class 0 elsewhere."""

    normal: Tensor  # (d,)
    offset: float = 0.0
    classes: int | None = 2

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.normal.device

    def height(self, points: Tensor) -> Tensor:
        """Signed distance to the border, positive in class 1: `(M, *S)` -> `(M,)`."""
        # `inner` does not depend on which rows share the batch; a matrix product may.
        return (inner(points.flatten(1), self.normal) - self.offset) / l2_size(self.normal)

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        return (self.height(points) > 0).to(torch.int64)

    def log_probs(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        sure = torch.nn.functional.one_hot(self.labels(points), 2).to(torch.float32)
        return sure.log()

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """See `WhiteBox`."""
        side = (1 - 2 * labels).to(points.dtype)
        unit = self.normal / l2_size(self.normal)
        return (side.unsqueeze(1) * unit).reshape(points.shape)

    def distance(self, points: Tensor, norm: str = "l2") -> Tensor:
        """Distance to the border without regard to bounds: `(M, *S)` -> `(M,)`."""
        height = self.height(points).abs()
        if norm == "l2":
            return height
        return height * l2_size(self.normal) / self.normal.abs().sum()


@dataclass(frozen=True, eq=False)
class Sphere:
    """Class 1 outside the sphere, class 0 inside."""

    centre: Tensor  # (d,)
    radius: float
    classes: int | None = 2

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.centre.device

    def height(self, points: Tensor) -> Tensor:
        """Signed distance to the border, positive outside: `(M, *S)` -> `(M,)`."""
        return l2_size(points.flatten(1) - self.centre) - self.radius

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        return (self.height(points) > 0).to(torch.int64)

    def log_probs(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        return torch.nn.functional.one_hot(self.labels(points), 2).to(torch.float32).log()

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """See `WhiteBox`."""
        out = points.flatten(1) - self.centre
        unit = out / per_row(l2_size(out)).clamp(min=1e-12)
        return ((1 - 2 * labels).to(points.dtype).unsqueeze(1) * unit).reshape(points.shape)

    def distance(self, points: Tensor) -> Tensor:
        """L2 distance to the border: `(M, *S)` -> `(M,)`."""
        return self.height(points).abs()


@dataclass(frozen=True, eq=False)
class PlanarSigmoid:
    """The paper's model of a noisy border: a plane whose class probability is a sigmoid of the height (eq. 7).

    Class 1 has probability `floor_0 + (1 - floor_0 - floor_1) sigma(slope height)` with the sigmoid of slope 1.
    Used as a noise model on its `plane` it draws answers; the truth is `probability`.
    """

    plane: Plane
    slope: float = math.inf
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not (self.slope > 0 and 0 <= self.floor < 0.5):
            raise InputError(f"slope must be positive and floor in [0, 1/2), not {self.slope} and {self.floor}.")

    def probability(self, points: Tensor) -> Tensor:
        """Probability of class 1: `(M, *S)` -> `(M,)`."""
        height = self.plane.height(points)
        steep = math.isinf(self.slope)
        step = (height > 0).to(height.dtype) if steep else torch.sigmoid(4 * self.slope * height)
        return self.floor + (1 - 2 * self.floor) * step

    def sample(self, model: object, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`; `model` is not used."""
        return (uniform(roots, 1).squeeze(-1) < self.probability(points)).to(torch.int64)
