"""Class probabilities of a noisy classifier: exact where a closed form exists, else estimated by Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from popskipjump.noise.checks import class_count, labels_below, whole_number
from popskipjump.oracles.classifier import BaseModel, NoiseModel, chunk_rows
from popskipjump.rng import Key

DRAWS = 1000  # the standard error is then at most 0.016
KEY = Key(0, ("truth",))
MAX_CASES = 200  # noise models with at most this many outcomes are enumerated instead of sampled


class LabelDistribution(NamedTuple):
    """Class probabilities of noisy answers, and their standard errors."""

    probabilities: Tensor  # (M, K)
    standard_error: Tensor  # (M, K), 0 where exact
    exact: bool


@runtime_checkable
class KnownNoise(NoiseModel, Protocol):
    """A noise model that also gives, or estimates, the class probabilities of its answers."""

    def check(self, model: Any, shape: tuple[int, ...]) -> None:
        """Raise an `InputError` if this noise cannot act on `model` with inputs `(M, *shape)`; makes no query."""

    def truth(self, model: Any, points: Tensor, draws: int = DRAWS, key: Key = KEY) -> LabelDistribution:
        """Class probabilities of an answer.

        Args:
            model: the noiseless classifier.
            points: `(M, *S)`.
            draws: number of sampled answers per point, used if the probabilities are estimated.
            key: random stream of the sampled answers; row i uses sub-stream i.
        """


def exactly(probabilities: Tensor) -> LabelDistribution:
    """Exact class probabilities `(M, K)` as a `LabelDistribution` with standard errors of 0."""
    return LabelDistribution(probabilities, torch.zeros_like(probabilities), exact=True)


def noiseless(model: BaseModel, points: Tensor) -> LabelDistribution:
    """Class probabilities without noise: 1 for the model's label, 0 for the others; `(M, *S)` -> `(M, K)`."""
    labels = in_chunks(model.labels, points)
    return exactly(one_hot(labels, class_count(model, points)))


def in_chunks(ask: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """Apply `ask` to the rows in chunks that fit into memory: `(M, *S)` -> `(M, ...)` on the device of `points`."""
    rows = chunk_rows(points.numel() // len(points)) if len(points) else 1
    with torch.set_grad_enabled(False):
        if len(points) <= rows:  # the usual case, because `Classifier` chunks its queries already
            labels = ask(points)
            return labels if labels.device == points.device else labels.to(points.device)
        return torch.cat([ask(part).to(points.device) for part in torch.split(points, rows)])


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """`(M,)` -> float32 `(M, K)`."""
    return torch.nn.functional.one_hot(labels_below(labels, classes), classes).to(torch.float32)


def frequencies(answer: Callable[[Tensor, Tensor, Tensor], Tensor], points: Tensor, draws: int, classes: int) -> Tensor:
    """Relative frequency of each class among `draws` answers for each point; the queries are made in chunks.

    Args:
        answer: function from inputs `(R, *S)`, their row numbers in `points` `(R,)` and their draw numbers `(R,)` to
            labels `(R,)`.
        points: `(M, *S)`.
        draws: number of answers per point.
        classes: K.

    Returns:
        float32 `(M, K)`; each row sums to 1.
    """
    total = len(points) * draws
    counts = torch.zeros(len(points) * classes, dtype=torch.int64, device=points.device)
    rows = chunk_rows(points[0].numel()) if len(points) else 1
    with torch.no_grad():
        for start in range(0, total, rows):
            number = torch.arange(start, min(start + rows, total), device=points.device)
            row, draw = number // draws, number % draws
            labels = labels_below(answer(points[row], row, draw), classes)
            counts += torch.bincount(row * classes + labels, minlength=len(counts))
    return counts.reshape(len(points), classes).to(torch.float32) / draws


def monte_carlo(
    noise: NoiseModel, model: BaseModel, points: Tensor, draws: int = DRAWS, key: Key = KEY
) -> LabelDistribution:
    """Class probabilities estimated from `draws` answers for each point; see `KnownNoise.truth`.

    The standard error is computed from the shrunken frequency (k + 1/2) / (n + 1), so that it is positive even for a
    class that was never drawn.
    """
    draws = whole_number("draws", draws, 1)

    def answer(inputs: Tensor, row: Tensor, draw: Tensor) -> Tensor:
        return noise.sample(model, inputs, key.roots(row, draw))

    share = frequencies(answer, points, draws, class_count(model, points))
    shrunk = (share * draws + 0.5) / (draws + 1)
    return LabelDistribution(share, (shrunk * (1 - shrunk) / draws).sqrt(), exact=False)
