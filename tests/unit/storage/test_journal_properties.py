"""Properties of journals and specs, whatever they are given."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from popskipjump import PopSkipJumpError, Ticket
from popskipjump.storage import Journal, RunSpec
from popskipjump.storage.answers import Answers
from popskipjump.storage.records import ANSWERS, Loose, Record, encoded, read_records, split

EXAMPLES = int(os.environ.get("PSJ_EXAMPLES", "100"))  # more of them in the slow tests
QUICK = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LABELS = st.one_of(st.integers(0, 3), st.integers(0, 300), st.integers(0, 2**62))
CALLS = st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(0, 2**32)), max_size=12)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 400), LABELS), min_size=1, max_size=8), st.integers(0))
def test_a_record_comes_back_as_it_was(spans: list[tuple[int, int, Any]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, labels, first = [], [], 0
    for image, count, largest in spans:
        rows.append((image, first, count))
        labels.append(rng.integers(0, largest, count, endpoint=True))
        first += count
    written = list(split(np.array(rows), np.concatenate(labels), 1.5))
    found = read_records(b"".join(map(encoded, written)), 0)
    assert not found.damages
    assert np.concatenate([record.labels for record in found.records]).tolist() == np.concatenate(labels).tolist()
    assert [row for record in found.records for row in record.spans.tolist()] == [list(row) for row in rows]


@QUICK
@given(st.lists(st.lists(st.tuples(st.integers(0, 3), LABELS), min_size=1, max_size=30), min_size=1, max_size=8))
def test_small_calls_come_back_from_the_tail_and_from_the_sealed_record(calls: list[list[tuple[int, int]]]) -> None:
    loose, tail = Loose(), b""
    expected: dict[tuple[int, int], int] = {}
    for number, call in enumerate(calls):
        image, labels = (np.array(part, dtype=np.int64) for part in zip(*call, strict=True))
        serial = 100 * number + np.arange(len(call))
        expected |= {
            (i, n): label for i, n, label in zip(image.tolist(), serial.tolist(), labels.tolist(), strict=True)
        }
        tail += loose.add_call(image, serial, labels, 1.0)
    assert len(loose) == len(expected)
    for content in (tail, b"".join(map(encoded, loose.sealed()))):
        found = read_records(content, 0)
        assert not found.damages
        assert table_of(found.records) == expected


def table_of(records: list[Record]) -> dict[tuple[int, int], int]:
    """Image and number of each query -> its label."""
    table: dict[tuple[int, int], int] = {}
    for record in records:
        labels = iter(record.labels.tolist())
        for image, first, count in record.spans.tolist():
            table |= {(image, first + n): next(labels) for n in range(count)}
    return table


@QUICK
@given(st.integers(1, 700_000), st.lists(st.integers(1, 300_000), min_size=1, max_size=5))
def test_a_call_of_any_size_is_split_without_a_loss(first: int, counts: list[int]) -> None:
    spans = np.array([(place, first, count) for place, count in enumerate(counts)])
    labels = np.arange(sum(counts)) % 7
    parts = list(split(spans, labels, 0.0))
    numbers = [(i, f + n) for part in parts for i, f, c in part.spans.tolist() for n in (0, c - 1)]
    assert np.concatenate([part.labels for part in parts]).tolist() == labels.tolist()
    assert all(len(part.labels) == part.spans[:, 2].sum() <= 1 << 18 for part in parts)
    assert numbers[0] == (0, first)
    assert numbers[-1] == (len(counts) - 1, first + counts[-1] - 1)


@QUICK
@given(st.binary(max_size=400))
def test_any_bytes_are_read_as_damage_or_nothing(content: bytes) -> None:
    found = read_records(content, 0)
    assert found.end <= len(content)
    assert all(0 <= damage.begin < damage.end <= len(content) for damage in found.damages)


@QUICK
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 30)), max_size=15))
def test_answers_are_a_table_of_numbers(steps: list[tuple[bool, int, int]]) -> None:
    answers = Answers()
    table: dict[int, int] = {}
    for step, (add, first, count) in enumerate(steps):
        numbers = range(first, first + count)
        if add:
            answers.add(first, np.full(count, step))
            table |= dict.fromkeys(numbers, step)
        else:
            answers.drop(first, count)
            table = {number: label for number, label in table.items() if number not in numbers}
    assert answers.of(np.arange(100)).tolist() == [table.get(number, -1) for number in range(100)]
    assert len(answers) == len(table)
    gaps = [number for begin, end in answers.gaps() for number in range(begin, end)]
    assert gaps == [number for number in range(max(table, default=-1) + 1) if number not in table]


@QUICK
@given(CALLS, st.integers(0, 2**20), st.integers(0, 255))
def test_a_journal_with_a_changed_byte_never_gives_another_answer(calls: Any, place: int, value: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.bin"
        journal = Journal(path, "ab12")
        expected: dict[int, list[int]] = {image: [] for image in range(4)}
        for counts, seed in calls:
            image = np.repeat(np.arange(len(counts)), counts)
            serial = [len(expected[i]) + n for i, count in enumerate(counts) for n in range(count)]
            labels = np.random.default_rng(seed).integers(0, 5, len(image))
            for i, label in zip(image.tolist(), labels.tolist(), strict=True):
                expected[i].append(label)
            ticket = Ticket(torch.from_numpy(image), torch.tensor(serial, dtype=torch.int64))
            journal.write_answers(ticket, torch.from_numpy(labels), 1.0)
        journal.close()
        tail = path.with_suffix(".tail")
        content = bytearray(tail.read_bytes())
        content[place % len(content)] = value
        tail.write_bytes(content)
        try:
            found = Journal(path, "ab12", write=False)
        except PopSkipJumpError:
            return
        for number, given_ in expected.items():
            known = found.known(number, np.arange(len(given_))).tolist()
            assert all(there in (label, -1) for label, there in zip(given_, known, strict=True))


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
                    | st.dictionaries(st.text(), inner), max_leaves=5)  # fmt: skip


@QUICK
@given(st.dictionaries(st.sampled_from([*RunSpec.model_fields, "other"]), JSON, max_size=4))
def test_whatever_stands_in_a_spec_it_is_a_spec_or_refused_in_words(fields: dict[str, Any]) -> None:
    try:
        spec = RunSpec(**fields)
    except PopSkipJumpError:
        return
    assert RunSpec(**json.loads(spec.text)) == spec


@QUICK
@given(
    st.fixed_dictionaries(
        {
            "attack": st.sampled_from(["psj", "hsj", "qsj", "boundary"]),
            "noise": st.sampled_from([None, "flip:0.1", "logit:1"]),
            "votes": st.integers(1, 9),
            "budget": st.none() | st.integers(1, 10**9),
            "bounds": st.tuples(st.floats(-1e6, 0), st.floats(0.5, 1e6)),
            "stop_distance": st.none() | st.floats(0, 1e6),
            "seed": st.integers(-(2**63), 2**63),
        }
    )
)
def test_a_spec_comes_back_from_its_text_and_has_one_digest(choices: dict[str, Any]) -> None:
    spec = RunSpec(**choices)
    again = RunSpec(**json.loads(spec.text))
    assert again == spec
    assert again.digest == spec.digest
    assert spec.words.isprintable()


def test_a_record_of_the_largest_size_is_read_back() -> None:
    labels = np.arange(1 << 18) % 3
    record = Record(ANSWERS, np.array([(7, 0, 1 << 18)]), 0.0, labels)
    assert read_records(encoded(record), 0).records[0].labels.tolist() == labels.tolist()
