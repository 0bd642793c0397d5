"""Contract of every classifier adapter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.adapters import recognise
from popskipjump.evaluation import Hooks, evaluate
from popskipjump.testing.claims import claim


class ClassifierContract:
    """Claims about what a user passes as `model`; a subclass named `Test...` says how to make it.

    `deterministic` is False for a classifier with randomness of its own, `bounds` are those of its inputs.
    """

    deterministic = True
    bounds: tuple[float, float] = (0.0, 1.0)

    def make_model(self) -> Any:
        """A new classifier, as one would pass it to `evaluate`."""
        raise NotImplementedError("say in your subclass how the classifier is made")

    def make_inputs(self) -> np.ndarray:
        """At least 4 inputs `(B, *S)` within the bounds, of more than one class."""
        raise NotImplementedError("say in your subclass what the classifier is asked")

    def make_classes(self) -> Any:
        """The classes by the names that labels are written with; None for integers from 0."""
        return None

    def rows_seen(self, model: Any) -> int | None:
        """How many rows the classifier itself was given so far; None if it cannot tell."""
        return None

    def _asked(self) -> tuple[Any, Tensor]:
        return recognise(self.make_model()), torch.from_numpy(np.array(self.make_inputs(), dtype=np.float32))

    def test_every_input_gets_one_label(self) -> None:
        """An int64 tensor of one dimension, 0 or more, below the number of classes if that is known."""
        model, points = self._asked()
        labels = model.labels(points)
        claim(isinstance(labels, Tensor) and labels.dtype == torch.int64, f"labels are {getattr(labels, 'dtype', 0)}.")
        claim(labels.shape == (len(points),), f"labels of shape {tuple(labels.shape)} for {len(points)} inputs.")
        claim(int(labels.min()) >= 0, f"a label is {int(labels.min())}.")
        known = model.classes
        claim(known is None or int(labels.max()) < known, f"a label is {int(labels.max())} of {known} classes.")
        claim(len(labels.unique()) > 1, "all inputs are of one class: nothing would be shown with these.")

    def test_a_label_does_not_depend_on_the_batch(self) -> None:
        """One at a time, in another order, in batches of three."""
        if not self.deterministic:
            return
        model, points = self._asked()
        whole = model.labels(points)
        single = torch.cat([model.labels(points[i : i + 1]) for i in range(len(points))])
        claim(torch.equal(single, whole), "inputs asked one at a time get other labels.")
        threes = torch.cat([model.labels(points[i : i + 3]) for i in range(0, len(points), 3)])
        claim(torch.equal(threes, whole), "inputs asked in threes get other labels.")
        turned = torch.arange(len(points)).flip(0)
        claim(torch.equal(model.labels(points[turned]), whole[turned]), "another order gives other labels.")

    def test_the_inputs_are_left_as_they_were(self) -> None:
        """The memory of the points is the engine's."""
        model, points = self._asked()
        before = points.clone()
        model.labels(points)
        claim(torch.equal(points, before), "the classifier changed the points it was given.")

    def test_the_device_is_said(self) -> None:
        """Points are moved there."""
        model, _ = self._asked()
        claim(isinstance(model.device, torch.device), f"device is {model.device!r}, not a torch.device.")

    def test_an_evaluation_finishes_and_counts_what_was_seen(self) -> None:
        """The same call twice gives the same points."""
        inputs = np.array(self.make_inputs(), dtype=np.float32)
        reports = []
        for _ in range(2 if self.deterministic else 1):
            model = self.make_model()
            found = recognise(model)
            places = found.labels(torch.from_numpy(inputs))
            names = self.make_classes()
            labels = places.numpy() if names is None else np.asarray(names)[places.numpy()]
            before, after = self.rows_seen(model), [0]

            def note(_: int, model: Any = model, after: list[int] = after) -> None:
                after.append(self.rows_seen(model) or 0)

            reports.append(
                evaluate(
                    model, inputs, labels, bounds=self.bounds, iterations=1, verdict=5, hooks=Hooks(on_queries=note)
                )
            )
            claim(
                before is None or after[-1] - before == reports[-1].queries.sum(),
                f"{reports[-1].queries.sum()} queries counted, {after[-1] - (before or 0)} rows seen.",
            )
            claim(any(s.has_point for s in reports[-1].status), f"no image found a point: {reports[-1].status}.")
        same = len({report.points.tobytes() for report in reports}) == 1
        claim(same, "the same evaluation gives other points the second time.")
