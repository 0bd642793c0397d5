from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from attack_toys import Seen, found_by, problem_of, unit
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.protocols import Window
from popskipjump.attacks.searches.warm import NoisePrior, WarmStartedSearch
from popskipjump.errors import InputError
from popskipjump.noise import Flip
from popskipjump.oracles import NoiseModel, PlanarSigmoid, Plane

COUNT = 60
ROWS = torch.arange(COUNT)
HEIGHTS = torch.linspace(0.15, 0.85, COUNT)
PLANE = Plane(unit(3), 0.0)


def setting(noise: NoiseModel | None = None, norm: str = "l2", **options: Any) -> tuple[Problem, Tensor, Tensor]:
    """Originals at known distances from a plane, and the ends of lines of length 1 across it."""
    original = torch.zeros(COUNT, 3)
    original[:, 0] = -HEIGHTS
    problem = problem_of(PLANE, original, noise=noise, bounds=(-3.0, 3.0), norm=norm, **options)
    return problem, original, original + unit(3)


def window_of(low: float, high: float, tolerance: float = 0.01) -> Window:
    """Distances from `low` to `high`, in units of the distance that is expected; the line ends at `high`."""
    span = torch.full((COUNT,), 1 - low / high, dtype=torch.float64)
    return Window(span, (1 - 1 / high) / span, torch.full_like(span, tolerance))


class Second(NamedTuple):
    """What a second search found, and learned, and asked."""

    border: Border
    state: NoisePrior
    asked: torch.Tensor


def carried(
    noise: NoiseModel | None = None,
    wrong: float = 1.0,
    low: float = 0.9,
    high: float = 1.1,
    tolerance: float = 0.01,
    search: Any = None,
) -> Second:
    """A first search, and a second one in a window around `wrong` times the true distances."""
    problem, original, outer = setting(noise)
    search = WarmStartedSearch() if search is None else search
    first, state = search(problem, ROWS, outer, None, 0, None, search.begin(COUNT))
    before = problem.ledger.total.clone()
    outer = original + (high * wrong * HEIGHTS).unsqueeze(1) * unit(3)
    second, state = search(problem, ROWS, outer, window_of(low, high, tolerance), 1, first, state)
    return Second(second, state, problem.ledger.total - before)


@pytest.mark.parametrize(("tolerance", "most"), [(0.01, 30), (0.04, 20)])
def test_the_first_search_finds_a_sharp_border_as_closely_as_it_is_told(tolerance: float, most: int) -> None:
    problem, _, outer = setting()
    border = found_by(WarmStartedSearch(tolerance=tolerance), problem, outer)
    assert bool(border.settled.all())
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 3 * tolerance  # the deviation it stops at
    assert float(problem.ledger.total.double().mean()) < most


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("size", [1e-3, 1e-4, 1e-5])
def test_a_border_far_nearer_than_the_grid_of_the_line_is_found(size: float, norm: str) -> None:
    original = size * setting()[1]
    problem = problem_of(PLANE, original, bounds=(-3.0, 3.0), norm=norm)
    border = found_by(WarmStartedSearch(), problem, original + unit(3))
    safe = problem.norm.blend(border.outer, original, border.safe.float())
    assert bool(problem.decide(safe, ROWS, "test").all())
    ratio = border.distance / (size * HEIGHTS)
    assert float(ratio.min()) > 0.8
    assert float(ratio.max()) < 2.2  # a step of the grid: the next search is finer
    assert bool(border.seen.all())


def test_a_line_that_is_adversarial_to_its_end_has_its_border_where_the_last_answer_was() -> None:
    adversarial = 0.1 * unit(3).repeat(COUNT, 1)
    problem = problem_of(PLANE, adversarial, bounds=(-3.0, 3.0))
    border = found_by(WarmStartedSearch(), problem, 10 * adversarial)
    assert float(border.distance.min()) > 0


def test_a_warm_started_search_of_a_sharp_border_needs_ten_queries_at_most() -> None:
    border, _, asked = carried()
    assert int(asked.max()) <= 10
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 0.01


def test_a_warm_started_search_under_flips_stays_cheap_and_right() -> None:
    border, _, asked = carried(Flip(0.1))
    wrong = ((border.distance - HEIGHTS) / HEIGHTS).abs()
    assert float(asked.double().mean()) < 15
    assert float(wrong.mean()) < 0.01  # where it stops
    assert float(wrong.max()) < 0.05  # of sixty, none beyond five deviations
    assert bool(border.seen.all())


@pytest.mark.parametrize("slope", [5.0, 20.0])
def test_on_a_gradual_border_the_error_stays_within_the_width_of_the_transition(slope: float) -> None:
    border, _, _ = carried(PlanarSigmoid(PLANE, slope, 0.02))
    width = 1 / (4 * slope)
    wrong = (border.distance - HEIGHTS).abs()
    assert float(wrong.mean()) < width / 2
    assert float((wrong < 2 * width).double().mean()) > 0.95


def test_the_width_tells_a_gradual_border_from_a_sharp_one() -> None:
    sharp, gradual = (carried(noise).border.width for noise in (None, PlanarSigmoid(PLANE, 5.0)))
    assert float(gradual.median()) > 2 * float(sharp.median())
    assert float((gradual * HEIGHTS).median()) < 2 * 0.05  # 1 / (4 slope): no wider than it is


def test_a_gradual_border_takes_more_queries_than_a_sharp_one() -> None:
    window: dict[str, Any] = {"low": 0.5, "high": 1.5}
    assert carried(PlanarSigmoid(PLANE, 5.0), **window).asked.sum() > 2 * carried(**window).asked.sum()


every_window = pytest.mark.parametrize(
    ("low", "high"),
    [(0.7, 1.5), (0.9, 1.1)],
    ids=["wide", "narrow"],
)


@every_window
@pytest.mark.parametrize("noise", [None, Flip(0.1)], ids=["clean", "flips"])
def test_a_border_beyond_the_line_is_not_seen(noise: NoiseModel | None, low: float, high: float) -> None:
    border = carried(noise, 0.6, low, high).border  # nothing on the line is adversarial
    assert float(border.seen.double().mean()) < (0.1 if noise is None else 0.2)


@every_window
def test_a_border_nearer_than_the_window_is_searched_for_on_the_rest_of_the_line(low: float, high: float) -> None:
    border, _, asked = carried(None, 1.6, low, high)  # all of the window is adversarial
    assert bool(border.seen.all())
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 0.03
    assert int(asked.max()) < 40


def test_the_safe_position_is_on_the_adversarial_side_of_the_point() -> None:
    border, _, _ = carried(Flip(0.1))
    assert bool((border.safe <= border.position).all())
    outer = border.outer[:, 0].double()
    height = outer - border.safe * border.gap
    # One in twenty may lie on the other side; of sixty, more than nine do so with a probability below 0.2%.
    assert int((height < 0).sum()) <= 9


def test_the_belief_in_the_noise_is_carried_over() -> None:
    quiet, noisy = carried(), carried(Flip(0.1))
    assert float(quiet.border.lost.mean()) < float(noisy.border.lost.mean())
    for known in quiet.state, noisy.state:
        assert bool(known.known.all())
        torch.testing.assert_close(known.channel.sum(dim=1), torch.ones(COUNT, dtype=torch.float64))
    assert not torch.equal(quiet.state.channel, noisy.state.channel)


def test_a_search_keeps_to_its_limit() -> None:
    problem, _, outer = setting(PlanarSigmoid(PLANE, 0.5, 0.2))
    border = found_by(WarmStartedSearch(limit=12), problem, outer)
    assert int(problem.ledger.total.max()) == 12
    assert not bool(border.settled.any())


@pytest.mark.parametrize("budget", [1, 7])
def test_a_search_ends_with_the_budget(budget: int) -> None:
    problem, _, outer = setting(budget=budget)
    border = found_by(WarmStartedSearch(), problem, outer)
    assert problem.ledger.total.tolist() == [budget] * COUNT
    assert not bool(border.settled.any())
    assert torch.isfinite(border.point).all()


def test_the_result_of_an_image_does_not_depend_on_its_company() -> None:
    problem, original, outer = setting(Flip(0.1))
    together = found_by(WarmStartedSearch(), problem, outer)
    for row in (0, 31):
        alone = problem_of(PLANE, original[row : row + 1], noise=Flip(0.1), bounds=(-3.0, 3.0), ids=[row])
        border = found_by(WarmStartedSearch(), alone, outer[row : row + 1])
        assert torch.equal(border.position[0], together.position[row])
        assert int(border.searched) == int(together.searched[row])


def test_a_linf_search_measures_in_its_norm() -> None:
    problem, _, outer = setting(norm="linf")
    border = found_by(WarmStartedSearch(), problem, outer)
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 0.03


@pytest.mark.parametrize("high", [1.6, 1.25])  # a wide window, and one no wider than the transition
def test_a_transition_stays_as_wide_as_it_was_where_a_short_line_shows_little_of_it(high: float) -> None:
    search = WarmStartedSearch(keep=1.0)
    noise = PlanarSigmoid(PLANE, 2.5)
    border = carried(noise, low=2 - high, high=high, tolerance=10.0, search=search).border  # satisfied at once
    width = border.width * border.distance
    assert 0.04 < float(width.median()) < 0.2  # 1 / (4 * 2.5) = 0.1; over seeds 0.057 +- 0.010


def test_however_wide_a_transition_its_place_is_known_to_a_part_of_the_distance() -> None:
    rough, fine = (float((deviation_within(share) / HEIGHTS).quantile(0.75)) for share in (10.0, 0.08))
    assert fine < 0.12
    assert rough > 1.3 * fine


def deviation_within(share: float) -> torch.Tensor:
    """Deviations of the places of a gradual border."""
    search = WarmStartedSearch(max_relative_error=share)
    return carried(PlanarSigmoid(PLANE, 1.25), low=0.2, high=1.8, search=search).border.deviation


def long_search(limit: int) -> Seen:
    """What a search of a gradual border asks that is never precise enough."""
    seen = Seen(PLANE, PlanarSigmoid(PLANE, 1.0))
    problem = problem_of(seen, torch.zeros(1, 3) - 0.4 * unit(3), bounds=(-3.0, 3.0))
    search = WarmStartedSearch(limit=limit, tolerance=1e-9, max_relative_error=1e-9)
    found_by(search, problem, problem.original + unit(3))
    return seen


def test_several_queries_of_one_step_are_spread_over_places_that_are_nearly_as_good() -> None:
    places = [len(batch[:, 0].unique()) for batch in long_search(100).points if len(batch) == 4]
    assert len(places) > 15
    assert sum(places) > 3 * len(places)


def test_a_long_search_asks_a_quarter_of_what_it_has_asked_at_once() -> None:
    asked = 0
    for batch in long_search(40).points:
        assert len(batch) == min(max(1, asked // 4), 4, 40 - asked)
        asked += len(batch)
    assert asked == 40


@pytest.mark.parametrize(("keep", "matters"), [(0.0, False), (0.9, True)])
def test_the_last_belief_matters_as_far_as_it_is_kept(keep: float, matters: bool) -> None:
    problem, original, outer = setting()
    search = WarmStartedSearch(keep=keep)
    first = found_by(search, problem, outer)
    even = search.begin(COUNT)._replace(known=torch.ones(COUNT, dtype=torch.bool))
    certain = torch.zeros_like(even.channel)
    certain[:, -1] = 1.0
    outer, window = original + (1.1 * HEIGHTS).unsqueeze(1) * unit(3), window_of(0.9, 1.1)
    one, other = (
        search(problem, ROWS, outer, window, 1, first, state)[1].channel
        for state in (even, even._replace(channel=certain))
    )
    assert torch.equal(one, other) is not matters


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep": -0.1},
        {"uniform": 0.0},
        {"confidence": 1.0},
        {"gradual": -1.0},
        {"max_relative_error": 0.0},
        {"tolerance": 0.0},
        {"places": 2},
        {"fewest": 400},
        {"per_step": 0},
    ],
)
def test_a_search_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        WarmStartedSearch(**wrong)
