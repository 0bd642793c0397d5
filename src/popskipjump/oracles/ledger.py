"""Query counts per image and phase, and the hard query budget."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import BudgetError, InputError
from popskipjump.oracles.base import Oracle, Ticket, device_of, is_whole
from popskipjump.oracles.classifier import checked_labels
from popskipjump.oracles.traits import is_checked, is_numbered

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

UNLIMITED = torch.iinfo(torch.int64).max
MOST_QUERIES = 10**15  # largest budget allowed: sums of such budgets still fit into 64 bits


class Ledger:
    """Counts every query by image and phase, and raises an error before a query would exceed the budget."""

    def __init__(self, images: int, budget: int | Tensor | None = None) -> None:
        self.total = torch.zeros(images, dtype=torch.int64)  # (B,)
        self._total: Numbers = self.total.numpy()  # shares memory with `total`, as `_by_phase` does with `by_phase`
        self._by_phase: dict[str, Numbers] = {}
        self.by_phase: dict[str, Tensor] = {}  # phase -> (B,)
        self.phase = "other"
        self.reserved: int | Tensor = 0  # queries kept for later phases: one number for all images, or (B,)
        self._budget = self._checked(budget, images)
        self._limit: Numbers | None = None if self._budget is None else self._budget.numpy()

    @staticmethod
    def _checked(budget: int | Tensor | None, images: int) -> Tensor | None:
        if budget is None:
            return None
        if not isinstance(budget, Tensor) and not is_whole(budget):
            raise InputError(f"budget must be a whole number of queries per image, not {budget!r}.")
        if not isinstance(budget, Tensor) and budget > MOST_QUERIES:
            raise InputError(
                f"budget must be at most {MOST_QUERIES:,} queries per image, not {budget!r}; None is no limit."
            )
        if not isinstance(budget, Tensor) and budget < 1:
            raise InputError(f"budget must be at least 1 query per image, not {budget!r}.")
        limit = torch.as_tensor(budget, dtype=torch.int64)
        if limit.shape not in ((), (1,), (images,)):
            raise InputError(f"budget has shape {tuple(limit.shape)}; it must be one number, or {images} of them.")
        limit = limit.expand(images).clone()
        if bool((limit < 1).any()):
            raise InputError(f"budget must be at least 1 query per image, not {int(limit.min())}.")
        return limit

    @property
    def budget(self) -> Tensor | None:
        """Query budget of each image: int64 `(B,)`; None means unlimited."""
        return self._budget

    @property
    def limited(self) -> bool:
        """Whether there is a budget."""
        return self._budget is not None

    def remaining(self, rows: Tensor) -> Tensor:
        """Queries left for each image, without the reserved ones: rows `(A,)` -> int64 `(A,)`."""
        if self._budget is None:
            return torch.full_like(rows, UNLIMITED)
        reserved = self.reserved[rows] if isinstance(self.reserved, Tensor) else self.reserved
        return (self._budget[rows] - self.total[rows] - reserved).clamp_(min=0)

    def ensure(self, row: int, queries: int) -> None:
        """Raise an error unless an image has at least `queries` left, reserved ones included."""
        if self._budget is not None and int(self.total[row]) + queries > int(self._budget[row]):
            raise BudgetError(f"{queries} more queries would exceed the budget of image {row}; nothing was asked.")

    def charge(self, rows: Tensor, number: bool = True) -> Tensor | None:
        """Count one query for each entry of `rows` and number the queries of each image.

        Args:
            rows: `(M,)` int64, non-decreasing: the image row of each query.
            number: whether to return the query numbers.

        Returns:
            `(M,)` int64: number of earlier queries of the same image; None without `number`.
        """
        # NumPy on the same memory: for such short arrays, torch's call overhead exceeds the work itself.
        row, total = rows.numpy(), self._total
        if len(row) and row[0] == row[-1]:
            return self._charge_one(int(row[0]), len(row), number)
        counts = np.bincount(row, minlength=len(total))
        after = total + counts
        if self._limit is not None and (after > self._limit).any():  # no image was above its limit before
            raise self._exceeded()
        total[:] = after
        of_phase = self._of_phase()
        of_phase += counts
        if not number:
            return None
        # Serial = the image's earlier queries + position in this batch - rows of images before it in this batch.
        serial = (total - counts.cumsum())[row]
        serial += np.arange(len(row))
        return torch.from_numpy(serial)

    def _charge_one(self, row: int, count: int, number: bool) -> Tensor | None:
        """`charge` for queries of a single image: a fast path for searches that make one query at a time."""
        before = int(self._total[row])
        if self._budget is not None and before + count > int(self._budget[row]):
            raise self._exceeded()
        self._total[row] += count
        self._of_phase()[row] += count
        return torch.arange(before, before + count) if number else None

    def _of_phase(self) -> Numbers:
        """The query counts `(B,)` of the current phase, to be changed in place."""
        if self.phase not in self._by_phase:
            self.by_phase[self.phase] = torch.zeros_like(self.total)
            self._by_phase[self.phase] = self.by_phase[self.phase].numpy()
        return self._by_phase[self.phase]

    def _exceeded(self) -> BudgetError:
        return BudgetError(f"a query in phase {self.phase!r} would exceed the budget; nothing was asked.")


class Counted:
    """An oracle whose queries a ledger counts, numbers and limits.

    A ticket passed to `ask` holds image rows (0 .. B - 1); the wrapped oracle gets image ids and query numbers.
    """

    def __init__(self, oracle: Oracle, ledger: Ledger, image_id: Tensor) -> None:
        self.oracle, self.ledger, self.image_id = oracle, ledger, image_id
        self.device = device_of(oracle)
        self._numbered = bool((image_id == torch.arange(len(image_id))).all())  # image ids are the rows
        self._checked = is_checked(oracle)
        self._number = is_numbered(oracle)
        self._seen = False

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        serial = self.ledger.charge(ticket.image, self._number)
        image = ticket.image if self._numbered else self.image_id[ticket.image]
        answer = self.oracle.ask(points, Ticket(image, serial))
        if self._checked:
            return answer
        # Checking values synchronises with another device, so there only the first call is checked.
        look = self.device.type == "cpu" or not self._seen
        self._seen = True
        return checked_labels(answer, len(points), look)
