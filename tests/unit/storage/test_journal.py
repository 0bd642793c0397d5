"""The journal: what was answered is there after a crash, and nothing that was not."""

from __future__ import annotations

import errno
import os

import pytest
import torch

from popskipjump import OracleError, Ticket
from popskipjump.errors import DamagedRunError, StorageError
from popskipjump.storage import Journal, Journalled


class Counting:
    """Answers with the number of the call, and may fail at one of them."""

    def __init__(self, fail_at: int = 0, width: int = 1) -> None:
        self.asked: list[tuple[int, int]] = []
        self.calls, self.fail_at, self.width = 0, fail_at, width

    def ask(self, points, ticket):
        self.calls += 1
        if self.calls == self.fail_at:
            raise ValueError("the line is busy")
        self.asked += list(zip(ticket.image.tolist(), ticket.serial.tolist(), strict=True))
        return torch.full((len(points),), self.calls * self.width)


def ticket(*pairs: tuple[int, int]) -> Ticket:
    images, serials = zip(*pairs, strict=True)
    return Ticket(torch.tensor(images), torch.tensor(serials))


CALLS = [ticket((3, 0), (3, 1), (8, 0)), ticket((3, 2), (8, 1), (8, 2)), ticket((8, 3))]


def ask_all(journal: Journal, oracle) -> list[list[int]]:
    journalled = Journalled(oracle, journal)
    return [journalled.ask(torch.zeros(len(call.image), 2), call).tolist() for call in CALLS]


def written(path, width: int = 1) -> list[list[int]]:
    journal = Journal(path, "ab12")
    answers = ask_all(journal, Counting(width=width))
    journal.close()
    return answers


@pytest.mark.parametrize("width", [1, 300, 70_000, 2**40])
def test_answers_come_back_without_asking(tmp_path, width):
    answers = written(tmp_path / "j", width)
    silent = Counting()
    assert ask_all(Journal(tmp_path / "j", "ab12"), silent) == answers
    assert silent.calls == 0


def test_a_journal_cut_at_any_byte_gives_back_whole_calls_and_nothing_else(tmp_path):
    answers = written(tmp_path / "j")
    content = (tmp_path / "j").read_bytes()
    known = set()
    for length in range(len(content)):
        (tmp_path / "cut").write_bytes(content[:length])
        oracle = Counting()
        journal = Journal(tmp_path / "cut", "ab12")
        found = {image: labels.tolist() for image, labels in journal.answers().items()}
        whole = next(calls for calls in (3, 2, 1, 0) if found == _after(answers, calls))
        known.add(whole)
        ask_all(journal, oracle)
        assert oracle.calls == 3 - whole
        journal.close()
    assert known == {0, 1, 2}


def _after(answers: list[list[int]], calls: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for call, labels in zip(CALLS[:calls], answers, strict=False):
        for image, label in zip(call.image.tolist(), labels, strict=True):
            found.setdefault(image, []).append(label)
    return found


def test_what_follows_a_damaged_record_is_not_believed(tmp_path):
    written(tmp_path / "j")
    content = bytearray((tmp_path / "j").read_bytes())
    content[40] ^= 1
    (tmp_path / "j").write_bytes(content)
    assert Journal(tmp_path / "j", "ab12").answers() == {}


def test_a_call_that_is_known_in_part_is_asked_for_the_rest_alone(tmp_path):
    written(tmp_path / "j")
    oracle = Counting()
    whole = ticket((3, 1), (3, 2), (3, 3), (5, 0), (8, 3))
    answers = Journalled(oracle, Journal(tmp_path / "j", "ab12")).ask(torch.zeros(5, 2), whole)
    assert answers.tolist() == [1, 2, 1, 1, 3]
    assert oracle.asked == [(3, 3), (5, 0)]


def test_a_failure_is_repeated_and_not_asked_again(tmp_path):
    journal = Journal(tmp_path / "j", "ab12")
    with pytest.raises(ValueError, match="the line is busy"):
        ask_all(journal, Counting(fail_at=2))
    journal.close()
    oracle = Counting()
    with pytest.raises(OracleError, match="the line is busy") as caught:
        ask_all(Journal(tmp_path / "j", "ab12"), oracle)
    assert type(caught.value).__name__ == "ValueError"
    assert oracle.calls == 0


def test_answers_after_a_failure_keep_their_numbers(tmp_path):
    journal = Journal(tmp_path / "j", "ab12")
    journalled = Journalled(Counting(fail_at=1), journal)
    with pytest.raises(ValueError, match="busy"):
        journalled.ask(torch.zeros(1, 2), ticket((3, 0)))
    journalled.ask(torch.zeros(1, 2), ticket((3, 1)))
    journal.close()
    assert {k: v.tolist() for k, v in Journal(tmp_path / "j", "ab12").answers().items()} == {3: [-1, 2]}


def test_the_last_failures_can_be_forgotten(tmp_path):
    journal = Journal(tmp_path / "j", "ab12")
    with pytest.raises(ValueError, match="busy"):
        ask_all(journal, Counting(fail_at=3))
    journal.forget_last_failures()
    journal.close()
    oracle = Counting()
    assert ask_all(Journal(tmp_path / "j", "ab12"), oracle) == [[1, 1, 1], [2, 2, 2], [1]]


def test_unusable_answers_count_as_a_failure(tmp_path):
    class Wrong:
        def ask(self, points, ticket):
            return torch.zeros(len(points) + 1, dtype=torch.int64)

    journal = Journal(tmp_path / "j", "ab12")
    with pytest.raises(OracleError, match="asked for 3 labels"):
        ask_all(journal, Wrong())
    journal.close()
    assert Journal(tmp_path / "j", "ab12").failure(CALLS[0]) is not None


def test_an_empty_journal_holds_nothing(tmp_path):
    written(tmp_path / "j")
    journal = Journal(tmp_path / "j", "ab12")
    assert journal.images() == {3, 8}
    journal.clear()
    journal.close()
    assert Journal(tmp_path / "j", "ab12").images() == set()


def test_another_file_is_not_taken_for_a_journal_and_stays_as_it_is(tmp_path):
    (tmp_path / "j").write_bytes(b"something else that matters")
    with pytest.raises(DamagedRunError, match="not the journal of this run"):
        Journal(tmp_path / "j", "ab12")
    assert (tmp_path / "j").read_bytes() == b"something else that matters"


def test_the_journal_of_another_run_is_refused(tmp_path):
    written(tmp_path / "j")
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(DamagedRunError, match="not the journal of this run"):
        Journal(tmp_path / "j", "cd34")
    assert (tmp_path / "j").read_bytes() == before


def test_a_full_disk_ends_the_run_with_advice_and_keeps_what_was_answered(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "j", "ab12")
    journalled = Journalled(Counting(), journal)
    journalled.ask(torch.zeros(3, 2), CALLS[0])
    write = os.pwrite

    def full(file, content, place):
        write(file, content[:5], place)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match=r"the disk is full.*make room"):
        journalled.ask(torch.zeros(3, 2), CALLS[1])
    journal.close()
    monkeypatch.undo()
    assert {k: v.tolist() for k, v in Journal(tmp_path / "j", "ab12").answers().items()} == {3: [1, 1], 8: [1]}


def test_the_time_of_earlier_processes_is_kept(tmp_path):
    journal = Journal(tmp_path / "j", "ab12")
    journal.write_answers(CALLS[0], torch.zeros(3, dtype=torch.int64), 12.5)
    journal.close()
    journal = Journal(tmp_path / "j", "ab12")
    journalled = Journalled(Counting(), journal, journal.seconds)
    assert journalled.seconds == 12.5
    journalled.ask(torch.zeros(3, 2), CALLS[0])
    assert journalled.seconds == 12.5, "a replay takes no time"
    journalled.ask(torch.zeros(3, 2), CALLS[1])
    assert 12.5 < journalled.seconds < 13.5
