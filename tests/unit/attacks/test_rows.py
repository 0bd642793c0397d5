from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from popskipjump.attacks.rows import replace_rows, select_rows


class Inner(NamedTuple):
    flags: Tensor  # (A,)


class State(NamedTuple):
    table: Tensor  # (A, 2)
    inner: Inner
    nothing: Tensor | None


def state_of(*numbers: float, nothing: Tensor | None = None) -> State:
    values = torch.tensor(numbers)
    return State(torch.stack((values, -values), dim=1), Inner(values > 2), nothing)


@pytest.mark.parametrize("chosen", [torch.tensor([0, 2]), torch.tensor([True, False, True])], ids=["index", "mask"])
def test_some_images_are_chosen_with_all_that_is_known_of_them(chosen: Tensor) -> None:
    found = select_rows(state_of(1.0, 2.0, 3.0), chosen)
    assert found.table.tolist() == [[1.0, -1.0], [3.0, -3.0]]
    assert found.inner.flags.tolist() == [False, True]
    assert found.nothing is None


def test_images_are_replaced_with_all_that_is_known_of_them_and_the_old_state_stays_as_it_was() -> None:
    before = state_of(1.0, 2.0, 3.0)
    after = replace_rows(before, torch.tensor([2, 0]), state_of(7.0, 8.0))
    assert after.table[:, 0].tolist() == [8.0, 2.0, 7.0]
    assert after.inner.flags.tolist() == [True, False, True]
    assert before.table[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_a_field_that_either_side_lacks_stays_as_it_is() -> None:
    known = torch.arange(3)
    assert replace_rows(state_of(1.0, 2.0, 3.0), torch.tensor([0]), state_of(1.0, nothing=known[:1])).nothing is None
    kept = replace_rows(state_of(1.0, 2.0, 3.0, nothing=known), torch.tensor([0]), state_of(1.0)).nothing
    assert kept is known


def test_a_part_without_a_state_stays_without_one() -> None:
    assert select_rows((), torch.tensor([0])) == ()
    assert replace_rows((), torch.tensor([0]), ()) == ()
