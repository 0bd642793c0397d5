"""Collecting runs: what is there is read, what is missing is asked, and the result does not show which was which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from present import present
from run_toys import IMAGES, Linear, Logging, everything, source_with, spec_of
from torch import Tensor

from popskipjump import InputError, OracleError, Status, evaluate
from popskipjump.errors import NotARunError, StorageError
from popskipjump.oracles import Ticket
from popskipjump.runs import collect as runner
from popskipjump.runs.collect import collect, load, resume, source_of
from popskipjump.runs.source import Source
from popskipjump.storage import Journal, info


@pytest.fixture
def source() -> Source:
    return source_with(Logging())


def part(data: Any, rows: Any) -> dict[str, bytes]:
    """Some rows of all per-image arrays, as bytes; those of traces are columns."""
    pick = {}
    for name, value in vars(data).items():
        if isinstance(value, np.ndarray) and name not in ("seconds", "probe_position"):
            pick[name] = (value[:, rows] if name.startswith("trace") else value[rows]).tobytes()
    return pick


def test_images_that_are_there_are_not_asked_again(tmp_path: Path, source: Source) -> None:
    spec = spec_of(source)
    first = collect(spec, range(4), tmp_path, source=source)
    asked = source.model.count
    more = collect(spec, [5, 3, 0], tmp_path, source=source)
    assert source.model.count - asked == more.queries[0]
    assert part(more, [1, 2]) == part(first, [3, 0])
    asked = source.model.count
    assert everything(collect(spec, range(4), tmp_path, source=source)) == everything(first)
    assert source.model.count == asked


@pytest.mark.parametrize("choices", [{}, {"attack": "hsj", "votes": 3}, {"targets": "next"}, {"starts": "noise"}])
def test_a_run_in_groups_equals_one_evaluation(
    tmp_path: Path, source: Source, choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GROUP", 2)
    spec = spec_of(source, **choices)
    data = collect(spec, range(5), tmp_path, source=source)
    from popskipjump import Pool

    report = evaluate(
        Logging(),
        source.images[:5],
        source.labels[:5],
        spec.attack.config(2),
        starts=None if spec.starts == "noise" else Pool(torch.tensor(source.images), torch.tensor(source.labels)),
        targets=(source.labels[:5] + 1) % 3 if spec.targets else None,
        votes=spec.votes,
        verdict=5,
    )
    assert data.status == report.status
    for mine, theirs in (
        (data.points, report.points),
        (data.distances, report.distances),
        (data.border_distances, report.border_distances),
        (data.queries, report.queries),
        (data.attack_queries, report.attack_queries),
        (data.verdict_probability, present(report.verdict).probability.numpy()),
        (data.trace_queries, report.trace.queries.numpy()),
        (data.trace_distance, report.trace.distance.numpy()),
        (data.trace_sigmoid["centre"], report.trace.centre.numpy()),
        (data.originals, report.images),
    ):
        np.testing.assert_array_equal(mine, theirs)
    for phase, count in report.queries_by_phase.items():
        np.testing.assert_array_equal(data.queries_by_phase[phase], count)


@pytest.mark.parametrize("attack", ["qsj", "psj"])
def test_a_network_run_image_by_image_equals_one_in_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    source, found = source_of(), []
    spec = source.spec(attack=attack, noise="flip:0.1", budget=400, verdict=0)
    for size in (5, 1):
        monkeypatch.setattr(runner, "GROUP", size)
        found.append(everything(collect(spec, range(3, 8), tmp_path / str(size), source=source)))
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []


def test_the_probes_are_the_answers_of_the_last_search(tmp_path: Path, source: Source) -> None:
    data = collect(spec_of(source), range(3), tmp_path, source=source)
    assert data.probe_asked.shape == (3, len(data.probe_position))
    assert bool((data.probe_adversarial <= data.probe_asked).all())
    assert bool((data.probe_asked.sum(axis=1) > 0).all())
    assert bool((data.probe_asked.sum(axis=1) < data.queries_by_phase["search"]).all())


def test_load_gives_what_collect_gave(tmp_path: Path, source: Source) -> None:
    spec = spec_of(source)
    data = collect(spec, range(3), tmp_path, source=source)
    assert everything(load(tmp_path / spec.digest)) == everything(data)


def test_runs_of_other_specs_do_not_mix(tmp_path: Path, source: Source) -> None:
    one = collect(spec_of(source), range(2), tmp_path, source=source)
    two = collect(spec_of(source, seed=1), range(2), tmp_path, source=source)
    assert one.folder != two.folder
    assert part(one, [0]) != part(two, [0])


class Interrupted(Logging):
    """Ctrl-C after so many calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.left = calls

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().ask(points, ticket)


@pytest.mark.parametrize("calls", [0, 3, 40, "in the verdict"])
def test_ctrl_c_leaves_a_run_that_goes_on_from_there(tmp_path: Path, source: Source, calls: int | str) -> None:
    spec = spec_of(source)
    whole = collect(spec, range(4), tmp_path / "whole", source=source)
    if isinstance(calls, str):  # in the verdict: one call for each image's verdict, the last of all
        counting = Interrupted(10**9)
        collect(spec, range(4), tmp_path / "counted", source=source_with(counting))
        calls = 10**9 - counting.left - 2
    stopped = source_with(Interrupted(calls))
    with pytest.raises(KeyboardInterrupt):
        collect(spec, range(4), tmp_path / "cut", source=stopped)
    assert info(tmp_path / "cut" / spec.digest).state == "unfinished"
    rest = source_with(Logging())
    data = resume(tmp_path / "cut" / spec.digest, source=rest)
    assert everything(data) == everything(whole)
    assert stopped.model.count + rest.model.count == whole.queries.sum()


class Failing(Logging):
    """Fails on calls with an image, or on every call after some."""

    def __init__(self, image: int | None = None, after: int = 10**9) -> None:
        super().__init__()
        self.image, self.left = image, after

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.left -= 1
        if self.left < 0 or self.image in ticket.image.tolist():
            raise ConnectionError("no answer")
        return super().ask(points, ticket)


def test_one_image_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    source = source_with(Failing(image=1))
    data = collect(spec_of(source), range(3), tmp_path, source=source)
    assert data.status == [Status.FINISHED, Status.ORACLE_FAILED, Status.FINISHED]
    assert data.messages == {1: "ConnectionError: no answer"}


def test_failures_are_replayed_as_they_were(tmp_path: Path) -> None:
    whole = source_with(Failing(image=1))
    spec = spec_of(whole)
    expected = collect(spec, range(3), tmp_path / "whole", source=whole)

    class Stopped(Failing):
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            if self.count > 150:
                raise KeyboardInterrupt
            return super().ask(points, ticket)

    with pytest.raises(KeyboardInterrupt):
        collect(spec, range(3), tmp_path / "cut", source=source_with(Stopped(image=1)))
    data = collect(spec, range(3), tmp_path / "cut", source=source_with(Logging()))  # mended: but its failure stands
    assert everything(data) == everything(expected)


def test_a_classifier_that_fails_for_good_can_be_mended(tmp_path: Path) -> None:
    source = source_with(Failing(after=30))
    spec = spec_of(source)
    with pytest.raises(OracleError, match="failed on every image"):
        collect(spec, range(3), tmp_path, source=source)
    mended = source_with(Logging())
    data = collect(spec, range(3), tmp_path, source=mended)
    whole = collect(spec, range(3), tmp_path / "whole", source=source_with(Logging()))
    assert everything(data) == everything(whole)
    assert source.model.count + mended.model.count == whole.queries.sum()


def test_a_full_disk_is_no_failure_of_the_classifier(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, write, left = spec_of(source), Journal.append_loose, [20]

    def full(self: Journal, body: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StorageError("the disk is full")
        write(self, body)

    monkeypatch.setattr(Journal, "append_loose", full)
    with pytest.raises(StorageError, match="full"):
        collect(spec, range(3), tmp_path, source=source)
    monkeypatch.undo()
    whole = collect(spec, range(3), tmp_path / "whole", source=source_with(Logging()))
    assert everything(collect(spec, range(3), tmp_path, source=source)) == everything(whole)


def test_answers_of_images_that_are_not_asked_for_now_stay_in_the_journal(tmp_path: Path) -> None:
    stopped = source_with(Interrupted(40))
    spec = spec_of(stopped)
    with pytest.raises(KeyboardInterrupt):
        collect(spec, [0, 1], tmp_path, source=stopped)
    others = source_with(Logging())
    collect(spec, [5, 6], tmp_path, source=others)
    rest = source_with(Logging())
    data = resume(tmp_path / spec.digest, source=rest)
    assert data.image_ids.tolist() == [0, 1, 5, 6]
    assert stopped.model.count + rest.model.count == data.queries[:2].sum()


def test_progress_and_queries_speak_of_what_is_new(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GROUP", 2)
    spec = spec_of(source)
    counts: list[int] = []
    progress: list[Any] = []
    collect(spec, [0], tmp_path, source=source)
    before = source.model.count
    options: dict[str, Any] = {"on_queries": counts.append, "on_progress": progress.append}
    collect(spec, range(5), tmp_path, source=source, **options)
    assert sum(counts) == source.model.count - before
    shares = [now.share for now in progress]
    assert shares == sorted(shares)
    assert (progress[0].done, progress[-1]) == (1, (5, 5, 1.0))


@pytest.mark.parametrize("images", [[], [0, 0], [IMAGES], [-1], [0.5], ["0"]])
def test_images_that_are_not_there_are_refused_before_the_first_query(
    tmp_path: Path, source: Source, images: Any
) -> None:
    with pytest.raises(InputError, match="image"):
        collect(spec_of(source), images, tmp_path, source=source)
    assert source.model.count == 0
    assert not list(tmp_path.iterdir())


def test_another_source_than_the_specs_is_refused(tmp_path: Path, source: Source) -> None:
    with pytest.raises(InputError, match="the spec says data set 'mnist'"):
        collect(spec_of(source).but(dataset="mnist"), [0], tmp_path, source=source)


def test_the_folder_of_another_run_under_this_name_is_refused(tmp_path: Path, source: Source) -> None:
    one, two = spec_of(source), spec_of(source, seed=1)
    collect(one, [0], tmp_path, source=source)
    (tmp_path / one.digest).rename(tmp_path / two.digest)
    with pytest.raises(NotARunError, match="another spec"):
        collect(two, [0], tmp_path, source=source)


def test_a_renamed_folder_is_read_and_gone_on_with(tmp_path: Path) -> None:
    stopped = source_with(Interrupted(40))
    spec = spec_of(stopped)
    with pytest.raises(KeyboardInterrupt):
        collect(spec, [0, 1], tmp_path, source=stopped)
    (tmp_path / spec.digest).rename(tmp_path / "best")
    data = resume(tmp_path / "best", source=source_with(Logging()))
    assert data.image_ids.tolist() == load(tmp_path / "best").image_ids.tolist() == [0, 1]


def test_without_a_white_box_border_distances_are_unknown(tmp_path: Path) -> None:
    class Plain:
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            return Linear().labels(points)

    source = source_with(Plain())
    data = collect(spec_of(source, attack="hsj"), range(2), tmp_path, source=source)
    assert bool(np.isnan(data.border_distances).all())
    assert bool(np.isnan(data.trace_border).all())
    assert data.probe_asked.shape == (2, 0)
