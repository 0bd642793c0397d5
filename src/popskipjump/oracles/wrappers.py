"""Oracle wrappers: majority vote, recording, replay."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.oracles.base import Oracle, Ticket, device_of, is_whole

MOST_VOTES = 10_000  # the count of the winners takes memory of their square


class MajorityVote:
    """An oracle that queries every point `votes` times and returns the most frequent label (ties: the earliest)."""

    def __init__(self, oracle: Oracle, votes: int) -> None:
        if not is_whole(votes) or not 1 <= votes <= MOST_VOTES:
            raise InputError(f"votes must be a whole number from 1 to {MOST_VOTES:,}, not {votes!r}.")
        self.oracle, self.votes = oracle, int(votes)
        self.device = device_of(oracle)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        repeated = points.repeat_interleave(self.votes, dim=0)
        image = ticket.image.repeat_interleave(self.votes)
        serial = None if ticket.serial is None else self._serials(ticket.serial)
        answers = self.oracle.ask(repeated, Ticket(image, serial)).reshape(-1, self.votes)
        return self._winners(answers)

    def _serials(self, serial: Tensor) -> Tensor:
        return (serial.unsqueeze(-1) * self.votes + torch.arange(self.votes)).flatten()

    @staticmethod
    def _winners(answers: Tensor) -> Tensor:
        """The most frequent label of each row; ties go to the earliest vote: `(M, votes)` -> `(M,)`."""
        support = (answers.unsqueeze(-1) == answers.unsqueeze(-2)).sum(dim=-1)  # (M, votes)
        # A small bonus for earlier votes makes the maximum unique, so that argmax breaks ties in their favour.
        earlier = torch.arange(answers.shape[1], 0, -1, device=answers.device)
        best = (support * (answers.shape[1] + 1) + earlier).argmax(dim=-1, keepdim=True)
        return answers.gather(1, best).squeeze(-1)


class Recorded:
    """An oracle that records every answer by image, in query order, and, with `keep_points`, the queried points."""

    def __init__(self, oracle: Oracle, keep_points: bool = False) -> None:
        self.oracle = oracle
        self.device = device_of(oracle)
        self._keep_points = keep_points
        self._answers: dict[int, list[Tensor]] = {}
        self._points: list[Tensor] = []

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        answers = self.oracle.ask(points, ticket)
        images, counts = torch.unique_consecutive(ticket.image, return_counts=True)
        for image, part in zip(images.tolist(), torch.split(answers.cpu(), counts.tolist()), strict=True):
            self._answers.setdefault(image, []).append(part)
        if self._keep_points:
            self._points.append(points.detach().cpu().clone())
        return answers

    def answers(self) -> dict[int, Tensor]:
        """The answers to each image's queries, in query order: image id -> int64 `(queries,)`."""
        return {image: torch.cat(parts) for image, parts in self._answers.items()}

    def calls(self) -> list[Tensor]:
        """The points of every call, in order: each `(M, *S)`."""
        return self._points


class Replay:
    """An oracle that answers from a record, and queries `then` only for answers that the record lacks.

    Args:
        answers: image id -> int64 `(queries,)`, in the order of the image's queries; a negative entry marks a missing
            answer.
        then: the oracle that answers queries beyond the record; None raises an error there.
    """

    def __init__(self, answers: Mapping[int, Tensor], then: Oracle | None = None) -> None:
        self._answers, self._then = answers, then
        self._longest = max(map(len, answers.values()), default=0)
        self.device = device_of(then)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        if ticket.serial is None:
            raise InputError("a replay needs numbered queries: put it below the ledger.")
        if self._then is not None and len(points) and int(ticket.serial.min()) >= self._longest:
            return self._then.ask(points, ticket)  # all queries are beyond the record: skip the loop over images
        labels = torch.full((len(points),), -1, dtype=torch.int64)
        for image in torch.unique_consecutive(ticket.image).tolist():
            record = self._answers.get(image)
            if record is None:
                continue
            mine = (ticket.image == image) & (ticket.serial < len(record))
            labels[mine] = record[ticket.serial[mine]]
        known = labels >= 0
        if not bool(known.all()):
            if self._then is None:
                raise InputError("the record ends before the run: pass `then=` an oracle to go on with.")
            rest = ~known
            fresh = self._then.ask(points[rest.to(points.device)], Ticket(ticket.image[rest], ticket.serial[rest]))
            labels[rest] = fresh.cpu()
        return labels.to(points.device)
