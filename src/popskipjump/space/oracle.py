"""The oracle of an attack within a space: it converts free coordinates to valid inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.oracles import Oracle, Ticket, WhiteBox, device_of
from popskipjump.oracles.traits import classes_of, is_checked, is_numbered, model_of, outputs_logits
from popskipjump.space.chart import Chart


class SpaceOracle:
    """Asks a classifier about the valid input that each point of free coordinates stands for.

    Args:
        oracle: asked about valid inputs alone.
        chart: the free coordinates and the originals.
        image_id: `(B,)` the ids by which tickets name the originals.
    """

    def __init__(self, oracle: Oracle, chart: Chart, image_id: Tensor) -> None:
        self.oracle, self.chart = oracle, chart
        self.device = device_of(oracle)
        self.numbered = is_numbered(oracle)
        self.checked = is_checked(oracle)
        model = model_of(oracle)
        affine = isinstance(model, WhiteBox) and chart.is_affine and outputs_logits(model)
        self.model = _AffineWhiteBox(model, chart) if affine else _Inside(model)
        self.asked = torch.zeros(len(image_id), dtype=torch.int64)  # (B,) queries so far
        self._ids, self._row = torch.sort(image_id.cpu())
        if len(torch.unique(self._ids)) != len(self._ids):
            raise InputError("two images have the same id: in a space, every image needs an id of its own.")

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        image = self._row[torch.searchsorted(self._ids, ticket.image)]
        self.asked += torch.bincount(image, minlength=len(self.asked))
        valid = self.chart.expand(points.flatten(1), image.to(self.device))
        return self.oracle.ask(valid.reshape(-1, *(self.chart.space.shape or ())), ticket)


class _Inside:
    """What an evaluation may know of the classifier below: the number of its classes."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def classes(self) -> int | None:
        """K, where it is known."""
        return classes_of(self._model)


class _AffineWhiteBox(_Inside):
    """The white box in free coordinates, where all features are free and without steps; see `WhiteBox`."""

    def __init__(self, model: Any, chart: Chart) -> None:
        super().__init__(model)
        self._chart = chart
        self.device = device_of(model)

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        labels: Tensor = self._model.labels(self._chart.affine(points))
        return labels

    def log_probs(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        logs: Tensor = self._model.log_probs(self._chart.affine(points))
        return logs

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """See `WhiteBox`; the chain rule multiplies by the scales."""
        gradient: Tensor = self._model.margin_gradient(self._chart.affine(points), labels, targets)
        return (gradient.flatten(1) * self._chart.scale).reshape(points.shape)
