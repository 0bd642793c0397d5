"""Hooks: callbacks and oracle wrappers that a caller can attach to an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from popskipjump.attacks import Progress, Snapshot
from popskipjump.oracles import Oracle

BORDER_ROWS = 86  # calls of the white box for the border distance of an image, as a rule


@dataclass(frozen=True)
class Hooks:
    """Callbacks of an evaluation.

    Args:
        wrap_oracle: wraps the model's oracle, below the ledger and the votes: a record or a replay, for example. The
            wrapper sees image ids and query numbers in the tickets.
        on_progress: called after every iteration.
        on_queries: called with the number of queries after every call to the classifier.
        on_step: called with the borders of every iteration; see `attacks.Snapshot`.
        on_border: called with the share of the border distances that are measured, after every call of the white box.
        keep_interrupted: at Ctrl-C, return what was found so far; False raises KeyboardInterrupt.
    """

    wrap_oracle: Callable[[Oracle], Oracle] | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_queries: Callable[[int], None] | None = None
    on_border: Callable[[float], None] | None = None
    keep_interrupted: bool = True
    on_step: Callable[[Snapshot], None] | None = None

    def counted_borders(self, images: int) -> Callable[[int], None] | None:
        """What `border_distance` calls for so many images, so that `on_border` hears of shares; None if nobody does."""
        tell, done = self.on_border, 0
        if tell is None or not images:
            return None

        def on_rows(rows: int) -> None:
            nonlocal done
            done += rows
            tell(min(1.0, done / (images * BORDER_ROWS)))

        return on_rows
