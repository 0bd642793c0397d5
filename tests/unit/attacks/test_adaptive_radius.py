from __future__ import annotations

import pytest
import torch
from attack_toys import problem_of, unit

from popskipjump.attacks.directions.adaptive.radius import AdaptiveRadius, gradualness
from popskipjump.errors import InputError
from popskipjump.oracles import Plane

D = 100
WIDE = (-1e6, 1e6)  # bounds that clip nothing


def radius(
    rule: AdaptiveRadius,
    width: float = 0.0,
    scale: float = 1.0,
    dimensions: float = 25.0,
    distance: float = 1.0,
    bounds: tuple[float, float] = WIDE,
) -> float:
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(1, D), bounds=bounds)
    values = (torch.tensor([value], dtype=torch.float64) for value in (width, scale, dimensions, distance))
    return float(rule(problem, *values))


def test_without_noise_directions_have_their_own_length() -> None:
    assert radius(AdaptiveRadius(radius=0.25)) == pytest.approx(0.25)


@pytest.mark.parametrize("scale", [1.0, 0.4, 0.01])
def test_directions_that_were_too_long_are_scaled_down(scale: float) -> None:
    assert radius(AdaptiveRadius(radius=0.25), scale=scale) == pytest.approx(0.25 * scale)


def test_a_direction_spans_some_widths_of_the_transition_along_the_normal() -> None:
    """The part of a direction along the normal is its length over the square root of the dimensions."""
    rule = AdaptiveRadius(radius=1e-9, widths=2.0, reach=100.0)
    assert radius(rule, width=0.1, dimensions=25.0) == pytest.approx(5 * 2 * 0.1)


def test_its_own_length_and_that_of_the_transition_add_up_as_squares() -> None:
    assert radius(AdaptiveRadius(radius=0.3, widths=2.0), width=0.04, dimensions=25.0) == pytest.approx(0.5)


def test_under_noise_directions_are_no_longer_than_their_reach() -> None:
    assert radius(AdaptiveRadius(reach=1.8, broad=0.0), width=0.5, dimensions=100.0) == pytest.approx(1.8)


@pytest.mark.parametrize(("width", "length"), [(0.2, 1.8), (0.5, 3.0), (1.0, 6.0)])
def test_where_the_transition_is_wide_the_limit_is_some_of_its_widths(width: float, length: float) -> None:
    assert radius(AdaptiveRadius(reach=1.8, broad=6.0), width=width, dimensions=1e4) == pytest.approx(length)


def test_no_direction_is_so_long_that_most_of_its_values_are_clipped() -> None:
    """A root mean square of a quarter of the range of the bounds."""
    rule = AdaptiveRadius(reach=0.1, radius=0.1)
    assert radius(rule, width=1.0, dimensions=1e4, distance=2.0, bounds=(0.0, 1.0)) == pytest.approx(0.25 * 10 / 2)


@pytest.mark.parametrize(("width", "gradual"), [(0.0, 0.0), (0.03, 0.5), (0.27, 0.9)])
def test_a_border_is_the_more_gradual_the_wider_its_transition(width: float, gradual: float) -> None:
    assert float(gradualness(torch.tensor(width))) == pytest.approx(gradual)


@pytest.mark.parametrize("wrong", [{"radius": 0.0}, {"reach": -1.0}, {"widths": -1.0}, {"broad": -1.0}])
def test_a_radius_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        AdaptiveRadius(**wrong)
