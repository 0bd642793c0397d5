"""What an attack works on: a batch of images and the one path by which it may ask about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from popskipjump.attacks.notes import Notes
from popskipjump.errors import BudgetError, OracleError, StorageError
from popskipjump.geometry import Norm
from popskipjump.oracles import Criterion, Ledger, MajorityVote, Oracle, Ticket, WhiteBox
from popskipjump.rng import Key
from popskipjump.types import Bounds


@dataclass
class Problem:
    """A batch of images, what is asked about them, and the path of every query.

    One query, one path: `decide` clips to the bounds and names the phase; below it lie the vote, the ledger, the
    record, the chunks, the noise. Rows are image rows 0 .. B - 1, on the CPU, non-decreasing within a call.
    """

    original: Tensor  # (B, d) float32, on the oracle's device
    shape: tuple[int, ...]  # of one input
    image_id: Tensor  # (B,) int64, on the CPU: what random streams and records know an image by
    bounds: Bounds
    norm: Norm
    key: Key
    criterion: Criterion
    oracle: Oracle  # vote and ledger included
    ledger: Ledger
    votes: int = 1
    white_box: WhiteBox | None = None
    labels: Tensor | None = None  # (B,) int64, for the white box alone
    targets: Tensor | None = None  # (B,) int64, for the white box alone
    failed: dict[int, str] = field(default_factory=dict)  # row -> what the classifier did
    pools: dict[str, object] = field(default_factory=dict)  # random directions, drawn at their first use
    on_queries: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        self.notes = Notes(len(self.original))
        self._memory: dict[str, Tensor] = {}
        self._on_cpu = self.original.device.type == "cpu"  # asked before every call: even a void move takes its time

    @property
    def device(self) -> torch.device:
        """Where the images lie."""
        return self.original.device

    @property
    def dimension(self) -> int:
        """Values of one input, d."""
        return self.original.shape[1]

    # The images and points lie where the classifier is; what is decided about them (rows, positions, counts) is on the
    # CPU. These four are the ways between. Only `on_cpu` waits for the device: no more than once for all images in a
    # step of a search, and never between the calls of a direction.

    def on_device(self, values: Tensor) -> Tensor:
        """Numbers of the images, float32, where the images lie."""
        if values.dtype != torch.float32:  # some devices have no float64
            values = values.to(torch.float32)
        return values if self._on_cpu else values.to(self.device, non_blocking=True)

    def there(self, index: Tensor) -> Tensor:
        """An index of images, or a mask, where the images lie."""
        return index if self._on_cpu else index.to(self.device, non_blocking=True)

    def originals(self, rows: Tensor) -> Tensor:
        """The originals of some images: rows `(A,)` -> `(A, d)`."""
        return self.original.index_select(0, self.there(rows))  # in a fifth of the time of brackets

    def on_cpu(self, values: Tensor) -> Tensor:
        """Numbers of the images, float64, on the CPU."""
        return values.to("cpu").to(torch.float64)

    def memory(self, name: str, rows: int) -> Tensor:
        """Room for `(rows, d)` numbers, the same one for all who ask under a name: new memory costs as much as work."""
        if name not in self._memory or len(self._memory[name]) < rows:
            self._memory[name] = torch.empty(rows, self.dimension, device=self.device)
        return self._memory[name][:rows]

    def affordable(self, rows: Tensor) -> Tensor:
        """How many decisions the budget still allows: rows `(A,)` -> int64 `(A,)`."""
        return self.ledger.remaining(rows) // self.votes

    def decide(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        """Whether each point is adversarial.

        Args:
            points: `(M, d)` float32; clipped to the bounds IN PLACE, so that the caller knows what was asked.
            rows: `(M,)` the image row of each, on the CPU, non-decreasing.
            phase: what to count the queries under.

        Returns:
            bool `(M,)` on the device; False for images on which the classifier failed (see `failed`).
        """
        return self.label(points, rows, phase)[1]

    def label(self, points: Tensor, rows: Tensor, phase: str) -> tuple[Tensor, Tensor]:
        """`decide`, and the classes that were answered: int64 `(M,)` on the device, 0 where the classifier failed."""
        points.clamp_(self.bounds.low, self.bounds.high)
        if self.failed:
            alive = torch.tensor([row not in self.failed for row in rows.tolist()], dtype=torch.bool)
            if not bool(alive.all()):
                return self._label_some(points, rows, phase, alive)
        before, self.ledger.phase = self.ledger.phase, phase
        try:
            answers = self._ask(points, rows)
        except (BudgetError, StorageError):  # no fault of the classifier
            raise
        except Exception as error:
            answers = self._ask_each(points, rows, error)
        finally:
            self.ledger.phase = before
        if self.on_queries is not None:
            self.on_queries(len(rows) * self.votes)
        return answers

    def _label_some(self, points: Tensor, rows: Tensor, phase: str, alive: Tensor) -> tuple[Tensor, Tensor]:
        """`label` for the images that have not failed: they alone are asked about, bool `(M,)` on the CPU."""
        labels, decisions = self._no_answers(len(rows))
        if bool(alive.any()):
            there = self.there(alive)
            labels[there], decisions[there] = self.label(points[there], rows[alive], phase)
        return labels, decisions

    def _no_answers(self, count: int) -> tuple[Tensor, Tensor]:
        labels = torch.zeros(count, dtype=torch.int64, device=self.device)
        return labels, torch.zeros(count, dtype=torch.bool, device=self.device)

    def decide_single(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        """`decide` without votes: what one answer of the classifier says. For the verdict."""
        voting = self.oracle
        if isinstance(voting, MajorityVote):
            self.oracle, self.votes = voting.oracle, 1
        try:
            return self.decide(points, rows, phase)
        finally:
            self.oracle, self.votes = voting, getattr(voting, "votes", 1)

    def _ask(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        labels = self.oracle.ask(points.reshape(-1, *self.shape), Ticket(rows))
        if labels.shape != rows.shape:
            raise OracleError(f"the classifier was asked for {len(rows)} labels and gave {tuple(labels.shape)}.")
        labels = self.there(labels)
        return labels, self.criterion.decide(labels, self.there(rows))

    def _ask_each(self, points: Tensor, rows: Tensor, error: Exception) -> tuple[Tensor, Tensor]:
        """After a failure, ask image by image, so that one bad image does not end the batch."""
        images = torch.unique_consecutive(rows).tolist()
        labels, decisions = self._no_answers(len(rows))
        alone = len(images) == 1
        for row in images:
            mine = rows == row
            try:
                if alone:
                    raise error
                self.ledger.ensure(row, int(mine.sum()) * self.votes)
                chosen = self.there(mine)
                labels[chosen], decisions[chosen] = self._ask(points[chosen], rows[mine])
            except BudgetError:
                continue  # it cannot pay to be asked again: it ends with its budget
            except StorageError:
                raise
            except Exception as again:
                self.failed[row] = f"{type(again).__name__}: {again}"
        if len(self.failed) == len(self.original):
            raise OracleError(f"the classifier failed on every image; the last error was {error!r}.") from error
        return labels, decisions
