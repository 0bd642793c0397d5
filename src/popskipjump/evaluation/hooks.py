"""Hooks: callbacks and oracle wrappers that a caller can attach to an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from popskipjump.attacks import Progress, Snapshot
from popskipjump.oracles import Oracle


@dataclass(frozen=True)
class Hooks:
    """Callbacks of an evaluation.

    Args:
        wrap_oracle: wraps the model's oracle, below the ledger and the votes: a record or a replay, for example. The
            wrapper sees image ids and query numbers in the tickets.
        on_progress: called after every iteration.
        on_queries: called with the number of queries after every call to the classifier.
        on_step: called with the borders of every iteration; see `attacks.Snapshot`.
        keep_interrupted: at Ctrl-C, return what was found so far; False raises KeyboardInterrupt.
    """

    wrap_oracle: Callable[[Oracle], Oracle] | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_queries: Callable[[int], None] | None = None
    keep_interrupted: bool = True
    on_step: Callable[[Snapshot], None] | None = None
