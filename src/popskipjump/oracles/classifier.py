"""From a torch module or a plain function to an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump.errors import InputError, OracleError
from popskipjump.oracles.base import Ticket
from popskipjump.oracles.speed import FastForward
from popskipjump.rng import Key

MAX_ROWS = 2048  # larger batches spend their time in memory allocation
_CHUNK_BYTES = 64 << 20


def chunk_rows(values_per_row: int, limit: int = MAX_ROWS) -> int:
    """How many inputs to hand over at once, by their size in memory."""
    return max(1, min(limit, _CHUNK_BYTES // (4 * max(1, values_per_row))))


def checked_labels(answer: object, count: int, look: bool = True) -> Tensor:
    """What a classifier returned, as int64 `(count,)`, or an error that says what is wrong with it.

    Args:
        answer: anything.
        count: how many labels were asked for.
        look: whether to look at the values, too; it takes time where they lie on another device.
    """
    if isinstance(answer, Tensor):
        labels = answer.detach()
    else:
        try:
            array = np.ascontiguousarray(answer)
            # a copy in torch's own integer type: unsigned, big-endian and read-only arrays are labels too
            labels = torch.from_numpy(array.astype(np.int64) if array.dtype.kind in "iu" else array.copy())
        except (TypeError, ValueError) as error:
            raise OracleError(f"the classifier returned {type(answer).__name__}, not an array of labels.") from error
    if labels.shape != (count,):
        raise OracleError(
            f"the classifier was asked for {count} labels and returned an array of shape {tuple(labels.shape)}; "
            f"it must return one integer for each input, shape ({count},)."
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise OracleError(f"the classifier returned labels of type {labels.dtype}; they must be integers.")
    labels = labels.to(torch.int64)  # first: torch has no minimum of most unsigned types
    if look and count and (least := int(labels.cpu().numpy().min())) < 0:  # NumPy's minimum is the faster one
        raise OracleError(f"the classifier returned the label {least}; labels must be 0 or more.")
    return labels


class BaseModel(Protocol):
    """A noiseless classifier under a noise model."""

    device: torch.device
    classes: int | None

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""


class NoiseModel(Protocol):
    """How answers become random: one way to draw them."""

    def sample(self, model: Any, points: Tensor, roots: Tensor) -> Tensor:
        """One random label for each row.

        Args:
            model: the noiseless classifier.
            points: `(M, *S)`.
            roots: `(M,)` int64, one random stream (see `rng`) for each answer.

        Returns:
            int64 `(M,)`.
        """


class TorchModel:
    """A torch module that gives logits `(M, K)` or, with `output="labels"`, labels `(M,)`; also its white box.

    Args:
        module: put in evaluation mode.
        device: where to; None leaves it where its parameters are.
        output: "logits" or "labels".
        optimize: answer through a frozen, fused copy of the module (see `FastForward`).
    """

    def __init__(
        self,
        module: nn.Module,
        device: torch.device | str | None = None,
        output: str = "logits",
        optimize: bool = False,
    ) -> None:
        if output not in ("logits", "labels"):
            raise InputError(f'output must be "logits" or "labels", not {output!r}.')
        if device is None:
            parameter = next(module.parameters(), None)
            device = "cpu" if parameter is None else parameter.device
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.output = output
        self.classes: int | None = None
        self.forward: Callable[[Tensor], Any] = FastForward(self.module) if optimize else self.module

    @property
    def plain(self) -> TorchModel:
        """The same module, not optimised: for noise that acts inside the module."""
        return self if self.forward is self.module else TorchModel(self.module, self.device, self.output)

    def logits(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> `(M, K)`."""
        if self.output == "labels":
            raise InputError("this model gives labels only; logits are needed here.")
        # The frozen copy has no gradient.
        logits = (self.module if torch.is_grad_enabled() else self.forward)(points)
        if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[0] != points.shape[0]:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise OracleError(
                f"the module was given {len(points)} inputs and returned {shape}; it must return logits of shape "
                f'({len(points)}, classes), or integer labels with output="labels".'
            )
        self.classes = logits.shape[1]
        return logits

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        with torch.set_grad_enabled(False):  # no_grad by a shorter way: it is part of every call
            if self.output == "labels":
                return checked_labels(self.forward(points), len(points)).to(self.device)
            return self.logits(points).argmax(dim=1)

    def log_probs(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        with torch.no_grad():
            return self.logits(points).log_softmax(dim=1)

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        """See `WhiteBox`."""
        with torch.enable_grad():
            leaf = points.detach().clone().requires_grad_(True)
            logits = self.logits(leaf)
            truth = logits.gather(1, labels.unsqueeze(1))
            if targets is None:
                rival = logits.scatter(1, labels.unsqueeze(1), -torch.inf).amax(dim=1, keepdim=True)
            else:
                rival = logits.gather(1, targets.unsqueeze(1))
            (gradient,) = torch.autograd.grad((rival - truth).sum(), leaf)
        return gradient.detach()


class FunctionModel:
    """Any function from a float32 NumPy batch `(M, *S)` to integer labels `(M,)`."""

    def __init__(self, function: Callable[[np.ndarray], Any], classes: int | None = None) -> None:
        self.function, self.classes = function, classes
        self.device = torch.device("cpu")

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`; the function gets a copy of its own."""
        return checked_labels(self.function(points.detach().cpu().numpy().copy()), len(points))


class Classifier:
    """The oracle of a model, with or without noise on its answers, asked in chunks."""

    def __init__(
        self, model: BaseModel, noise: NoiseModel | None = None, seed: int = 0, max_rows: int = MAX_ROWS
    ) -> None:
        self.model, self.noise = model, noise
        self.device = model.device
        self.numbered = noise is not None  # whether the answers depend on the numbers of the queries
        # Whether the labels need no second look.
        self.checked = isinstance(model, TorchModel | FunctionModel) and getattr(noise, "checked", noise is None)
        self._key = Key(seed).child("noise")
        self._max_rows = max_rows

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        count = points.shape[0]  # len() of a tensor takes its time
        rows = chunk_rows(points.numel() // count, self._max_rows) if count else 1
        if count <= rows:
            return self._answer(points, ticket)
        parts = [slice(i, i + rows) for i in range(0, count, rows)]
        return torch.cat([self._answer(points[part], ticket.part(part)) for part in parts])

    def _answer(self, points: Tensor, ticket: Ticket) -> Tensor:
        if self.noise is None:
            return self.model.labels(points)
        if ticket.serial is None:
            raise InputError("a noisy classifier needs numbered queries: ask it through a ledger (see `Counted`).")
        roots = self._key.roots(ticket.image, ticket.serial).to(self.device, non_blocking=True)
        with torch.set_grad_enabled(False):
            return self.noise.sample(self.model, points, roots)
