"""`evaluate` into a folder gives what `evaluate` gives, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from present import present
from run_toys import Linear, Logging, source_with
from torch import Tensor

from popskipjump import InputError, NotARunError, Pool, Space, evaluate
from popskipjump.evaluation.spaced_report import SpacedReport
from popskipjump.oracles import Ticket
from popskipjump.runs.data import load
from popskipjump.runs.keep import evaluate_in
from popskipjump.runs.opening import load as load_report
from popskipjump.storage import info

SOURCE = source_with(None)
IMAGES, LABELS = SOURCE.images[:4], SOURCE.labels[:4]
POOL = Pool(torch.from_numpy(SOURCE.images), torch.from_numpy(SOURCE.labels))
NAMED: dict[str, Any] = {"name": "toy", "digest": "1"}
CHOICES: dict[str, Any] = {"iterations": 2, "verdict": 5, "starts": POOL}


def test_the_report_is_that_of_evaluate(tmp_path: Path) -> None:
    kept = evaluate_in(tmp_path / "run", Logging(), IMAGES, LABELS, **CHOICES, **NAMED)
    plain = evaluate(Logging(), IMAGES, LABELS, **CHOICES)
    for name in ("points", "distances", "queries", "border_distances", "images", "labels"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(plain, name))
    assert kept.status == plain.status
    assert str(kept) == str(plain)
    np.testing.assert_array_equal(present(kept.verdict).probability, present(plain.verdict).probability)
    np.testing.assert_array_equal(present(kept.sigmoid).centre, present(plain.sigmoid).centre)
    np.testing.assert_array_equal(kept.trace.queries, plain.trace.queries)
    assert info(tmp_path / "run").state == "done"
    written = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert [image["queries"] for image in written["images"]] == plain.queries.tolist()


def test_a_run_in_a_space_is_one_in_its_report_too(tmp_path: Path) -> None:
    masks = GIVEN["masks"]["mask"]
    space = Space(0, 1, shape=IMAGES.shape[1:], scale=2.0)
    plain = evaluate(Logging(), IMAGES, LABELS, space=space, mask=masks, **CHOICES)
    evaluate_in(tmp_path / "run", Logging(), IMAGES, LABELS, space=space, mask=masks, **CHOICES, **NAMED)
    kept = load_report(tmp_path / "run")
    assert isinstance(kept, SpacedReport)
    assert isinstance(plain, SpacedReport)
    assert kept.space == plain.space == space
    assert str(kept) == str(plain)
    assert kept.free.tolist() == plain.free.tolist()
    np.testing.assert_array_equal(kept.distances, plain.distances)
    never = Logging()
    again = evaluate_in(tmp_path / "run", never, IMAGES, LABELS, space=space, mask=masks, **CHOICES, **NAMED)
    np.testing.assert_array_equal(again.points, plain.points)
    assert never.count == 0


GIVEN: dict[str, dict[str, Any]] = {
    "bounds": {"bounds": (-1.0, 2.0), "starts": None},
    "targets": {"targets": (LABELS + 1) % 3},
    "stop": {"stop_distance": 9.0},
    "budget": {"attack": "qsj", "iterations": None, "budget": 200},
    "points": {"starts": 1 - IMAGES},
    "space": {"space": Space(0, 1, shape=IMAGES.shape[1:], scale=2.0, immutable=[0])},
    "mask": {"mask": np.arange(IMAGES[0].size).reshape(IMAGES.shape[1:]) > 1},
    "masks": {"mask": np.stack([np.arange(IMAGES[0].size).reshape(IMAGES.shape[1:]) != i % 2 for i in range(4)])},
    "scale": {"scale": 0.5},
    "bounds of each feature": {"bounds": (np.zeros(IMAGES.shape[1:]), np.full(IMAGES.shape[1:], 1.5))},
}


@pytest.mark.parametrize("what", GIVEN)
def test_whatever_is_given_is_kept_and_told_apart(tmp_path: Path, what: str) -> None:
    choices: dict[str, Any] = CHOICES | GIVEN[what]
    kept = evaluate_in(tmp_path / "run", Logging(), IMAGES, LABELS, **choices, **NAMED)
    plain = evaluate(Logging(), IMAGES, LABELS, **choices)
    np.testing.assert_array_equal(kept.points, plain.points)
    np.testing.assert_array_equal(kept.queries, plain.queries)
    with pytest.raises(NotARunError, match="another spec"):
        evaluate_in(tmp_path / "run", Logging(), IMAGES, LABELS, **CHOICES, **NAMED)


def test_the_same_call_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    class Stopped(Logging):
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            if self.count > 100:
                raise KeyboardInterrupt
            return super().ask(points, ticket)

    first, second = Stopped(), Logging()
    with pytest.raises(KeyboardInterrupt):
        evaluate_in(tmp_path / "run", first, IMAGES, LABELS, **CHOICES, **NAMED)
    assert info(tmp_path / "run").journalled == first.count
    report = evaluate_in(tmp_path / "run", second, IMAGES, LABELS, **CHOICES, **NAMED)
    assert first.count + second.count == report.queries.sum()
    assert load(tmp_path / "run").spec.model == "toy"


def test_a_function_needs_a_name_and_a_digest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give it a name and a digest"):
        evaluate_in(tmp_path / "run", lambda batch: np.zeros(len(batch), int), IMAGES, LABELS)
    assert not (tmp_path / "run").exists()


def test_a_module_is_known_by_its_weights(tmp_path: Path) -> None:
    layer = torch.nn.Linear(20, 3)
    module = torch.nn.Sequential(torch.nn.Flatten(), layer)
    with torch.no_grad():
        layer.weight.copy_(Linear().weights)
        layer.bias.copy_(Linear().offset)
    choices: dict[str, Any] = CHOICES | {"iterations": 1, "verdict": 0}
    evaluate_in(tmp_path / "run", module, IMAGES, LABELS, **choices)
    with torch.no_grad():
        layer.bias.add_(1.0)
    with pytest.raises(NotARunError, match="another spec"):
        evaluate_in(tmp_path / "run", module, IMAGES, LABELS, **choices)


@pytest.mark.parametrize("repeatable", [True, False])
def test_damage_to_the_journal_is_said_and_the_run_ends_as_it_should(tmp_path: Path, repeatable: bool) -> None:
    class Stopped(Logging):
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            if self.count > 300:
                raise KeyboardInterrupt
            return super().ask(points, ticket)

    with pytest.raises(KeyboardInterrupt):
        evaluate_in(tmp_path / "run", Stopped(), IMAGES, LABELS, **CHOICES, **NAMED)
    tail = tmp_path / "run" / "journal.tail"
    content = bytearray(tail.read_bytes())
    content[len(content) // 2] ^= 0x55
    tail.write_bytes(content)
    assert "damaged" in present(info(tmp_path / "run").damage)
    rest: Any = Logging()
    notes: list[str] = []
    rest.repeatable = repeatable
    kept = info(tmp_path / "run").journalled
    report = evaluate_in(tmp_path / "run", rest, IMAGES, LABELS, **CHOICES, **NAMED, on_note=notes.append)
    plain = evaluate(Logging(), IMAGES, LABELS, **CHOICES)
    np.testing.assert_array_equal(report.points, plain.points)
    assert "are lost" in notes[0]
    if repeatable:
        assert rest.count == report.queries.sum() - kept
    else:
        assert "asked again too" in notes[1]
        assert rest.count > report.queries.sum() - kept
