"""Models (torch modules, functions) and `Classifier`, the oracle that queries one of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump.errors import InputError, OracleError
from popskipjump.oracles.answers import best_class, ends_in_sigmoid, is_one_probability, logits_in, opened, own_array
from popskipjump.oracles.base import Ticket
from popskipjump.oracles.memory import CallSize, in_calls
from popskipjump.oracles.speed import FastForward
from popskipjump.oracles.traits import is_checked
from popskipjump.rng import Key

MAX_ROWS = 2048  # larger batches spend their time in memory allocation
CPU_ROWS = 512  # and on a CPU these do already: the allocator returns large blocks to the system after every layer
_CHUNK_BYTES = 16 << 20  # of inputs; torch modules limit the memory of their layers, too
_ONE_NUMBER = (
    "the module returns one number for each input, taken for a logit (class 1 above 0), and all of the first lie in "
    '[0, 1]. If they are probabilities, pass TorchModel(module, output="probability").'
)


def chunk_rows(values_per_row: int, limit: int = MAX_ROWS) -> int:
    """Batch size of one model call, chosen by the memory that an input takes."""
    return max(1, min(limit, _CHUNK_BYTES // (4 * max(1, values_per_row))))


def checked_labels(answer: object, count: int, look: bool = True) -> Tensor:
    """Convert a classifier's output to int64 labels `(count,)`, or raise an error that states the fault.

    Args:
        answer: output of the classifier, of any type.
        count: number of labels expected.
        look: whether to check the values too, which synchronises with another device.
    """
    if isinstance(answer, Tensor):
        labels = answer.detach()
    else:
        try:
            array = np.ascontiguousarray(answer)
            # Copy to int64: torch cannot wrap big-endian, read-only and some unsigned arrays.
            labels = torch.from_numpy(array.astype(np.int64) if array.dtype.kind in "iu" else array.copy())
        except (TypeError, ValueError) as error:
            what = (
                f"{type(answer).__name__} of {np.asarray(answer).dtype}"
                if hasattr(answer, "dtype")
                else type(answer).__name__
            )
            raise OracleError(
                f"the classifier returned {what}, not integers: return the number of each class, counted from 0, or "
                "for names pass adapters.NamedFunction(function, classes=[...])."
            ) from error
    if labels.shape != (count,):
        raise OracleError(
            f"the classifier was asked for {count} labels and returned an array of shape {tuple(labels.shape)}; "
            f"it must return one integer for each input, shape ({count},)."
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise OracleError(
            f"the classifier returned labels of type {labels.dtype}; they must be integers. If they are scores of "
            "class 1, return on which side of the threshold they are, as `(score > 0.5).astype(int)` does."
        )
    labels = labels.to(torch.int64)  # before the check: torch has no minimum of most unsigned types
    if look and count and (least := int(labels.cpu().numpy().min())) < 0:  # NumPy's minimum is faster
        raise OracleError(f"the classifier returned the label {least}; labels must be 0 or more.")
    return labels


def labels_in(answer: object, count: int) -> Tensor:
    """Labels from a function's output: integers or truth values `(count,)`, or the argmax of scores `(count, K)`.

    The output may be inside an object with `.logits`, a dict or a tuple (see `opened`).
    """
    if not isinstance(answer, np.ndarray | Tensor):
        answer = opened(answer)
        if hasattr(answer, "__array__") and not isinstance(answer, Tensor):
            answer = np.asarray(answer)  # JAX, TensorFlow, pandas
    if isinstance(answer, Tensor) and answer.ndim == 2:
        answer = answer.detach().cpu()
        answer = (answer.float() if answer.dtype == torch.bfloat16 else answer).numpy()
    if isinstance(answer, np.ndarray) and answer.ndim == 2:
        if answer.dtype.kind not in "biu":
            return torch.from_numpy(best_class(answer, count))
        if answer.shape == (count, 1):
            answer = answer[:, 0]
    if getattr(answer, "dtype", None) in (np.bool_, torch.bool):
        answer = np.asarray(answer).astype(np.int64)  # True is class 1
    return checked_labels(answer, count)


class BaseModel(Protocol):
    """A noiseless classifier under a noise model."""

    @property
    def device(self) -> torch.device:
        """The device on which the model expects its points."""

    @property
    def classes(self) -> int | None:
        """The number of classes; None while it is not known."""

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""


class NoiseModel(Protocol):
    """A noise model: draws the random labels of a noisy classifier."""

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
    """A torch module that returns logits `(M, K)` or, with `output="labels"`, labels `(M,)`; also its `WhiteBox`.

    The logits may be inside an object with `.logits`, a dict or a tuple (see `logits_in`). A single number per input
    is the logit of class 1, or the probability of class 1 if the module's last layer is an `nn.Sigmoid`.

    Args:
        module: the network; it is put into evaluation mode.
        device: the module is moved there; None leaves it on the device of its parameters.
        output: "logits", "labels", or "probability" for a binary net whose one number is the probability of class 1.
        optimize: use a frozen, fused copy of the module (see `FastForward`).
    """

    def __init__(
        self,
        module: nn.Module,
        device: torch.device | str | None = None,
        output: str = "logits",
        optimize: bool = False,
    ) -> None:
        if output not in ("logits", "labels", "probability"):
            raise InputError(f'output must be "logits", "labels" or "probability", not {output!r}.')
        if device is None:
            parameter = next(module.parameters(), None)
            device = "cpu" if parameter is None else parameter.device
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        # Points are float32 everywhere else; the module gets them in its own floating-point type.
        self.dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
        self._looked = False
        self.output = "labels" if output == "labels" else "logits"
        self.probability = output == "probability" or ends_in_sigmoid(module)
        self.classes: int | None = None
        self.forward: Callable[[Tensor], Any] = FastForward(self.module) if optimize else self.module
        self.call_size = CallSize(self.module)

    @property
    def plain(self) -> TorchModel:
        """A `TorchModel` of the same module without `FastForward`, for noise that acts inside the module."""
        if self.forward is self.module:
            return self
        output = "probability" if self.probability and self.output == "logits" else self.output
        plain = TorchModel(self.module, self.device, output)
        plain.call_size = self.call_size
        return plain

    def rows_of_a_call(self, points: Tensor) -> int:
        """How many rows of these the next call of the module gets at most, for noise that acts inside the module."""
        return self.call_size.limit(points)

    def logits(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> `(M, K)`."""
        if self.output == "labels":
            raise InputError("this model gives labels only; logits are needed here.")
        return self._logits(points) if torch.is_grad_enabled() else in_calls(self.call_size, self._logits, points)

    def _logits(self, points: Tensor) -> Tensor:
        """The same in one call."""
        # The frozen copy has no gradient.
        answer = (self.module if torch.is_grad_enabled() else self.forward)(self._cast(points))
        logits = logits_in(answer, points.shape[0], self.probability)
        if logits is None:
            shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
            raise OracleError(
                f"the module was given {len(points)} inputs and returned {shape}; it must return logits of shape "
                f'({len(points)}, classes), or integer labels with output="labels".'
            )
        if self.classes is None:
            self.classes = logits.shape[1]
            if not self.probability and is_one_probability(answer, points.shape[0]):
                warnings.warn(_ONE_NUMBER, stacklevel=2)
        # Checking values synchronises with another device, so there only the first call is checked. Without NaN in the
        # sum, the fastest look at all numbers, there is none in the parts.
        suspect = (self.device.type == "cpu" or not self._looked) and math.isnan(logits.detach().sum())
        if suspect and (bad := int(logits.isnan().any(dim=1).sum())):
            raise OracleError(
                f"the module returned logits that are not a number (NaN) for {bad} of {len(points)} inputs: "
                "it overflows there, or its preprocessing divides by zero."
            )
        self._looked = True
        return logits

    def _cast(self, points: Tensor) -> Tensor:
        return points if self.dtype == torch.float32 else points.to(self.dtype)

    def labels(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        with torch.set_grad_enabled(False):  # cheaper than no_grad, and part of every call
            if self.output == "labels":
                return in_calls(self.call_size, self._labels, points)
            return self.logits(points).argmax(dim=1)

    def _labels(self, points: Tensor) -> Tensor:
        """What a module that answers with labels says, in one call."""
        return checked_labels(self.forward(self._cast(points)), len(points)).to(self.device)

    def log_probs(self, points: Tensor) -> Tensor:
        """See `WhiteBox`."""
        with torch.no_grad():
            return self.logits(points).float().log_softmax(dim=1)

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
    """A model from any function that maps a float32 NumPy batch `(M, *S)` to labels `(M,)` or float scores `(M, K)`."""

    def __init__(self, function: Callable[[np.ndarray], Any], classes: int | None = None) -> None:
        self.function, self.classes = function, classes
        self.device = torch.device("cpu")

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`; the function receives a copy of the points."""
        return labels_in(self.function(own_array(points)), len(points))


class Classifier:
    """The oracle of a model, with or without a noise model; it queries the model in chunks."""

    def __init__(
        self, model: BaseModel, noise: NoiseModel | None = None, seed: int = 0, max_rows: int | None = None
    ) -> None:
        self.model, self.noise = model, noise
        self.device = model.device
        self.numbered = noise is not None  # whether the answers depend on the query numbers
        self.held_for = int(getattr(noise, "held_for", 1))  # consecutive queries of an image on one random stream
        # Whether the labels were validated already, so that the ledger need not check them again.
        self.checked = isinstance(model, TorchModel | FunctionModel) and (noise is None or is_checked(noise))
        self._key = Key(seed).child("noise")
        self._max_rows = max_rows or (CPU_ROWS if self.device.type == "cpu" else MAX_ROWS)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        count = points.shape[0]  # faster than len() of a tensor
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
        serial = ticket.serial if self.held_for == 1 else ticket.serial // self.held_for
        roots = self._key.roots(ticket.image, serial).to(self.device, non_blocking=True)
        with torch.set_grad_enabled(False):
            return self.noise.sample(self.model, points, roots)
