"""What an evaluation offers to those who keep runs: a place below the count, and Ctrl-C passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from present import present
from torch import Tensor

from popskipjump import Hooks, Plane, QuickSkipJump, Recorded, Status, evaluate
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.oracles import Oracle, Ticket

IMAGES = np.array([[0.2, 0.2, 0.2, 0.2], [0.1, 0.3, 0.2, 0.4]], dtype=np.float32)
OPTIONS: dict[str, Any] = {"iterations": 2, "verdict": 5, "image_ids": [7, 4]}


def test_a_wrapped_oracle_sees_every_query_under_its_image_and_number() -> None:
    seen: dict[int, list[int]] = {7: [], 4: []}
    wrapped = []

    class Watching(Recorded):
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            for image, number in zip(ticket.image.tolist(), present(ticket.serial).tolist(), strict=True):
                seen[image].append(number)
            return super().ask(points, ticket)

    def wrap(oracle: Oracle) -> Watching:
        wrapped.append(Watching(oracle))
        return wrapped[0]

    report = evaluate(
        Plane(torch.ones(4), 2.0), IMAGES, [0, 0], "hsj", votes=3, hooks=Hooks(wrap_oracle=wrap), **OPTIONS
    )
    assert [len(seen[7]), len(seen[4])] == report.queries.tolist()
    assert all(numbers == list(range(len(numbers))) for numbers in seen.values())
    assert report.border_distances is not None, "the white box is that of the oracle within"


@pytest.mark.parametrize("after", [0, 20, "in the verdict"])
def test_an_interruption_is_passed_on_if_asked_for(after: int | str) -> None:
    def stopping(limit: int) -> tuple[Callable[[np.ndarray], np.ndarray], list[int]]:
        calls: list[int] = []

        def labels(batch: np.ndarray) -> np.ndarray:
            calls.append(len(batch))
            if len(calls) > limit:
                raise KeyboardInterrupt
            result: np.ndarray = (batch.sum(axis=1) > 2).astype(np.int64)
            return result

        return labels, calls

    if isinstance(after, str):  # in the verdict
        labels, calls = stopping(10**9)
        evaluate(labels, IMAGES, [0, 0], "hsj", **OPTIONS)
        after = len(calls) - 1
    with pytest.raises(KeyboardInterrupt):
        evaluate(stopping(after)[0], IMAGES, [0, 0], "hsj", hooks=Hooks(keep_interrupted=False), **OPTIONS)


def test_an_interruption_keeps_what_was_found_otherwise() -> None:
    calls = []

    def labels(batch: np.ndarray) -> Any:
        calls.append(len(batch))
        if len(calls) > 60:
            raise KeyboardInterrupt
        return (batch.sum(axis=1) > 2).astype(np.int64)

    report = evaluate(labels, IMAGES, [0, 0], "hsj", iterations=30)
    assert Status.INTERRUPTED in report.status


def test_the_probes_are_as_many_as_the_last_search_asked() -> None:
    report = evaluate(Plane(torch.ones(4), 2.0), IMAGES, [0, 0], "psj", iterations=0, verdict=0)
    assert present(report.probes).asked.sum(axis=1).tolist() == report.queries_by_phase["search"].tolist()
    assert bool((present(report.probes).adversarial <= present(report.probes).asked).all())
    assert evaluate(Plane(torch.ones(4), 2.0), IMAGES, [0, 0], "hsj", iterations=0).probes is None


def test_a_search_of_a_part_of_a_line_has_its_probes_on_the_whole_line() -> None:
    plane = Plane(torch.ones(4), 2.0)
    first = evaluate(plane, IMAGES, [0, 0], QuickSkipJump(start=GivenStart(), iterations=0), verdict=0)
    assert present(first.probes).asked.sum(axis=1).tolist() == first.queries_by_phase["search"].tolist()
    later = evaluate(plane, IMAGES, [0, 0], "qsj", iterations=5, verdict=0)
    wide = 1 / len(present(later.probes).position)
    for row, centre in enumerate(present(later.sigmoid).centre.tolist()):
        asked, yes = present(later.probes).asked[row], present(later.probes).adversarial[row]
        assert 0 < asked.sum() < later.queries_by_phase["search"][row]
        assert bool((np.abs(present(later.probes).position[asked > 0] - centre) < 0.5).all())
        # Without noise the answers change once, at the centre.
        assert bool((present(later.probes).position[yes > 0] <= centre + wide).all())
        assert bool((present(later.probes).position[asked > yes] >= centre - wide).all())
