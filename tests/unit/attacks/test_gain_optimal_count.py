from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks.directions.adaptive.count import GainOptimalCount
from popskipjump.errors import InputError
from popskipjump.oracles import Plane

PLAIN: dict[str, Any] = {"factor": 1.0, "doubling": 1_000_000, "fewest": 1, "most": 1_000_000}


def counted(
    rule: GainOptimalCount,
    *,
    iteration: int = 2,
    searched: int = 50,
    dimensions: float = 200.0,
    strength: float = 0.5,
    width: float = 0.0,
    norm: str = "l2",
    budget: int | None = None,
) -> int:
    problem = problem_of(Plane(unit(3), 0.5), torch.zeros(1, 3), norm=norm, budget=budget)
    across, effective, gain = (torch.tensor([v], dtype=torch.float64) for v in (width, dimensions, strength))
    border = border_of(problem, unit(3).unsqueeze(0), 0.5, searched=torch.tensor([searched]), width=across)
    return int(rule(problem, border, effective, gain, iteration))


@pytest.mark.parametrize(("dimensions", "searched", "strength"), [(200, 50, 0.5), (50, 50, 0.5), (200, 98, 0.1)])
def test_the_number_is_the_one_that_gains_most_per_query(dimensions: int, searched: int, strength: float) -> None:
    """sqrt(K m / k): the largest gain per query, n k / (K + n k) over n + m."""
    count = counted(GainOptimalCount(**PLAIN), dimensions=dimensions, searched=searched, strength=strength)
    assert count == pytest.approx(math.sqrt(dimensions * searched / strength), abs=1)

    def gain(n: float) -> float:
        return n * strength / (dimensions + n * strength) / (n + searched)

    assert gain(count) > max(gain(0.8 * count), gain(1.25 * count))


@pytest.mark.parametrize(
    ("iteration", "searched", "reckoned"), [(1, 100, 12), (2, 100, 100), (2, 5, 8), (2, 900, 200), (1, 9, 9)]
)
def test_a_search_counts_within_limits_and_the_first_one_as_short(iteration: int, searched: int, reckoned: int) -> None:
    count = counted(GainOptimalCount(**PLAIN), iteration=iteration, searched=searched, dimensions=2e4, strength=0.5)
    assert count == pytest.approx(math.sqrt(2e4 * reckoned / 0.5), abs=1)


def test_the_number_grows_linearly_and_has_doubled_after_some_iterations() -> None:
    rule = GainOptimalCount(**(PLAIN | {"doubling": 30}))
    once = counted(GainOptimalCount(**PLAIN))
    for iteration in (15, 30, 60):
        assert counted(rule, iteration=iteration) == pytest.approx(once * (1 + iteration / 30), rel=0.01)


@pytest.mark.parametrize(("iteration", "faster"), [(8, 1 + 8 / 40), (40, 1 + (40 + 5 * 32) / 40)])
def test_on_a_gradual_border_late_iterations_ask_in_still_more_directions(iteration: int, faster: float) -> None:
    rule = GainOptimalCount(**(PLAIN | {"doubling": 40, "gradual_growth": 5.0}))
    count = counted(rule, iteration=iteration, width=1e6, searched=50)  # nothing but gradual
    assert count == pytest.approx(faster * counted(GainOptimalCount(**PLAIN)), rel=0.01)


def test_a_factor_multiplies_the_number() -> None:
    assert counted(GainOptimalCount(**(PLAIN | {"factor": 3.0}))) == pytest.approx(
        3 * counted(GainOptimalCount(**PLAIN)), abs=3
    )


def test_where_every_value_counts_there_are_four_times_as_many_directions() -> None:
    # Late enough that the cap of the first iterations, 40 sqrt(t) (2 / pi) / k, is above it.
    assert counted(GainOptimalCount(**PLAIN), norm="linf", iteration=900) == pytest.approx(
        4 * counted(GainOptimalCount(**PLAIN), iteration=900), abs=4
    )


@pytest.mark.parametrize("iteration", [16, 36])
def test_where_every_value_counts_early_iterations_are_capped(iteration: int) -> None:
    count = counted(GainOptimalCount(**PLAIN), norm="linf", iteration=iteration, dimensions=200, strength=0.5)
    assert count == pytest.approx(40 * math.sqrt(iteration) * (2 / math.pi) / 0.5, abs=1)


def test_the_cap_never_leaves_fewer_directions_than_another_norm_has() -> None:
    assert counted(GainOptimalCount(**PLAIN), norm="linf", iteration=1, searched=12, dimensions=1e5) == counted(
        GainOptimalCount(**PLAIN), iteration=1, searched=12, dimensions=1e5
    )


@pytest.mark.parametrize(("dimensions", "count"), [(1e-6, 20), (1e12, 3000)])
def test_the_number_keeps_within_its_limits(dimensions: float, count: int) -> None:
    assert counted(GainOptimalCount(fewest=20, most=3000), dimensions=dimensions) == count


def test_the_budget_of_the_next_search_is_left() -> None:
    assert counted(GainOptimalCount(), searched=50, budget=60) == 10


@pytest.mark.parametrize(
    "wrong",
    [{"factor": 0.0}, {"doubling": 0}, {"gradual_growth": -1.0}, {"fewest": 10, "most": 5}, {"fewest": 0}],
)
def test_a_number_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        GainOptimalCount(**wrong)
