"""An oracle that answers from a journal and appends new answers to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import torch
from torch import Tensor

from popskipjump.errors import InputError, OracleError
from popskipjump.oracles import Classifier, Oracle, Ticket, TimeLimit, TorchModel, device_of
from popskipjump.oracles.classifier import checked_labels
from popskipjump.oracles.traits import is_checked, says_repeatable
from popskipjump.storage.journal import Journal


def is_repeatable(oracle: object) -> bool:
    """Whether a repeated query with the same query number gets the same answer.

    This holds for torch modules with or without our noise models; other oracles declare it by `repeatable = True`.
    """
    if isinstance(oracle, TimeLimit):
        return is_repeatable(oracle.oracle)
    ours = isinstance(oracle.model if isinstance(oracle, Classifier) else oracle, TorchModel)
    return ours or says_repeatable(oracle)


def over_journal(
    oracle: Oracle,
    journal: Journal,
    images: Collection[int],
    on_queries: Callable[[int], None] | None = None,
) -> tuple[Journalled, str | None]:
    """The oracle of a group of images over a journal, and what the user should know of it.

    Args:
        oracle: asked for what is new.
        journal: open for writing.
        images: of the group.
        on_queries: see `Journalled`.
    """
    before, note = journal.seconds if journal.images() & set(images) else 0.0, None
    if not is_repeatable(oracle):
        note = drop_what_follows_from_lost(journal, images)
    return Journalled(oracle, journal, before, on_queries), note


def drop_what_follows_from_lost(journal: Journal, images: Collection[int]) -> str | None:
    """Drop the answers after lost ones, for a classifier whose answers are not repeatable; returns a message.

    A lost query may get another answer now, and the later answers belong to points that depended on the old answer.
    """
    lost = journal.first_gaps(images)
    if not lost:
        return None
    return (
        f"{journal.drop_after(lost):,} later answers of these images are asked again too, as this classifier may "
        "answer the lost queries otherwise."
    )


class Journalled:
    """An oracle that answers from the journal; it queries `oracle` for missing answers and appends them.

    Args:
        oracle: queried for answers that the journal lacks.
        journal: read and appended to.
        before: seconds that earlier processes spent on the images.
        on_queries: called with the number of queries after every call that asked something.
    """

    def __init__(
        self,
        oracle: Oracle,
        journal: Journal,
        before: float = 0.0,
        on_queries: Callable[[int], None] | None = None,
    ) -> None:
        self.oracle, self.journal = oracle, journal
        self.device = device_of(oracle)
        self.checked = True  # every label that is returned was validated before it was written
        self._valid = is_checked(oracle)  # the oracle has done so
        self._before = before
        self._on_queries = on_queries
        self._began: float | None = None  # when the first new question was asked; the replay before it is not counted
        self._end = journal.end

    @property
    def seconds(self) -> float:
        """Time spent on the images, over all processes that worked on them, without replays."""
        return self._before + (0.0 if self._began is None else time.perf_counter() - self._began)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        if ticket.serial is None:
            raise InputError("a journal needs numbered queries: put it below the ledger.")
        if failure := self.journal.failure(ticket):
            name, text = failure
            raise type(name, (OracleError,), {})(text)  # an error that reads like the one of then
        if not self._end or not len(points) or int(ticket.serial.min()) >= self._end:  # no look at each image
            return self._ask_anew(points, ticket)
        labels = torch.full((len(points),), -1, dtype=torch.int64)
        for image in torch.unique_consecutive(ticket.image).tolist():
            mine = ticket.image == image
            labels[mine] = torch.from_numpy(self.journal.known(image, ticket.serial[mine].numpy()))
        rest = labels < 0
        if bool(rest.any()):
            labels[rest] = self._ask_anew(points[rest.to(points.device)], ticket.part(rest)).cpu()
        return labels.to(points.device)

    def _ask_anew(self, points: Tensor, ticket: Ticket) -> Tensor:
        """Query the oracle, and write its answers to the journal before returning them."""
        if self._began is None:
            self._began = time.perf_counter()
        count = points.shape[0]  # faster than len() of a tensor
        self.journal.begin_call(count)
        try:
            answer = self.oracle.ask(points, ticket)
            labels = answer if self._valid else checked_labels(answer, count)
        except Exception as error:
            self.journal.write_failure(ticket, error, self.seconds)
            raise
        self.journal.write_answers(ticket, labels, self.seconds)
        if self._on_queries is not None:
            self._on_queries(count)
        return labels
