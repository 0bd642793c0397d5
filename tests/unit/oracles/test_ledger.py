from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from present import present
from torch import Tensor

from popskipjump.errors import BudgetError, InputError
from popskipjump.oracles import UNLIMITED, Classifier, Counted, FunctionModel, Ledger, MajorityVote, Ticket


def rows(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


class Spy:
    """Answers 0 and remembers what it was asked."""

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.tickets.append(ticket)
        return torch.zeros(len(points), dtype=torch.int64)


def test_every_query_is_counted_for_its_image() -> None:
    ledger = Ledger(3)
    ledger.charge(rows(0, 0, 2))
    ledger.charge(rows(2))
    assert ledger.total.tolist() == [2, 0, 2]


def test_serial_numbers_continue_for_each_image() -> None:
    ledger = Ledger(3)
    assert present(ledger.charge(rows(0, 0, 2))).tolist() == [0, 1, 0]
    assert present(ledger.charge(rows(0))).tolist() == [2]
    assert present(ledger.charge(rows(0, 1, 1, 2))).tolist() == [3, 0, 1, 1]


def test_no_query_costs_nothing() -> None:
    ledger = Ledger(2)
    assert present(ledger.charge(rows())).tolist() == []
    assert ledger.total.tolist() == [0, 0]


def test_phases_add_up_to_the_total() -> None:
    ledger = Ledger(2)
    for phase, who in (("search", (0, 1)), ("gradient", (1, 1)), ("search", (0,)), ("other", (1,))):
        ledger.phase = phase
        ledger.charge(rows(*who))
    assert {phase: count.tolist() for phase, count in ledger.by_phase.items()} == {
        "search": [2, 1],
        "gradient": [0, 2],
        "other": [0, 1],
    }
    assert torch.equal(torch.stack(list(ledger.by_phase.values())).sum(dim=0), ledger.total)


@pytest.mark.parametrize("first", [1, 4, 5])
def test_the_query_over_the_budget_is_refused_and_not_counted(first: int) -> None:
    ledger = Ledger(2, budget=5)
    ledger.charge(rows(*[0] * first))
    with pytest.raises(BudgetError, match="phase 'other' would exceed the budget; nothing was asked"):
        ledger.charge(rows(*[0] * (6 - first), 1))
    assert ledger.total.tolist() == [first, 0]


def test_a_single_query_over_the_budget_is_refused() -> None:
    ledger = Ledger(1, budget=1)
    ledger.charge(rows(0))
    with pytest.raises(BudgetError):
        ledger.charge(rows(0))


def test_the_budget_can_be_spent_to_the_last_query() -> None:
    ledger = Ledger(2, budget=5)
    ledger.charge(rows(0, 0, 0, 0, 0, 1))
    assert ledger.remaining(rows(0, 1)).tolist() == [0, 4]


def test_each_image_may_have_its_own_budget() -> None:
    ledger = Ledger(2, budget=rows(1, 3))
    ledger.charge(rows(0, 1, 1, 1))
    assert ledger.remaining(rows(1, 0)).tolist() == [0, 0]


def test_reserved_queries_do_not_count_as_remaining_but_can_be_asked() -> None:
    ledger = Ledger(1, budget=3)
    ledger.reserved = 2
    assert ledger.remaining(rows(0)).tolist() == [1]
    ledger.charge(rows(0, 0, 0))
    assert ledger.remaining(rows(0)).tolist() == [0]


def test_without_a_budget_the_rest_is_unlimited() -> None:
    assert Ledger(1).remaining(rows(0)).tolist() == [UNLIMITED]


@pytest.mark.parametrize("budget", [2.5, True, float("inf"), float("nan"), "many", "5"])
def test_a_budget_that_is_no_whole_number_is_an_error(budget: Any) -> None:
    with pytest.raises(InputError, match="whole number of queries"):
        Ledger(2, budget)


@pytest.mark.parametrize("budget", [0, -3, rows(3, 0)])
def test_a_budget_below_one_is_an_error(budget: Any) -> None:
    with pytest.raises(InputError, match="at least 1 query"):
        Ledger(2, budget)


def test_budgets_for_another_number_of_images_are_an_error() -> None:
    with pytest.raises(InputError, match=r"shape \(3,\); it must be one number, or 2 of them"):
        Ledger(2, rows(1, 2, 3))


def test_a_whole_float_or_numpy_budget_is_accepted() -> None:
    budgets: list[Any] = [1000.0, np.int64(1000)]
    for budget in budgets:
        assert Ledger(1, budget).remaining(rows(0)).tolist() == [1000]


def test_the_count_equals_what_the_oracle_saw() -> None:
    spy = Spy()
    ledger = Ledger(2)
    oracle = Counted(spy, ledger, rows(70, 80))
    oracle.ask(torch.zeros(3, 1), Ticket(rows(0, 0, 1)))
    oracle.ask(torch.zeros(2, 1), Ticket(rows(1, 1)))
    seen = torch.cat([ticket.image for ticket in spy.tickets])
    assert ledger.total.tolist() == [int((seen == 70).sum()), int((seen == 80).sum())]


def test_below_the_ledger_tickets_carry_ids_and_serial_numbers() -> None:
    spy = Spy()
    oracle = Counted(spy, Ledger(2), rows(70, 80))
    oracle.ask(torch.zeros(3, 1), Ticket(rows(0, 1, 1)))
    assert spy.tickets[0].image.tolist() == [70, 80, 80]
    assert present(spy.tickets[0].serial).tolist() == [0, 0, 1]


def test_a_refused_query_does_not_reach_the_oracle() -> None:
    spy = Spy()
    oracle = Counted(spy, Ledger(1, budget=1), rows(0))
    with pytest.raises(BudgetError):
        oracle.ask(torch.zeros(2, 1), Ticket(rows(0, 0)))
    assert spy.tickets == []


def test_every_vote_is_counted() -> None:
    ledger = Ledger(2)
    model = FunctionModel(lambda x: np.zeros(len(x), int))
    MajorityVote(Counted(Classifier(model), ledger, rows(0, 1)), 3).ask(torch.zeros(2, 1), Ticket(rows(0, 1)))
    assert ledger.total.tolist() == [3, 3]
