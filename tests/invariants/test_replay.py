"""A run can be repeated, and gone on with, from the answers that were recorded."""

from __future__ import annotations

import pytest
import torch
from invariant_toys import ATTACKS, Linear, Watch, parts, setting
from torch import Tensor

from popskipjump import Classifier, OracleError, Recorded, Replay, Ticket, evaluate
from popskipjump.evaluation import Report
from popskipjump.noise import Flip
from popskipjump.oracles import Oracle

WITHOUT_A_GRADIENT = [name for name in ATTACKS if name != "psj-true-gradient"]
every_attack = pytest.mark.parametrize("attack", WITHOUT_A_GRADIENT)


class Silent:
    """An oracle that must not be asked."""

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        raise AssertionError("a replay asked the oracle")


def oracle() -> Classifier:
    return Classifier(Linear(), Flip(0.1), seed=4)


def recorded(attack: str, votes: int = 1) -> tuple[Report, dict[int, Tensor]]:
    _, data, options = setting()
    record = Recorded(oracle())
    report = evaluate(record, *data, ATTACKS[attack], votes=votes, **options)
    return report, record.answers()


def replayed(attack: str, answers: dict[int, Tensor], then: Oracle | None = None, votes: int = 1) -> Report:
    _, data, options = setting()
    return evaluate(Replay(answers, then), *data, ATTACKS[attack], votes=votes, **options)


@every_attack
def test_a_replay_gives_the_same_report_without_asking(attack: str) -> None:
    report, answers = recorded(attack)
    assert parts(replayed(attack, answers, then=Silent())) == parts(report)


def test_a_replay_of_votes_gives_the_same_report() -> None:
    report, answers = recorded("hsj", votes=3)
    assert parts(replayed("hsj", answers, then=Silent(), votes=3)) == parts(report)


def test_a_record_holds_as_many_answers_as_were_counted() -> None:
    report, answers = recorded("psj")
    assert [len(answers[image]) for image in range(3)] == report.queries.tolist()


@every_attack
def test_a_replay_that_ends_early_goes_on_with_another_oracle(attack: str) -> None:
    report, answers = recorded(attack)
    kept = {0: answers[0][:40], 1: answers[1][:1], 2: answers[2]}
    rest = Watch(oracle())
    assert parts(replayed(attack, kept, then=rest)) == parts(report)
    assert rest.count == {0: report.queries[0] - 40, 1: report.queries[1] - 1}


def test_a_replay_that_ends_early_with_nothing_to_go_on_with_says_so() -> None:
    _, answers = recorded("psj")
    with pytest.raises(OracleError, match="pass `then=`"):
        replayed("psj", {image: labels[:30] for image, labels in answers.items()})


def test_a_replay_of_other_answers_is_another_run() -> None:
    report, answers = recorded("psj")
    turned = {image: torch.where(torch.arange(len(labels)) == 30, (labels + 1) % 3, labels)
              for image, labels in answers.items()}  # fmt: skip
    assert parts(replayed("psj", turned, then=oracle())) != parts(report)
