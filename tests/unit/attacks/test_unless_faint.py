from __future__ import annotations

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint, is_faint
from popskipjump.attacks.protocols import Move
from popskipjump.errors import InputError
from popskipjump.oracles import Plane
from popskipjump.sigmoid import Estimate


def border(slope: float = 30.0, floor: float = 0.0, settled: bool = False) -> tuple[Problem, Border]:
    """A border in the middle of its line, as a search estimated it."""
    problem = problem_of(Plane(unit(3), 0.5), torch.zeros(1, 3))
    values = (0.5, torch.tensor(slope).log10(), floor, floor)
    estimate = Estimate(*(torch.as_tensor(value, dtype=torch.float64).reshape(1) for value in values))
    outer = unit(3).unsqueeze(0)
    return problem, border_of(problem, outer, 0.5, estimate=estimate, settled=torch.tensor([settled]))


@pytest.mark.parametrize(
    ("slope", "floor", "settled", "faint"),
    [
        (30.0, 0.0, False, False),
        (30.0, 0.4, False, True),  # 1 - 0.8 is left of the contrast
        (30.0, 0.37, False, False),  # and here 0.26
        (0.2, 0.0, False, True),  # sigmoid(0.4) - sigmoid(-0.4) = 0.20
        (0.3, 0.0, False, False),  # and here 0.29
        (30.0, 0.4, True, False),
    ],
)
def test_a_line_is_faint_if_an_unsettled_search_saw_less_than_a_quarter_of_the_contrast(
    slope: float, floor: float, settled: bool, faint: bool
) -> None:
    assert is_faint(border(slope, floor, settled)[1]).tolist() == [faint]


def test_a_search_without_a_model_of_the_noise_is_never_faint() -> None:
    _, found = border(floor=0.4)
    assert is_faint(found._replace(estimate=None)).tolist() == [False]


def decisions(lines: list[bool], patience: int = 3) -> list[tuple[bool, ...]]:
    """(take, remeasure, give up) after each of some lines; True is a faint one."""
    rule, told = UnlessFaint(patience), []
    state = rule.begin(1)
    for faint in lines:
        problem, found = border(floor=0.4 if faint else 0.0)
        move = Move(found.outer, torch.tensor([0.3], dtype=torch.float64))
        decision, state = rule(problem, found, found, move, state)
        told.append(tuple(bool(flag) for flag in decision))
    return told


def test_every_border_is_taken_but_a_faint_one() -> None:
    assert decisions([False, True, False]) == [(True, False, False), (False, False, False), (True, False, False)]


def test_a_first_line_that_is_faint_ends_the_image() -> None:
    assert decisions([True]) == [(False, False, True)]


def test_some_faint_lines_in_a_row_end_the_image_and_a_border_between_them_does_not() -> None:
    assert [end for *_, end in decisions([False, True, True, True])] == [False, False, False, True]
    assert [end for *_, end in decisions([False, True, True, False, True, True])] == [False] * 6


def test_a_patience_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="patience"):
        UnlessFaint(0)
