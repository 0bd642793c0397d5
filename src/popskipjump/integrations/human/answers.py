"""Storage of human answers: one line of JSON for each answer, on disk before the attack sees it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from popskipjump.errors import DamagedRunError, NotARunError
from popskipjump.storage.files import io_errors

SAME, OTHER, UNSURE = "same", "other", "unsure"
CLASS = "class:"
QUERY, CATCH, SECOND = "query", "catch", "second"
_VERSION = 1
_PERSON = re.compile(r"\w[\w .-]{0,23}")


class Reply(NamedTuple):
    """One answer of one person."""

    kind: str  # a query of the attack, a catch trial, or a second opinion on a query
    image: int
    serial: int  # number of the query; of a catch trial, 0 shows the original and 1 the start
    answer: str  # "same", "other", "class:K" or "unsure"
    person: str  # pseudonym
    seconds: float  # from the question to the answer


def is_person(name: object) -> bool:
    """Whether a text can be a pseudonym: up to 24 letters, digits, spaces, dots and hyphens."""
    return isinstance(name, str) and _PERSON.fullmatch(name) is not None


def is_answer(answer: object, classes: int) -> bool:
    """Whether a text is one of the answers that the page offers."""
    if not isinstance(answer, str) or len(answer) > 20:
        return False
    number = answer.removeprefix(CLASS)
    named = answer != number and number.isascii() and number.isdigit() and int(number) < classes
    return named or answer in (SAME, OTHER, UNSURE)


class AnswerFile:
    """An append-only file of replies; what it held when it was opened is in `known`.

    A process that is killed leaves at most one torn line at the end, which is dropped.

    Args:
        path: made if there is none.
        study: a digest of what the study asks; a file of another study is refused.

    Raises:
        NotARunError: the file belongs to another study.
        DamagedRunError: a line in the middle cannot be read; nothing was changed.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: Path, study: str) -> None:
        self.path = path
        self.known: list[Reply] = []
        header = json.dumps({"psj_study": _VERSION, "study": study}) + "\n"
        with io_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            if whole and not whole.startswith(header.encode()):
                raise NotARunError(
                    f"{path} holds the answers of another study (other images, attack, budget or seed). Nothing was "
                    "changed: choose another --study, or repeat the command that began this one."
                )
            self.known = list(_replies(whole[len(header.encode()) :], path))
        except Exception:
            os.close(self._file)
            raise
        with io_errors(path):
            os.ftruncate(self._file, len(whole))
            if not whole:
                self._write(header)

    def append(self, reply: Reply) -> None:
        """Write a reply down; it is on the disk when this returns."""
        with io_errors(self.path):
            self._write(json.dumps(reply._asdict(), ensure_ascii=True) + "\n")

    def _write(self, line: str) -> None:
        os.write(self._file, line.encode())
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def _replies(content: bytes, path: Path) -> Iterator[Reply]:
    for number, line in enumerate(content.splitlines(), start=2):
        try:
            record: Any = json.loads(line)
            reply = Reply(**record)
            sound = (
                reply.kind in (QUERY, CATCH, SECOND) and is_person(reply.person) and is_answer(reply.answer, 1 << 31)
            )
            sound = sound and all(isinstance(v, int) and v >= 0 for v in (reply.image, reply.serial))
        except (ValueError, TypeError, RecursionError):
            sound = False
        if not sound:
            raise DamagedRunError(
                f"line {number} of {path} is not an answer. Nothing was changed: repair or remove it."
            )
        yield reply
