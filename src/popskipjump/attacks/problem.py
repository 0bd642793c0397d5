"""`Problem`: a batch of images under attack, and the only path by which an attack can query the classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from popskipjump.attacks.answered import PHASES, AnsweredClasses
from popskipjump.attacks.retry import Retry
from popskipjump.errors import BudgetError, OracleError, StorageError
from popskipjump.geometry import Norm
from popskipjump.oracles import Criterion, Ledger, MajorityVote, Oracle, Ticket, WhiteBox
from popskipjump.rng import Key
from popskipjump.types import Bounds

K = TypeVar("K")  # what a problem keeps


def _channels_hint(shape: tuple[int, ...]) -> str:
    """Hint at the most frequent mistake in the shape of an input."""
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4):
        return "; if it wants channels first, pass `numpy.moveaxis(images, -1, 1)`"
    if len(shape) == 2:
        return "; if it wants a channel, pass `images[:, None]`"
    return ", and must take these"


@dataclass
class Problem:
    """A batch of images, the criterion, and the path of every query.

    Every query takes the same path: `decide` clips the points to the bounds and sets the phase, and then calls the
    chain of oracles: vote, ledger, record, chunks, noise. Rows are image rows 0 .. B - 1, on the CPU, non-decreasing
    within a call.
    """

    original: Tensor  # (B, d) float32, on the oracle's device
    shape: tuple[int, ...]  # of one input
    image_id: Tensor  # (B,) int64, on the CPU: names an image in random streams and records
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
    failed: dict[int, str] = field(default_factory=dict)  # row -> the classifier's error
    on_queries: Callable[[int], None] | None = None
    verdict: int = 0  # queries of each image that are reserved for the verdict
    retry: Retry = field(default_factory=Retry)
    further_starts: Callable[[Tensor, int], Tensor] | None = None  # of a pool: see `FromPool.further`
    answered: AnsweredClasses = field(default_factory=AnsweredClasses)  # classes at the points being confirmed

    def __post_init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}
        self._kept: dict[tuple[type, object], object] = {}
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

    def index(self, index: Tensor) -> Tensor:
        """An index of images, or a mask, on the device of the images."""
        return index if self._on_cpu else index.to(self.device, non_blocking=True)

    def originals(self, rows: Tensor) -> Tensor:
        """The originals of some images: rows `(A,)` -> `(A, d)`."""
        return self.original.index_select(0, self.index(rows))  # in a fifth of the time of brackets

    def on_cpu(self, values: Tensor) -> Tensor:
        """Numbers of the images, float64, on the CPU."""
        return values.to("cpu").to(torch.float64)

    def buffer(self, name: str, rows: int) -> Tensor:
        """A buffer of `(rows, d)` numbers, one for each name: allocating it anew costs as much as the work in it."""
        if name not in self._buffers or len(self._buffers[name]) < rows:
            self._buffers[name] = torch.empty(rows, self.dimension, device=self.device)
        return self._buffers[name][:rows]

    def kept(self, kind: type[K], key: object, make: Callable[[], K]) -> K:
        """An object of a kind that is made once for this problem, such as a table of random directions."""
        found = self._kept.get((kind, key))
        if not isinstance(found, kind):
            found = self._kept[kind, key] = make()
        return found

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
            answers = self._ask_again(points, rows, error)
        finally:
            self.ledger.phase = before
        if phase in PHASES:
            self.answered.note(points, rows, *answers)
        if self.on_queries is not None:
            self.on_queries(len(rows) * self.votes)
        return answers

    def _label_some(self, points: Tensor, rows: Tensor, phase: str, alive: Tensor) -> tuple[Tensor, Tensor]:
        """`label` for the rows of images that have not failed, `alive`: bool `(M,)` on the CPU."""
        labels, decisions = self._no_answers(len(rows))
        if bool(alive.any()):
            there = self.index(alive)
            labels[there], decisions[there] = self.label(points[there], rows[alive], phase)
        return labels, decisions

    def _no_answers(self, count: int) -> tuple[Tensor, Tensor]:
        labels = torch.zeros(count, dtype=torch.int64, device=self.device)
        return labels, torch.zeros(count, dtype=torch.bool, device=self.device)

    def decide_single(self, points: Tensor, rows: Tensor, phase: str) -> Tensor:
        """`decide` without votes, by one answer of the classifier per row: for the settle phase and the verdict."""
        voting, votes = self.oracle, self.votes
        if isinstance(voting, MajorityVote):
            self.oracle, self.votes = voting.oracle, 1
        try:
            return self.decide(points, rows, phase)
        finally:
            self.oracle, self.votes = voting, votes

    def _ask(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        labels = self.oracle.ask(points.reshape(-1, *self.shape), Ticket(rows))
        if labels.shape != rows.shape:
            raise OracleError(f"the classifier was asked for {len(rows)} labels and gave {tuple(labels.shape)}.")
        labels = self.index(labels)
        return labels, self.criterion.decide(labels, self.index(rows))

    def _ask_again(self, points: Tensor, rows: Tensor, error: Exception) -> tuple[Tensor, Tensor]:
        """After a failed call, repeat it image by image, by the retry policy: one bad image does not end the batch."""
        without = dict.fromkeys(torch.unique_consecutive(rows).tolist(), error)  # row -> why it has no answer
        labels, decisions = self._no_answers(len(rows))
        for _ in self.retry.rounds(len(without)):
            for row in list(without):
                mine = rows == row
                try:
                    self.ledger.ensure(row, int(mine.sum()) * self.votes)
                    chosen = self.index(mine)
                    labels[chosen], decisions[chosen] = self._ask(points[chosen], rows[mine])
                except BudgetError:
                    pass  # it cannot pay to be asked again: it ends with its budget
                except StorageError:
                    raise
                except Exception as again:
                    without[row] = again
                    continue
                del without[row]
            if not without:
                break
        for row, why in without.items():
            self.failed[row] = f"{type(why).__name__}: {why}"
        if len(self.failed) == len(self.original):
            last = str(error) if isinstance(error, OracleError) else f"{type(error).__name__}: {error}"
            given = f" It was given inputs of shape ({', '.join(map(str, ('inputs', *self.shape)))}"
            hint = "" if isinstance(error, OracleError) else f"{given}){_channels_hint(self.shape)}."
            raise OracleError(
                f"the classifier failed on every image. The last error: {last.rstrip('.')}.{hint}"
            ) from error
        return labels, decisions
