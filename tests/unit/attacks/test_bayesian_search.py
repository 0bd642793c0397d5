from __future__ import annotations

import math

import pytest
import torch
from attack_toys import Seen, border_of, problem_of, unit

from popskipjump.attacks.parts.direction import Count
from popskipjump.attacks.parts.effort import effort_at, effort_of, effort_table, floor_cost, signal_table
from popskipjump.attacks.parts.locate import BayesianSearch, _Search
from popskipjump.oracles import PlanarSigmoid, Plane
from popskipjump.sigmoid import Estimate, Grid, answer_correlation

SMALL = Grid(positions=21)


def search(config=None, *, images=30, height=0.37, slope=math.inf, floor=0.0, budget=None, seed=0, previous=None, t=0):
    """Search on lines of length 1 across a noisy plane: the centre is at the position 1 - height."""
    plane = Plane(unit(2), height)
    problem = problem_of(
        plane, torch.zeros(images, 2), noise=PlanarSigmoid(plane, slope, floor), budget=budget, seed=seed
    )
    outer = unit(2).expand(images, 2).clone()
    return (config or BayesianSearch())(problem, torch.arange(images), outer, t, previous), problem


def estimate_at(centre: float, log_slope: float, images: int = 1) -> Estimate:
    return Estimate(*(torch.full((images,), x, dtype=torch.float64) for x in (centre, log_slope, 0.0, 0.0)))


@pytest.mark.parametrize("height", [0.02, 0.2, 0.5, 0.81, 0.97])
def test_a_step_is_found_within_a_cell(height):
    border, _ = search(height=height)
    assert float((border.position - (1 - height)).abs().max()) <= 0.011
    assert bool(border.settled.all())
    assert int(border.searched.max()) <= 60


@pytest.mark.parametrize("floor", [0.05, 0.15, 0.3])
@pytest.mark.parametrize("height", [0.2, 0.64])
def test_a_step_among_flips_is_found(floor, height):
    border, _ = search(height=height, floor=floor)
    off = (border.position - (1 - height)).abs()
    # With this noise a search ends where a wrong answer moves the size little; a few images end a bit off.
    assert float(off.median()) <= 0.011
    assert float((off <= 0.05).double().mean()) >= 0.85


@pytest.mark.parametrize(("slope", "floor", "allowed"), [(1.0, 0.0, 0.05), (1.0, 0.15, 0.08), (5.0, 0.15, 0.03)])
def test_a_flat_sigmoid_is_found(slope, floor, allowed):
    border, _ = search(height=0.4, slope=slope, floor=floor, images=20)
    assert float((border.position - 0.6).pow(2).mean().sqrt()) <= allowed
    assert float((border.estimate.slope / slope).log10().abs().median()) <= 0.25


def test_the_slope_of_a_step_is_seen_to_be_steep():
    border, _ = search()
    assert float(border.estimate.slope.min()) > 20


def test_the_floor_is_seen():
    quiet, _ = search(BayesianSearch(check_every=150), images=10)
    loud, _ = search(BayesianSearch(check_every=150), images=10, floor=0.3)
    assert float(quiet.estimate.lost.max()) < 0.05
    assert float(loud.estimate.lost.median()) == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize("height", [0.3, 0.7])
def test_the_safe_position_is_on_the_adversarial_side_of_the_border(height):
    border, _ = search(height=height, floor=0.15, images=60)
    assert bool((border.safe <= border.position).all())
    share = float((border.safe <= 1 - height + 0.005).double().mean())
    assert share >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / 60)


def test_more_confidence_is_a_safer_position():
    low, _ = search(BayesianSearch(confidence=0.6), floor=0.15)
    high, _ = search(BayesianSearch(confidence=0.99), floor=0.15)
    assert bool((high.safe < low.safe).all())


def test_the_ledger_holds_what_was_searched():
    border, problem = search(floor=0.15)
    assert problem.ledger.by_phase["search"].tolist() == border.searched.tolist()


@pytest.mark.parametrize("interval", [5, 10, 40])
def test_the_stopping_rule_is_looked_at_every_k_queries(interval):
    border, _ = search(BayesianSearch(check_every=interval), floor=0.15)
    assert bool((border.searched % interval == 0).all())
    assert int(border.searched.min()) >= 2 * interval


@pytest.mark.parametrize("limit", [1, 25, 30, 111])
@pytest.mark.parametrize("per_step", [1, 7])
def test_no_search_exceeds_its_limit(limit, per_step):
    border, problem = search(BayesianSearch(limit=limit, per_step=per_step), slope=0.5)
    assert int(problem.ledger.total.max()) == limit
    assert float(border.settled.double().mean()) < 0.5


@pytest.mark.parametrize("budget", [1, 13, 24])
@pytest.mark.parametrize("per_step", [1, 5])
def test_no_search_exceeds_the_budget(budget, per_step):
    border, problem = search(BayesianSearch(per_step=per_step), slope=1.0, budget=budget)
    assert problem.ledger.total.tolist() == [budget // per_step * per_step] * 30
    assert not bool(border.settled.any())


def test_a_number_of_directions_beyond_its_limit_settles_nothing():
    plane = Plane(torch.zeros(2) + 1e-3, 1e9)  # far from any border: the floor alone answers
    problem = problem_of(plane, torch.zeros(20, 2), noise=PlanarSigmoid(plane, 1.0, 0.499))
    border = BayesianSearch()(problem, torch.arange(20), torch.ones(20, 2), 0, None)
    assert float(border.settled.double().mean()) <= 0.2
    assert int(border.searched.median()) == 1000


def test_a_search_costs_no_more_than_a_tenth_of_the_directions_it_is_for():
    border, _ = search(BayesianSearch(count=Count(limit=300)), slope=0.4)
    assert int(border.searched.max()) <= 60


@pytest.mark.parametrize("choice", [{"estimate": "map"}, {"sample_size": "point"}, {"sample_size": "signal"}])
def test_every_choice_of_the_text_finds_the_centre(choice):
    border, _ = search(BayesianSearch(**choice), floor=0.15)
    assert float((border.position - 0.63).abs().median()) <= 0.011


def test_the_map_lies_on_the_grid():
    border, _ = search(BayesianSearch(estimate="map"), floor=0.15)
    cells = border.position * 100
    torch.testing.assert_close(cells, cells.round())


@pytest.mark.parametrize("floor", [0.0, 0.15])
def test_the_expected_sample_size_finds_the_centre(floor):
    border, _ = search(BayesianSearch(SMALL, spread=0.05, acquisition="sample-size"), images=8, floor=floor)
    assert float((border.position - 0.63).abs().median()) <= 0.05


def test_hundreds_of_answers_leave_the_expected_sample_size_finite():
    config = BayesianSearch(SMALL, spread=0.05, acquisition="sample-size", check_every=250, limit=250)
    border, problem = search(config, images=3, slope=1.0, floor=0.3)
    assert problem.ledger.total.tolist() == [250] * 3
    assert all(bool(torch.isfinite(value).all()) for value in border.estimate)
    assert float((border.position - 0.63).abs().median()) <= 0.2


@pytest.mark.parametrize("per_step", [2, 5])
def test_several_queries_per_step_go_to_the_same_place(per_step):
    seen = Seen(Plane(unit(2), 0.37))
    problem = problem_of(seen, torch.zeros(1, 2))
    BayesianSearch(per_step=per_step)(problem, torch.arange(1), unit(2).unsqueeze(0), 0, None)
    asked = seen.all_points()[:, 0].reshape(-1, per_step)
    assert torch.equal(asked, asked[:, :1].expand_as(asked))
    assert asked[:, 0].unique().numel() > 3


def test_several_queries_per_step_find_the_centre():
    border, _ = search(BayesianSearch(per_step=5, spread_over=0.9), floor=0.15)
    assert float((border.position - 0.63).abs().median()) <= 0.011


def spread_search(acquisition: str, images: int = 1, per_step: int = 400) -> _Search:
    config = BayesianSearch(SMALL, 0.05, acquisition=acquisition, per_step=per_step, spread_over=0.9)
    problem = problem_of(Plane(unit(2), 0.5), torch.zeros(images, 2))
    return _Search(config, problem, torch.arange(images), unit(2).expand(images, 2), 0, None)


def test_spread_queries_lie_within_ninety_percent_of_the_best():
    value = torch.tensor([[0.1, 0.5, 0.92, 1.0, 0.89, 0.95, 0.2]])
    chosen = [index for (index,) in spread_search("information")._near_best(value)]
    assert set(chosen) == {2, 3, 5}
    for place in (2, 3, 5):  # evenly
        assert abs(chosen.count(place) - 400 / 3) < 4 * math.sqrt(400 * 2 / 9)


def test_spread_sizes_lie_within_ninety_percent_of_the_smallest():
    value = -torch.tensor([[100.0, 200.0, 110.0, 112.0, 99.9]])
    assert {index for (index,) in spread_search("sample-size")._near_best(value)} == {0, 2, 4}


def test_spread_queries_go_to_the_best_place_where_there_is_nothing_to_learn():
    value = torch.tensor([[-2e-6, -1e-6, -3e-6]])
    assert {index for (index,) in spread_search("information")._near_best(value)} == {1}


def test_images_spread_their_queries_differently():
    both = spread_search("information", images=2)._near_best(torch.ones(2, 21))
    assert any(one != other for one, other in both)


@pytest.mark.parametrize("t", [1, 2, 5, 10, 32])
@pytest.mark.parametrize(("centre", "log_slope"), [(0.5, 1.0), (0.02, 2.4), (0.99, -0.4)])
def test_a_shrunken_prior_keeps_a_part_of_the_grid_around_the_previous_result(t, centre, log_slope):
    config = BayesianSearch(shrink=True)
    problem = problem_of(Plane(unit(2), 0.5), torch.zeros(1, 2))
    outer = unit(2).unsqueeze(0)
    before = border_of(problem, outer, 0.5, estimate=estimate_at(centre, log_slope))
    weights = _Search(config, problem, torch.arange(1), outer, t, before).knowledge.posterior.weights[0]
    part = 1 / min(t, 10)
    places = config.grid.position[weights.sum(dim=1) > 0]
    slopes = config.grid.log_slope[weights.sum(dim=0) > 0]
    assert float(places.max() - places.min()) == pytest.approx(part, abs=0.0101)
    assert float(slopes.max() - slopes.min()) == pytest.approx(3 * part, abs=0.21)
    assert float(places.min()) - 0.01 <= centre <= float(places.max()) + 0.01
    assert float(slopes.min()) - 0.21 <= log_slope <= float(slopes.max()) + 0.21
    assert weights[weights > 0].unique().numel() == 1


def test_a_shrunken_prior_saves_queries():
    problem = problem_of(Plane(unit(2), 0.37), torch.zeros(30, 2))
    before = border_of(problem, unit(2).expand(30, 2), 0.6, estimate=estimate_at(0.6, 2.0, 30))
    wide, _ = search(BayesianSearch(), floor=0.05, t=10, previous=before)
    narrow, _ = search(BayesianSearch(shrink=True), floor=0.05, t=10, previous=before)
    assert int(narrow.searched.sum()) < int(wide.searched.sum())
    assert float((narrow.position - 0.63).abs().median()) <= 0.011


def test_without_a_previous_result_no_prior_is_shrunken():
    plain, _ = search(BayesianSearch(), floor=0.15, t=5)
    shrink, _ = search(BayesianSearch(shrink=True), floor=0.15, t=5)
    assert torch.equal(plain.position, shrink.position)


def test_the_effort_is_one_at_an_offset_of_one_spread():
    one = torch.tensor(0.01, dtype=torch.float64)
    assert float(effort_at(one, torch.tensor(math.inf), 0.01, torch.tensor(0.0))) == pytest.approx(1.0)


def test_the_effort_is_the_inverse_square_of_the_correlation():
    alpha = torch.tensor([0.1, 0.2], dtype=torch.float64)
    one, two = effort_of(alpha).tolist()
    assert one == pytest.approx(4 * two)


def test_the_effort_is_bounded():
    assert float(effort_of(torch.tensor(0.0, dtype=torch.float64))) == 1e4


def test_the_tables_hold_every_lag_and_channel():
    signal, effort = signal_table(SMALL, 0.05), effort_table(SMALL, 0.05)
    for row, channel in ((0, 0), (20, 5), (23, 63)):
        lost = SMALL.floor[channel].sum()
        expected = answer_correlation(SMALL.lag[row], 10 ** SMALL.log_slope[channel], 0.05, lost)
        assert float(signal[row, channel]) == pytest.approx(float(expected), rel=1e-5, abs=1e-12)
        assert float(effort[row, channel]) == pytest.approx(float(effort_of(expected)), rel=1e-4)


@pytest.mark.parametrize("sample_size", ["signal", "point", "centre", "posterior"])
def test_noise_needs_more_directions(sample_size):
    config = BayesianSearch(sample_size=sample_size, check_every=100, limit=200)
    kinds = ({}, {"floor": 0.3}, {"slope": 3.0})
    quiet, loud, flat = (search(config, images=12, **kind)[0].effort.median() for kind in kinds)
    assert 1 <= float(quiet) < 3
    assert float(loud) > 3 * float(quiet)
    assert float(flat) > 10 * float(quiet)


def test_without_noise_the_effort_does_not_fall_below_the_noiseless_one():
    free, _ = search(BayesianSearch(sample_size="point", at_least=0.0))
    bound, _ = search(BayesianSearch(sample_size="point"))
    assert float(free.effort.max()) < 1  # at no offset an answer is worth e times HSJ's
    assert float(bound.effort.min()) >= 1


def test_lost_contrast_costs_what_the_variance_of_the_answers_says():
    lost = torch.tensor([0.0, 0.1, 0.3])
    expected = []
    for c in lost.tolist():
        q = 1 / 8 + c * 7 / 8
        expected.append(q * (1 - q) / (7 / 64) / (1 - c) ** 2)
    assert floor_cost(lost).tolist() == pytest.approx(expected, rel=1e-5)
    assert float(floor_cost(lost)[0]) == 1.0


def test_the_likeliest_floors_rule_noise_out_where_there_is_none():
    clean, _ = search(BayesianSearch(sample_size="point"))
    assert clean.effort.tolist() == pytest.approx([1.0] * len(clean.effort))
