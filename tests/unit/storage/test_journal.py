"""The journal: what was answered is there after a crash, and nothing that was not."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from present import present
from torch import Tensor

from popskipjump import OracleError, Ticket
from popskipjump.errors import DamagedRunError, StorageError
from popskipjump.oracles import Oracle
from popskipjump.storage import Journal, Journalled


class Counting:
    """Answers with the number of the call, and may fail at one of them."""

    def __init__(self, fail_at: int = 0, width: int = 1) -> None:
        self.asked: list[tuple[int, int]] = []
        self.calls, self.fail_at, self.width = 0, fail_at, width

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.calls += 1
        if self.calls == self.fail_at:
            raise ValueError("the line is busy")
        self.asked += list(zip(ticket.image.tolist(), present(ticket.serial).tolist(), strict=True))
        return torch.full((len(points),), self.calls * self.width)


def ticket(*pairs: tuple[int, int]) -> Ticket:
    images, serials = zip(*pairs, strict=True)
    return Ticket(torch.tensor(images), torch.tensor(serials))


CALLS = [ticket((3, 0), (3, 1), (8, 0)), ticket((3, 2), (8, 1), (8, 2)), ticket((8, 3))]


def ask_all(journal: Journal, oracle: Oracle) -> list[list[int]]:
    journalled = Journalled(oracle, journal)
    return [journalled.ask(torch.zeros(len(call.image), 2), call).tolist() for call in CALLS]


def written(path: Path, width: int = 1) -> list[list[int]]:
    journal = Journal(path, "ab12")
    answers = ask_all(journal, Counting(width=width))
    journal.close()
    return answers


@pytest.mark.parametrize("width", [1, 300, 70_000, 2**40])
def test_answers_come_back_without_asking(tmp_path: Path, width: int) -> None:
    answers = written(tmp_path / "j", width)
    silent = Counting()
    assert ask_all(Journal(tmp_path / "j", "ab12"), silent) == answers
    assert silent.calls == 0


def held(journal: Journal) -> dict[int, list[int]]:
    """All answers, -1 for a gap."""
    return {image: journal.known(image, np.arange(journal.end)).tolist() for image in journal.answered()}


def known(journal: Journal) -> dict[int, list[int]]:
    """All answers, without the -1 that follow them."""
    return {image: labels[: len(labels) - next((n for n, x in enumerate(labels[::-1]) if x >= 0), 0)]
            for image, labels in held(journal).items()}  # fmt: skip


def many(path: Path, calls: int = 40, images: int = 5, rows: int = 60) -> dict[int, list[int]]:
    """A journal with sealed records and a tail; the answers it was given."""
    journal = Journal(path, "ab12")
    expected: dict[int, list[int]] = {image: [] for image in range(images)}
    rng = np.random.default_rng(3)
    for call in range(calls):
        size = 500 if call % 10 == 5 else rows
        serial = np.concatenate([np.arange(size) + len(expected[image]) for image in range(images)])
        labels = rng.integers(0, 3, size * images)
        who = Ticket(torch.arange(images).repeat_interleave(size), torch.from_numpy(serial))
        journal.write_answers(who, torch.from_numpy(labels), float(call))
        for image, part in enumerate(labels.reshape(images, size).tolist()):
            expected[image] += part
    journal.close()
    return expected


def test_a_journal_cut_at_any_byte_gives_back_whole_calls_and_nothing_else(tmp_path: Path) -> None:
    answers = written(tmp_path / "j")
    content = (tmp_path / "j.tail").read_bytes()
    seen = set()
    for length in range(len(content)):
        shutil.copy(tmp_path / "j", tmp_path / "cut")
        (tmp_path / "cut.tail").write_bytes(content[:length])
        oracle = Counting()
        journal = Journal(tmp_path / "cut", "ab12")
        assert journal.damage() is None
        found = known(journal)
        whole = next(calls for calls in (3, 2, 1, 0) if found == _after(answers, calls))
        seen.add(whole)
        ask_all(journal, oracle)
        assert oracle.calls == 3 - whole
        journal.close()
    assert seen == {0, 1, 2}


def _after(answers: list[list[int]], calls: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for call, labels in zip(CALLS[:calls], answers, strict=False):
        for image, label in zip(call.image.tolist(), labels, strict=True):
            found.setdefault(image, []).append(label)
    return found


def test_sealed_answers_and_those_of_the_tail_come_back(tmp_path: Path) -> None:
    expected = many(tmp_path / "j")
    assert (tmp_path / "j").stat().st_size > 1000
    assert (tmp_path / "j.tail").stat().st_size > 100
    assert known(Journal(tmp_path / "j", "ab12", write=False)) == expected


def test_three_classes_take_less_than_a_third_of_a_byte_an_answer(tmp_path: Path) -> None:
    expected = many(tmp_path / "j", calls=200)
    size = (tmp_path / "j").stat().st_size
    assert size < 0.3 * sum(map(len, expected.values()))


@pytest.mark.parametrize("name", ["j", "j.tail"])
def test_a_flipped_byte_anywhere_costs_one_record_and_is_said_with_its_images(tmp_path: Path, name: str) -> None:
    expected = many(tmp_path / "j")
    content = (tmp_path / name).read_bytes()
    start = len(b"psj journal 2 of ab12\n") + (24 if name == "j.tail" else 0)
    total, said = sum(map(len, expected.values())), 0
    for place in np.random.default_rng(5).integers(start, len(content), 60).tolist():
        harmed = bytearray(content)
        harmed[place] ^= 0x10
        (tmp_path / name).write_bytes(harmed)
        journal = Journal(tmp_path / "j", "ab12", write=False)
        found = held(journal)
        assert all(
            b in (a, -1) for image, labels in expected.items() for a, b in zip(labels, found[image], strict=False)
        )
        kept = sum(journal.answered().values())
        assert 0 < total - kept <= 12_000
        words = present(journal.damage())
        said += f"{total - kept:,} answers of images 0, 1, 2, 3, 4 are lost" in words
    assert said >= 50, "only a damaged frame or index at the very end may hide what was lost"
    (tmp_path / name).write_bytes(content)


def test_bytes_missing_from_the_middle_cost_no_later_record(tmp_path: Path) -> None:
    expected = many(tmp_path / "j")
    content = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(content[:900] + content[950:])
    journal = Journal(tmp_path / "j", "ab12", write=False)
    found = held(journal)
    assert found[4][-200:] == expected[4][-200:]
    assert "are lost" in present(journal.damage())


def test_a_damaged_journal_is_written_on_and_keeps_both_sides_of_the_damage(tmp_path: Path) -> None:
    expected = many(tmp_path / "j")
    content = bytearray((tmp_path / "j").read_bytes())
    content[1000] ^= 1
    (tmp_path / "j").write_bytes(content)
    journal = Journal(tmp_path / "j", "ab12")
    before = sum(journal.answered().values())
    end = len(expected[0])
    journal.write_answers(ticket((0, end), (0, end + 1)), torch.tensor([7, 8]), 1.0)
    journal.close()
    again = Journal(tmp_path / "j", "ab12")
    assert sum(again.answered().values()) == before + 2
    assert again.known(0, np.array([end, end + 1])).tolist() == [7, 8]


def test_answers_that_were_dropped_stay_dropped_and_new_ones_count(tmp_path: Path) -> None:
    written(tmp_path / "j")
    journal = Journal(tmp_path / "j", "ab12")
    assert journal.drop_after({8: 1}) == 3
    journal.write_answers(ticket((8, 1)), torch.tensor([9]), 1.0)
    journal.close()
    assert known(Journal(tmp_path / "j", "ab12")) == {3: [1, 1, 2], 8: [1, 9]}


def test_a_process_that_dies_in_a_call_leaves_the_number_of_its_queries(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "ab12")
    ask_all(journal, Counting())
    journal.begin_call(17)
    journal.close()
    assert Journal(tmp_path / "j", "ab12", write=False).flight == (17, 0, 0)
    Journal(tmp_path / "j", "ab12").close()
    journal = Journal(tmp_path / "j", "ab12")
    journal.begin_call(3)
    journal.close()
    assert Journal(tmp_path / "j", "ab12").flight == (0, 20, 2)


def test_a_link_in_the_place_of_a_journal_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (tmp_path / "j.tail").symlink_to(victim)
    with pytest.raises(StorageError, match="symbolic link"):
        Journal(tmp_path / "j", "ab12")
    assert victim.read_bytes() == b""


def test_a_call_that_is_known_in_part_is_asked_for_the_rest_alone(tmp_path: Path) -> None:
    written(tmp_path / "j")
    oracle = Counting()
    whole = ticket((3, 1), (3, 2), (3, 3), (5, 0), (8, 3))
    answers = Journalled(oracle, Journal(tmp_path / "j", "ab12")).ask(torch.zeros(5, 2), whole)
    assert answers.tolist() == [1, 2, 1, 1, 3]
    assert oracle.asked == [(3, 3), (5, 0)]


def test_a_failure_is_repeated_and_not_asked_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "ab12")
    with pytest.raises(ValueError, match="the line is busy"):
        ask_all(journal, Counting(fail_at=2))
    journal.close()
    oracle = Counting()
    with pytest.raises(OracleError, match="the line is busy") as caught:
        ask_all(Journal(tmp_path / "j", "ab12"), oracle)
    assert type(caught.value).__name__ == "ValueError"
    assert oracle.calls == 0


def test_answers_after_a_failure_keep_their_numbers(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "ab12")
    journalled = Journalled(Counting(fail_at=1), journal)
    with pytest.raises(ValueError, match="busy"):
        journalled.ask(torch.zeros(1, 2), ticket((3, 0)))
    journalled.ask(torch.zeros(1, 2), ticket((3, 1)))
    journal.close()
    assert known(Journal(tmp_path / "j", "ab12")) == {3: [-1, 2]}


def test_the_last_failures_can_be_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "ab12")
    with pytest.raises(ValueError, match="busy"):
        ask_all(journal, Counting(fail_at=3))
    journal.forget_last_failures()
    journal.close()
    oracle = Counting()
    assert ask_all(Journal(tmp_path / "j", "ab12"), oracle) == [[1, 1, 1], [2, 2, 2], [1]]


def test_unusable_answers_count_as_a_failure(tmp_path: Path) -> None:
    class Wrong:
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            return torch.zeros(len(points) + 1, dtype=torch.int64)

    journal = Journal(tmp_path / "j", "ab12")
    with pytest.raises(OracleError, match="asked for 3 labels"):
        ask_all(journal, Wrong())
    journal.close()
    assert Journal(tmp_path / "j", "ab12").failure(CALLS[0]) is not None


def test_an_empty_journal_holds_nothing(tmp_path: Path) -> None:
    written(tmp_path / "j")
    journal = Journal(tmp_path / "j", "ab12")
    assert journal.images() == {3, 8}
    journal.clear()
    journal.close()
    assert Journal(tmp_path / "j", "ab12").images() == set()


def test_another_file_is_not_taken_for_a_journal_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"something else that matters")
    with pytest.raises(DamagedRunError, match="not the journal of this run"):
        Journal(tmp_path / "j", "ab12")
    assert (tmp_path / "j").read_bytes() == b"something else that matters"


def test_the_journal_of_another_run_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "j")
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(DamagedRunError, match="not the journal of this run"):
        Journal(tmp_path / "j", "cd34")
    assert (tmp_path / "j").read_bytes() == before


def test_a_full_disk_ends_the_run_with_advice_and_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "j", "ab12")
    journalled = Journalled(Counting(), journal)
    journalled.ask(torch.zeros(3, 2), CALLS[0])
    write = os.pwrite

    def full(file: Any, content: Any, place: Any) -> None:
        write(file, content[:5], place)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match=r"the disk is full.*make room"):
        journalled.ask(torch.zeros(3, 2), CALLS[1])
    journal.close()
    monkeypatch.undo()
    assert known(Journal(tmp_path / "j", "ab12")) == {3: [1, 1], 8: [1]}


def test_the_time_of_earlier_processes_is_kept(tmp_path: Path) -> None:
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
