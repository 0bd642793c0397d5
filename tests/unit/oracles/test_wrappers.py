from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from present import present
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.oracles import (
    Classifier,
    Counted,
    Ledger,
    MajorityVote,
    Oracle,
    PlanarSigmoid,
    Plane,
    Recorded,
    Replay,
    Ticket,
)
from popskipjump.rng import Key, integers, uniform


class Script:
    """Gives the answers it was told, in order, and remembers what it was asked."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.tickets: list[Ticket] = []
        self.points: list[Tensor] = []

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.tickets.append(ticket)
        self.points.append(points)
        now, self.answers = self.answers[: len(points)], self.answers[len(points) :]
        return torch.tensor(now)


def rows(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        ((4,), 4),
        ((1, 2, 2), 2),
        ((2, 1, 2), 2),
        ((3, 1, 2), 3),  # all equal: the earliest
        ((5, 1, 1, 5), 5),  # a tie: the earliest
        ((1, 5, 5, 1), 1),
        ((0, 9, 9, 0, 7, 9), 9),
    ],
)
def test_the_most_frequent_label_wins_and_the_earliest_of_equals(votes: tuple[int, ...], winner: int) -> None:
    assert MajorityVote(Script(*votes), len(votes)).ask(torch.zeros(1, 1), Ticket(rows(0))).tolist() == [winner]


def test_winners_agree_with_counting_by_hand() -> None:
    answers = integers(Key(0).roots(torch.arange(300)), 6, 4)
    expected = [Counter(row).most_common(1)[0][0] for row in answers.tolist()]  # a Counter keeps the first of equals
    vote = MajorityVote(Script(*answers.flatten().tolist()), 6)
    assert vote.ask(torch.zeros(300, 1), Ticket(torch.arange(300))).tolist() == expected


def test_votes_on_one_point_are_asked_next_to_each_other() -> None:
    script = Script(*[0] * 6)
    MajorityVote(script, 3).ask(torch.tensor([[1.0], [2.0]]), Ticket(rows(4, 7)))
    assert script.points[0].flatten().tolist() == [1, 1, 1, 2, 2, 2]
    assert script.tickets[0].image.tolist() == [4, 4, 4, 7, 7, 7]
    assert script.tickets[0].serial is None


def test_numbered_queries_stay_numbered_apart() -> None:
    script = Script(*[0] * 6)
    MajorityVote(script, 3).ask(torch.zeros(2, 1), Ticket(rows(4, 4), rows(5, 6)))
    assert present(script.tickets[0].serial).tolist() == [15, 16, 17, 18, 19, 20]


@pytest.mark.parametrize("votes", [0, -1, 2.5, True, float("inf"), float("nan"), "three"])
def test_votes_that_are_no_positive_whole_number_are_an_error(votes: Any) -> None:
    with pytest.raises(InputError, match="votes must be a whole number from 1"):
        MajorityVote(Script(), votes)


def noisy(plane: Plane) -> Classifier:
    return Classifier(plane, PlanarSigmoid(plane, slope=0.5, floor=0.2), seed=4)


def questions() -> list[tuple[torch.Tensor, Ticket]]:
    """Three calls of a run on images 0 and 1."""
    images = [rows(0, 0, 1), rows(1), rows(0, 1, 1, 1)]
    return [(uniform(Key(9).child(i).roots(torch.arange(len(r))), 2), Ticket(r)) for i, r in enumerate(images)]


def run(oracle: Oracle) -> list[list[int]]:
    counted = Counted(oracle, Ledger(2), rows(30, 40))
    return [counted.ask(points, ticket).tolist() for points, ticket in questions()]


@pytest.fixture
def plane() -> Plane:
    return Plane(torch.tensor([1.0, -1.0]))


def test_a_record_holds_each_images_answers_in_order(plane: Any) -> None:
    recorded = Recorded(noisy(plane))
    seen = run(recorded)
    answers = {image: labels.tolist() for image, labels in recorded.answers().items()}
    assert answers == {30: [seen[0][0], seen[0][1], seen[2][0]], 40: [seen[0][2], seen[1][0], *seen[2][1:]]}


def test_a_record_changes_no_answer(plane: Any) -> None:
    assert run(Recorded(noisy(plane))) == run(noisy(plane))


def test_a_record_keeps_points_only_if_asked_to(plane: Any) -> None:
    without, with_points = Recorded(noisy(plane)), Recorded(noisy(plane), keep_points=True)
    run(without)
    run(with_points)
    assert without.calls() == []
    assert all(torch.equal(kept, asked) for kept, (asked, _) in zip(with_points.calls(), questions(), strict=True))


def test_kept_points_do_not_follow_later_changes() -> None:
    recorded, points = Recorded(Script(0), keep_points=True), torch.zeros(1, 1)
    recorded.ask(points, Ticket(rows(0), rows(0)))
    points += 1
    assert recorded.calls()[0].tolist() == [[0.0]]


def test_a_replay_of_a_full_record_asks_nothing(plane: Any) -> None:
    recorded = Recorded(noisy(plane))
    expected = run(recorded)
    assert run(Replay(recorded.answers())) == expected


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_replay_of_half_a_record_goes_on_where_it_ends(plane: Any, kept: int) -> None:
    recorded = Recorded(noisy(plane))
    expected = run(recorded)
    half = {image: labels[:kept] for image, labels in recorded.answers().items()}
    rest = Recorded(noisy(plane))
    assert run(Replay(half, then=rest)) == expected
    assert {image: len(labels) for image, labels in rest.answers().items()} == {30: 3 - kept, 40: 5 - kept}


def test_a_replay_knows_only_its_images(plane: Any) -> None:
    recorded = Recorded(noisy(plane))
    expected = run(recorded)
    one = {30: recorded.answers()[30]}
    rest = Recorded(noisy(plane))
    assert run(Replay(one, then=rest)) == expected
    assert list(rest.answers()) == [40]


def test_a_record_that_ends_early_is_an_error_without_an_oracle_to_go_on(plane: Any) -> None:
    with pytest.raises(InputError, match="pass `then=`"):
        run(Replay({30: rows(0)}))


def test_a_replay_above_the_ledger_is_an_error() -> None:
    with pytest.raises(InputError, match="below the ledger"):
        Replay({}).ask(torch.zeros(1, 1), Ticket(rows(0)))
