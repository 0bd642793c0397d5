"""Optional traits: what an oracle or a model may declare about itself, and what holds where it does not.

Anything with `ask(points, ticket)` is an oracle. Each protocol here is one further attribute; each function says what
an object without it is taken for.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Checks(Protocol):
    """Says whether its labels are valid, so that nobody above has to look at them again."""

    checked: bool


@runtime_checkable
class Numbers(Protocol):
    """Says whether its answers depend on the numbers of the queries."""

    numbered: bool


@runtime_checkable
class Repeats(Protocol):
    """Says whether an equal query with an equal number gets an equal answer."""

    repeatable: bool


@runtime_checkable
class OverModel(Protocol):
    """An oracle that shows its model: for metrics, never for an attack."""

    model: Any


@runtime_checkable
class HasModule(Protocol):
    """A model around a torch module."""

    module: Any


@runtime_checkable
class HasClasses(Protocol):
    """Knows the number of its classes, or None."""

    classes: Any


@runtime_checkable
class HasOutput(Protocol):
    """Says what its forward pass gives: "logits", "labels", ..."""

    output: str


@runtime_checkable
class HasLogits(Protocol):
    """Gives logits."""

    def logits(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> `(M, K)`."""


@runtime_checkable
class HasLogProbs(Protocol):
    """Gives log-probabilities."""

    def log_probs(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> `(M, K)`."""


@runtime_checkable
class HasPlain(Protocol):
    """A model that answers through a frozen copy, and keeps the one with its layers."""

    plain: Any


@runtime_checkable
class SizesCalls(Protocol):
    """Knows how many rows one call may have."""

    def rows_of_a_call(self, points: Tensor) -> int:
        """The number of rows for points `(M, *S)`."""


@runtime_checkable
class Interrupts(Protocol):
    """A model that can be told to stop waiting."""

    def interrupt(self) -> None:
        """End all waiting."""


def is_checked(oracle: object) -> bool:
    """Whether the labels of an oracle or of a noise model are valid without a look; no, unless it says so."""
    return isinstance(oracle, Checks) and bool(oracle.checked)


def is_numbered(oracle: object) -> bool:
    """Whether an oracle needs the numbers of its queries; yes, unless it says no."""
    return not isinstance(oracle, Numbers) or bool(oracle.numbered)


def says_repeatable(oracle: object) -> bool:
    """Whether an oracle declares that it repeats its answers."""
    return isinstance(oracle, Repeats) and bool(oracle.repeatable)


def model_of(oracle: object) -> Any:
    """The model that an oracle shows, or None."""
    return oracle.model if isinstance(oracle, OverModel) else None


def module_of(model: object) -> nn.Module | None:
    """A torch module, or the one within a model; None where there is none."""
    module = model.module if not isinstance(model, nn.Module) and isinstance(model, HasModule) else model
    return module if isinstance(module, nn.Module) else None


def classes_of(model: object) -> int | None:
    """The number of a model's classes, where it is known."""
    known = model.classes if isinstance(model, HasClasses) else None
    return None if known is None else int(known)


def outputs_logits(model: object) -> bool:
    """Whether a model's forward pass gives logits; yes, unless it says otherwise."""
    return not isinstance(model, HasOutput) or model.output == "logits"


def unfrozen(model: Any) -> Any:
    """The model whose layers can be reached: a frozen copy has none."""
    return model.plain if isinstance(model, HasPlain) else model
