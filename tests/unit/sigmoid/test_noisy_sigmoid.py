from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from popskipjump.errors import InputError
from popskipjump.sigmoid import Grid, entropy, noisy_sigmoid, shared_grid


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("slope", [0.3, 1.0, 40.0])
def test_the_sigmoid_rises_with_the_given_slope_at_its_centre(slope: float) -> None:
    h = 1e-4 / slope
    low, high = (noisy_sigmoid(number(0.4 + x), number(0.4), number(slope)) for x in (-h, h))
    assert float(high - low) / (2 * h) == pytest.approx(slope, rel=1e-6)


def test_the_floors_take_their_part_of_the_slope() -> None:
    h = 1e-4
    low, high = (noisy_sigmoid(number(x), number(0.0), number(2.0), 0.1, 0.3) for x in (-h, h))
    assert float(high - low) / (2 * h) == pytest.approx(2 * (1 - 0.1 - 0.3), rel=1e-6)


def test_the_probability_of_the_original_class_runs_from_the_low_floor_to_the_high_one() -> None:
    far = noisy_sigmoid(torch.tensor([-1e3, 1e3], dtype=torch.float64), number(0.5), number(1.0), 0.1, 0.3)
    assert far.tolist() == pytest.approx([0.1, 0.7])


def test_the_centre_is_halfway_between_the_floors() -> None:
    assert float(noisy_sigmoid(number(0.2), number(0.2), number(5.0), 0.1, 0.3)) == pytest.approx((0.1 + 0.7) / 2)


def test_a_step_is_the_limit_of_a_steep_sigmoid() -> None:
    assert noisy_sigmoid(torch.tensor([0.49, 0.51]), torch.tensor(0.5), torch.tensor(math.inf)).tolist() == [0.0, 1.0]


def test_the_entropy_of_a_fair_coin_is_one_bit() -> None:
    assert float(entropy(number(0.5))) == pytest.approx(math.log(2))


def test_the_entropy_is_the_expected_surprise() -> None:
    p = number(0.2)
    assert float(entropy(p)) == pytest.approx(-0.2 * math.log(0.2) - 0.8 * math.log(0.8))


def test_a_lag_row_belongs_to_a_pair_of_centres() -> None:
    grid = Grid(positions=11, slopes=3)
    for place in (0, 4, 10):
        rows = grid.lag[grid.positions - 1 - place : 2 * grid.positions - 1 - place]
        torch.testing.assert_close(rows, grid.position[place] - grid.position)


def test_questions_lie_half_way_between_centres() -> None:
    grid = Grid(positions=5)
    assert grid.position.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert grid.askable.tolist() == [0.125, 0.375, 0.625, 0.875]


def test_a_channel_is_a_pair_of_slope_and_floors() -> None:
    grid = Grid(positions=3, slopes=2, slope_range=(0.0, 1.0), floors=((0.0, 0.0), (0.1, 0.2)))
    channels = [(s, *f) for s, f in zip(grid.log_slope.tolist(), grid.floor.tolist(), strict=True)]
    assert channels == [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.1, 0.2), (1.0, 0.1, 0.2)]


def test_the_table_holds_the_sigmoid_of_every_question_centre_and_channel() -> None:
    grid = Grid(positions=7, slopes=2, slope_range=(0.0, 1.0), floors=((0.05, 0.2),))
    for place, x in enumerate(grid.askable.tolist()):
        seen = grid.exact[grid.seen_from(place)]
        assert seen.shape == (7, 2)
        for centre in range(7):
            for channel, slope in enumerate((1.0, 10.0)):
                expected = 0.05 + 0.75 / (1 + math.exp(-4 * slope * (x - centre / 6)))
                assert float(seen[centre, channel]) == pytest.approx(expected, rel=1e-9)


def test_no_answer_is_impossible() -> None:
    grid = Grid(floors=((0.0, 0.0),))
    for table in grid.likelihood:
        assert float(table.min()) > 0
        assert float(table.max()) < 1


def test_the_two_likelihoods_add_up_to_one() -> None:
    no, yes = Grid().likelihood
    torch.testing.assert_close(no + yes, torch.ones_like(no))


def test_equal_grids_share_their_tables() -> None:
    first, second = Grid(positions=21), Grid(positions=21)
    assert first is not second
    assert shared_grid(first) is shared_grid(second)


@pytest.mark.parametrize(
    "arguments",
    [
        {"positions": 2},
        {"slopes": 0},
        {"floors": ()},
        {"floors": ((-0.1, 0.0),)},
        {"floors": ((0.0, -0.1),)},
        {"floors": ((0.5, 0.5),)},
    ],
)
def test_a_grid_without_meaning_is_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Grid(**arguments)


FOUR_SLOPES = Grid(5, 4, (0.0, 3.0), ((0.0, 0.0), (0.1, 0.1)))  # 1, 10, 100, 1000


def believed(*values: float) -> torch.Tensor:
    """A belief in the four slopes, shared by two pairs of floors."""
    half = torch.tensor(values, dtype=torch.float64) / 2
    return torch.cat((half, half)).unsqueeze(0)


@pytest.mark.parametrize(
    ("factor", "before", "after"),
    [
        (1.0, (0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.3, 0.4)),
        (10.0, (0.1, 0.2, 0.3, 0.4), (0.0, 0.1, 0.2, 0.7)),  # steeper; nothing is steeper than the steepest
        (0.1, (0.1, 0.2, 0.3, 0.4), (0.3, 0.3, 0.0, 0.4)),  # and what is so steep stays so on any line
        (10**0.5, (0.0, 1.0, 0.0, 0.0), (0.0, 0.5, 0.5, 0.0)),  # between two slopes
        (0.0, (0.0, 0.5, 0.5, 0.0), (1.0, 0.0, 0.0, 0.0)),
    ],
)
def test_on_a_longer_line_the_same_transition_is_steeper(
    factor: float, before: tuple[float, float, float, float], after: tuple[float, float, float, float]
) -> None:
    moved = FOUR_SLOPES.stretched(believed(*before), torch.tensor([factor], dtype=torch.float64))
    assert torch.allclose(moved, believed(*after))


def test_a_single_slope_is_that_of_all_lines() -> None:
    belief = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    grid = Grid(5, 1, (0.0, 3.0), ((0.0, 0.0), (0.1, 0.1)))
    assert torch.equal(grid.stretched(belief, torch.tensor([7.0], dtype=torch.float64)), belief)
