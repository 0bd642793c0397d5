from __future__ import annotations

import pytest
import torch
from attack_toys import problem_of, unit

from popskipjump.attacks.parts.carried import CarriedSearch
from popskipjump.noise import Flip
from popskipjump.oracles import PlanarSigmoid, Plane

COUNT = 60
ROWS = torch.arange(COUNT)
HEIGHTS = torch.linspace(0.15, 0.85, COUNT)
PLANE = Plane(unit(3), 0.0)


def setting(noise=None, norm="l2", **options):
    """Originals at known distances from a plane, and the ends of lines of length 1 across it."""
    original = torch.zeros(COUNT, 3)
    original[:, 0] = -HEIGHTS
    problem = problem_of(PLANE, original, noise=noise, bounds=(-3.0, 3.0), norm=norm, **options)
    return problem, original, original + unit(3)


def put_window(problem, low: float, high: float) -> None:
    """Search distances from `low` to `high`, in units of the distance that is expected; the line ends at `high`."""
    span = torch.full((COUNT,), 1 - low / high, dtype=torch.float64)
    problem.notes.write("span", ROWS, span)
    problem.notes.write("expected", ROWS, (1 - 1 / high) / span)
    problem.notes.write("tolerance", ROWS, torch.full_like(span, 0.01))


def carried(noise=None, wrong: float = 1.0, low: float = 0.9, high: float = 1.1):
    """A first search, and a second one in a window around `wrong` times the true distances."""
    problem, original, outer = setting(noise)
    search = CarriedSearch()
    first = search(problem, ROWS, outer, 0, None)
    before = problem.ledger.total.clone()
    put_window(problem, low, high)
    outer = original + (high * wrong * HEIGHTS).unsqueeze(1) * unit(3)
    second = search(problem, ROWS, outer, 1, first)
    return problem, second, problem.ledger.total - before


def missing(problem) -> torch.Tensor:
    return problem.notes.read("missing", ROWS, 0.0)


@pytest.mark.parametrize(("first", "most"), [(0.01, 30), (0.04, 20)])
def test_the_first_search_finds_a_sharp_border_as_closely_as_it_is_told(first, most):
    problem, _, outer = setting()
    border = CarriedSearch(first=first)(problem, ROWS, outer, 0, None)
    assert bool(border.settled.all())
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 3 * first  # the deviation it stops at
    assert float(problem.ledger.total.double().mean()) < most


def test_a_carried_search_of_a_sharp_border_needs_ten_queries_at_most():
    _, border, asked = carried()
    assert int(asked.max()) <= 10
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 0.01


def test_a_carried_search_under_flips_stays_cheap_and_right():
    problem, border, asked = carried(Flip(0.1))
    wrong = ((border.distance - HEIGHTS) / HEIGHTS).abs()
    assert float(asked.double().mean()) < 15
    assert float(wrong.mean()) < 0.01  # where it stops
    assert float(wrong.max()) < 0.05  # of sixty, none beyond five deviations
    assert missing(problem).sum() == 0


@pytest.mark.parametrize("slope", [5.0, 20.0])
def test_on_a_gradual_border_the_error_stays_within_the_width_of_the_transition(slope):
    _, border, _ = carried(PlanarSigmoid(PLANE, slope, 0.02))
    width = 1 / (4 * slope)
    wrong = (border.distance - HEIGHTS).abs()
    assert float(wrong.mean()) < width / 2
    assert float((wrong < 2 * width).double().mean()) > 0.95


def test_the_noted_width_tells_a_gradual_border_from_a_sharp_one():
    sharp, gradual = (carried(noise)[0].notes.read("width", ROWS, 0.0) for noise in (None, PlanarSigmoid(PLANE, 5.0)))
    assert float(gradual.median()) > 2 * float(sharp.median())
    assert float((gradual * HEIGHTS).median()) < 2 * 0.05  # 1 / (4 slope): no wider than it is


def test_a_gradual_border_takes_more_queries_than_a_sharp_one():
    window = {"low": 0.5, "high": 1.5}
    assert carried(PlanarSigmoid(PLANE, 5.0), **window)[2].sum() > 2 * carried(**window)[2].sum()


every_window = pytest.mark.parametrize(
    ("low", "high"),
    [(0.7, 1.5), (0.9, 1.1)],
    ids=["wide", "narrow"],
)


@every_window
@pytest.mark.parametrize("noise", [None, Flip(0.1)], ids=["clean", "flips"])
def test_a_border_beyond_the_line_is_reported_missing(noise, low, high):
    problem, _, _ = carried(noise, 0.6, low, high)  # nothing on the line is adversarial
    assert float(missing(problem).mean()) > (0.9 if noise is None else 0.8)


@every_window
def test_a_border_nearer_than_the_window_is_searched_for_on_the_rest_of_the_line(low, high):
    problem, border, asked = carried(None, 1.6, low, high)  # all of the window is adversarial
    assert missing(problem).sum() == 0
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 0.03
    assert int(asked.max()) < 40


def test_the_safe_position_is_on_the_adversarial_side_of_the_point():
    _, border, _ = carried(Flip(0.1))
    assert bool((border.safe <= border.position).all())
    outer = border.outer[:, 0].double()
    height = outer - border.safe * border.gap
    # One in twenty may lie on the other side; of sixty, more than nine do so with a probability below 0.2%.
    assert int((height < 0).sum()) <= 9


def test_the_belief_in_the_noise_is_carried_over():
    quiet, noisy = carried()[0], carried(Flip(0.1))[0]
    assert float(quiet.notes.read("lost", ROWS, 0.0).mean()) < float(noisy.notes.read("lost", ROWS, 0.0).mean())


def test_a_search_keeps_to_its_limit():
    problem, _, outer = setting(PlanarSigmoid(PLANE, 0.5, 0.2))
    border = CarriedSearch(limit=12)(problem, ROWS, outer, 0, None)
    assert int(problem.ledger.total.max()) == 12
    assert not bool(border.settled.any())


@pytest.mark.parametrize("budget", [1, 7])
def test_a_search_ends_with_the_budget(budget):
    problem, _, outer = setting(budget=budget)
    border = CarriedSearch()(problem, ROWS, outer, 0, None)
    assert problem.ledger.total.tolist() == [budget] * COUNT
    assert not bool(border.settled.any())
    assert torch.isfinite(border.point).all()


def test_the_result_of_an_image_does_not_depend_on_its_company():
    problem, original, outer = setting(Flip(0.1))
    together = CarriedSearch()(problem, ROWS, outer, 0, None)
    for row in (0, 31):
        alone = problem_of(PLANE, original[row : row + 1], noise=Flip(0.1), bounds=(-3.0, 3.0), ids=[row])
        border = CarriedSearch()(alone, torch.tensor([0]), outer[row : row + 1], 0, None)
        assert torch.equal(border.position[0], together.position[row])
        assert int(border.searched) == int(together.searched[row])


def test_a_linf_search_measures_in_its_norm():
    problem, _, outer = setting(norm="linf")
    border = CarriedSearch()(problem, ROWS, outer, 0, None)
    assert float(((border.distance - HEIGHTS) / HEIGHTS).abs().max()) < 0.03


@pytest.mark.parametrize("high", [1.6, 1.25])  # a wide window, and one no wider than the transition
def test_a_transition_stays_as_wide_as_it_was_where_a_short_line_shows_little_of_it(high):
    problem, original, outer = setting(PlanarSigmoid(PLANE, 2.5))
    search = CarriedSearch(keep=1.0)
    first = search(problem, ROWS, outer, 0, None)
    put_window(problem, 2 - high, high)
    problem.notes.write("tolerance", ROWS, torch.full((COUNT,), 10.0, dtype=torch.float64))  # satisfied at once
    second = search(problem, ROWS, original + (high * HEIGHTS).unsqueeze(1) * unit(3), 1, first)
    width = problem.notes.read("width", ROWS, 0.0) * second.distance
    assert 0.04 < float(width.median()) < 0.2  # 1 / (4 * 2.5) = 0.1; over seeds 0.057 +- 0.010


def test_however_wide_a_transition_its_place_is_known_to_a_part_of_the_distance():
    rough, fine = (float((known_to(share) / HEIGHTS).quantile(0.75)) for share in (10.0, 0.08))
    assert fine < 0.12
    assert rough > 1.3 * fine


def known_to(share: float) -> torch.Tensor:
    """Deviations of the places of a gradual border."""
    problem, original, outer = setting(PlanarSigmoid(PLANE, 1.25))
    search = CarriedSearch(known=share)
    first = search(problem, ROWS, outer, 0, None)
    put_window(problem, 0.2, 1.8)
    search(problem, ROWS, original + (1.8 * HEIGHTS).unsqueeze(1) * unit(3), 1, first)
    return problem.notes.read("doubt", ROWS, 0.0)
