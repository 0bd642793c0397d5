"""Random ensemble: each query is answered by a member drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.noise.checks import as_model
from popskipjump.noise.truth import DRAWS, KEY, LabelDistribution, exactly, in_chunks, one_hot
from popskipjump.oracles.base import device_of
from popskipjump.oracles.classifier import BaseModel
from popskipjump.rng import Key, integers


@dataclass(frozen=True)
class Ensemble:
    """Draws one member uniformly for each query and returns its label; the model itself is the first member.

    Args:
        members: the other members, at least one: models, torch modules (logits), or functions from a float32 NumPy
            batch to labels. A member is called only on the queries for which it was drawn.
    """

    members: Sequence[Any]

    def __post_init__(self) -> None:
        if not isinstance(self.members, Sequence) or not self.members:
            raise InputError("an ensemble needs a list of one or more classifiers beside the attacked one.")
        object.__setattr__(self, "members", tuple(as_model(member) for member in self.members))

    def __str__(self) -> str:
        return f"ensemble of {len(self.members) + 1}"

    def check(self, model: BaseModel, shape: tuple[int, ...]) -> None:
        """See `KnownNoise`; every model is accepted."""

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        """See `NoiseModel`."""
        team = (model, *self.members)
        chosen = integers(roots, 1, len(team)).squeeze(-1)
        labels = torch.empty_like(chosen)
        for index, member in enumerate(team):
            (rows,) = torch.nonzero(chosen == index, as_tuple=True)
            if len(rows):
                labels[rows] = _labels(member, points[rows])
        return labels

    def truth(self, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """See `KnownNoise`; exact."""
        team = (model, *self.members)
        answers = [in_chunks(partial(_labels, member), points) for member in team]
        known = [member.classes for member in team if member.classes is not None]
        if not known:
            raise InputError(
                "no member of this ensemble knows its number of classes: pass FunctionModel(f, classes=10)."
            )
        return exactly(torch.stack([one_hot(labels, max(known)) for labels in answers]).mean(dim=0))


def _labels(member: BaseModel, points: Tensor) -> Tensor:
    """Labels `(M,)` of a member, computed on the member's own device."""
    return member.labels(points.to(device_of(member))).to(points.device)
