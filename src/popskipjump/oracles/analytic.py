"""Analytic classifiers whose decision boundary is known exactly: for tests, tutorials and sanity checks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.geometry import Norm, inner, l2_size, norm_of, per_row
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

    def distance(self, points: Tensor, norm: str | Norm = "l2") -> Tensor:
        """Distance to the boundary, ignoring the input bounds: `(M, *S)` -> `(M,)`."""
        return self.height(points).abs() * l2_size(self.normal) / norm_of(norm).dual_size(self.normal)


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
    """The paper's model of a noisy boundary: a plane whose class probability is a sigmoid of the height (eq. 7).

    Class 1 has probability `floor + (1 - 2 floor) sigma(slope height)`, where sigma(x) = 1 / (1 + exp(-4 x)) has
    slope 1 at 0. As a noise model on its `plane`, this object draws answers; `probability` is their true distribution.
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
