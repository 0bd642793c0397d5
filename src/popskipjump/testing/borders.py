"""Classifiers whose border is known exactly, with inputs and their true distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.geometry import inner, l2_size
from popskipjump.oracles import Plane, Sphere
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, normal, uniform

_TRIES = 1024  # random points among which starts are found; a slab holds one in twelve


class Case(NamedTuple):
    """Inputs of a classifier whose nearest border point is known and lies within [0, 1]."""

    model: BaseModel
    images: Tensor  # (B, d), float32 in [0.4, 0.6]
    labels: Tensor  # (B,)
    distances: Tensor  # (B,) to the border, in L2
    starts: Tensor  # (B, d), of another class, anywhere in [0, 1]


@dataclass(frozen=True, eq=False)
class Slab:
    """Class 1 within `width / 2` of a plane, class 0 on both sides of it: an attack has two borders to choose from."""

    plane: Plane
    width: float
    classes: int | None = 2

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.plane.device

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        return (self.plane.height(points).abs() < self.width / 2).to(torch.int64)

    def distance(self, points: Tensor) -> Tensor:
        """L2 distance to the nearer of the two borders: `(M, *S)` -> `(M,)`."""
        return (self.plane.height(points).abs() - self.width / 2).abs()


@dataclass(frozen=True, eq=False)
class Polytope:
    """Class 0 inside all of `n` half-spaces, class 1 outside: a border with faces, edges and corners."""

    normals: Tensor  # (n, d), unit vectors that point outwards
    offsets: Tensor  # (n,): inside is <normal, x> < offset
    classes: int | None = 2

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.normals.device

    def _room(self, points: Tensor) -> Tensor:
        """How far each plane is: `(M, *S)` -> `(M, n)`, positive inside."""
        flat = points.flatten(1)
        heights = [offset - inner(flat, n) for n, offset in zip(self.normals, self.offsets, strict=True)]
        return torch.stack(heights, dim=1)

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        return (self._room(points).amin(dim=1) <= 0).to(torch.int64)

    def distance(self, points: Tensor) -> Tensor:
        """L2 distance to the border of points inside: `(M, *S)` -> `(M,)`."""
        room = self._room(points).amin(dim=1)
        if bool((room < 0).any()):
            raise InputError("the distance to a polytope is known from inside alone.")
        return room


@dataclass(frozen=True, eq=False)
class Voronoi:
    """The nearest of K centres: K classes, each with K - 1 borders, all of them planes."""

    centres: Tensor  # (K, d)

    @property
    def classes(self) -> int | None:
        """K."""
        return len(self.centres)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.centres.device

    def _squares(self, points: Tensor) -> Tensor:
        """Squared distances `(M, *S)` -> `(M, K)`; each row on its own, so that batches change nothing."""
        flat = points.flatten(1)
        return torch.stack([((flat - centre) ** 2).sum(dim=1) for centre in self.centres], dim=1)

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        return self._squares(points).argmin(dim=1)

    def distance(self, points: Tensor) -> Tensor:
        """L2 distance to the border of the own cell: `(M, *S)` -> `(M,)`."""
        squares = self._squares(points.double())
        own = squares.argmin(dim=1)
        mine = torch.nn.functional.one_hot(own, len(self.centres)).to(torch.bool)
        apart = (self.centres[own].unsqueeze(1) - self.centres).double().norm(dim=2)  # (M, K)
        height = (squares - squares.amin(dim=1, keepdim=True)) / (2 * apart.masked_fill(mine, 1.0))
        nearest: Tensor = height.masked_fill(mine, torch.inf).amin(dim=1)
        return nearest


def known_borders(dimension: int = 20, count: int = 3, seed: int = 0) -> dict[str, Case]:
    """A zoo: one case for each kind of border, in [0, 1]^d, with `count` inputs near the middle.

    Args:
        dimension: d, at least 10, so that no nearest border point lies outside of the cube.
        count: B, inputs of each case.
        seed: of the borders and the inputs.
    """
    if dimension < 10:
        raise InputError(f"the borders need at least 10 dimensions, not {dimension}.")
    key = Key(seed).child("borders")
    images = 0.4 + 0.2 * uniform(key.child("images").roots(torch.arange(count)), dimension)
    middle = torch.full((dimension,), 0.5)
    units = normal(key.child("normals").roots(torch.arange(4)), dimension)
    units = units / l2_size(units).unsqueeze(1)
    through = inner(units, middle)  # where a plane through the middle lies
    reach = 0.35  # beyond the inputs, and near enough for the nearest point to lie in the cube
    plane = Plane(units[0], float(through[0]) + reach)
    models = {
        "plane": plane,
        "sphere": Sphere(middle - reach * units[1], 2 * reach + 0.05 * dimension**0.5),
        "slab": Slab(Plane(units[2], float(through[2]) + reach + 0.1), 0.2),
        "polytope": Polytope(units, through + torch.linspace(reach, 1.4 * reach, 4)),
        "voronoi": Voronoi(torch.cat([middle.unsqueeze(0), middle + torch.linspace(0.6, 0.9, 4).unsqueeze(1) * units])),
    }
    anywhere = uniform(key.child("starts").roots(torch.arange(_TRIES)), dimension)
    return {name: _case(model, images, anywhere) for name, model in models.items()}


def _case(model: Any, images: Tensor, anywhere: Tensor) -> Case:
    labels, there = model.labels(images), model.labels(anywhere)
    with torch.enable_grad():
        points = images.clone().requires_grad_(True)
        distances = model.distance(points)
        (uphill,) = torch.autograd.grad(distances.sum(), points)
    # Start on the side of the nearest face: from others, an attack rightly ends at the nearest point of another face.
    towards = -(anywhere.unsqueeze(0) - images.unsqueeze(1)) @ uphill.unsqueeze(2)  # (B, N, 1)
    towards = towards.squeeze(2).masked_fill(there.unsqueeze(0) == labels.unsqueeze(1), -torch.inf)
    return Case(model, images, labels, distances.detach(), anywhere[towards.argmax(dim=1)])
