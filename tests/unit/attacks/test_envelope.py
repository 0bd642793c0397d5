from __future__ import annotations

import pytest
import torch

from popskipjump.attacks.directions.adaptive.dct import basis_of
from popskipjump.attacks.directions.adaptive.envelope import envelope, evenness, within_bounds
from popskipjump.rng import Key, normal, uniform
from popskipjump.types import Bounds

SHAPES = [(3, 32, 32), (28, 28), (100,)]


def change_at(shape: tuple[int, ...], place: int) -> torch.Tensor:
    """One changed value in one corner, and a small change everywhere."""
    change = torch.full((1, int(torch.tensor(shape).prod())), 0.01)
    change[0, place] = 1.0
    return change


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_envelope_has_mean_square_one_and_is_positive(shape: tuple[int, ...]) -> None:
    basis = basis_of(shape)
    spread = envelope(basis, normal(Key(1).roots(torch.arange(3)), basis.dimension) ** 3)
    assert torch.allclose((spread**2).mean(dim=1), torch.ones(3), atol=1e-5)
    assert float(spread.min()) > 0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_directions_are_strongest_near_what_has_changed_and_do_not_vanish_elsewhere(shape: tuple[int, ...]) -> None:
    spread = envelope(basis_of(shape), change_at(shape, 0))[0]
    assert float(spread[0]) == float(spread.max())
    assert float(spread[0]) > 1.2 * float(spread[-1])
    assert float(spread[-1]) > 0.1


def test_an_even_change_has_an_even_envelope() -> None:
    spread = envelope(basis_of((28, 28)), torch.full((1, 784), 0.3))
    assert torch.allclose(spread, torch.ones_like(spread), atol=1e-4)
    assert float(evenness(spread)) == pytest.approx(1.0, abs=1e-4)


def test_all_channels_of_a_place_share_its_envelope() -> None:
    spread = envelope(basis_of((3, 32, 32)), change_at((3, 32, 32), 5)).reshape(3, -1)
    assert torch.equal(spread[0], spread[1])
    assert torch.equal(spread[0], spread[2])


def test_no_change_at_all_gives_an_even_envelope() -> None:
    assert torch.allclose(envelope(basis_of((28, 28)), torch.zeros(1, 784)), torch.ones(1, 784), atol=1e-5)


def test_inputs_without_a_neighbourhood_have_an_even_envelope() -> None:
    assert torch.equal(envelope(basis_of((5,)), uniform(Key(3).roots(torch.arange(2)), 5)), torch.ones(2, 5))


def test_half_of_the_input_has_an_evenness_of_one_half() -> None:
    spread = torch.tensor([[2.0**0.5] * 4 + [0.0] * 4])
    assert float(evenness(spread)) == pytest.approx(0.5)


def test_an_envelope_does_not_depend_on_its_company() -> None:
    basis = basis_of((28, 28))
    changes = normal(Key(2).roots(torch.arange(5)), 784)
    together = envelope(basis, changes)
    for row in range(5):
        assert torch.equal(envelope(basis, changes[row : row + 1])[0], together[row])


@pytest.mark.parametrize("centre", [0.0, 0.05, 0.5, 0.98])
@pytest.mark.parametrize("deviation", [0.01, 0.2, 2.0])
def test_the_deviation_within_the_bounds_is_that_of_clipped_numbers(centre: float, deviation: float) -> None:
    drawn = centre + deviation * normal(Key(4).roots(torch.arange(400)), 1000).double()
    expected = float(drawn.clamp(0, 1).std()) / deviation
    got = within_bounds(torch.tensor([[centre]]), torch.tensor([[deviation]]), Bounds(0.0, 1.0))
    assert float(got) == pytest.approx(expected, rel=0.01, abs=1e-4)


def test_a_value_far_beyond_a_bound_keeps_a_deviation_to_divide_by() -> None:
    got = within_bounds(torch.tensor([[-5.0]]), torch.tensor([[0.01]]), Bounds(0.0, 1.0))
    assert 0 < float(got) < 0.05
