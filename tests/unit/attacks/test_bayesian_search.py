from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
from attack_toys import Seen, border_of, found_by, problem_of, unit
from present import present

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.oracles import PlanarSigmoid, Plane
from popskipjump.sigmoid import (
    Estimate,
    Grid,
    SigmoidPosterior,
    expected_sample_size,
    information,
    ratio_table,
)

SMALL = Grid(positions=21)
TINY = Grid(positions=11, slopes=6)


def search(
    config: BayesianSearch | None = None,
    *,
    images: int = 30,
    height: float = 0.37,
    slope: float = math.inf,
    floor: float = 0.0,
    budget: int | None = None,
    seed: int = 0,
    previous: Border | None = None,
    t: int = 0,
) -> tuple[Border, Problem]:
    """Search on lines of length 1 across a noisy plane: the centre is at the position 1 - height."""
    plane = Plane(unit(2), height)
    problem = problem_of(
        plane, torch.zeros(images, 2), noise=PlanarSigmoid(plane, slope, floor), budget=budget, seed=seed
    )
    outer = unit(2).expand(images, 2).clone()
    return found_by(config or BayesianSearch(), problem, outer, iteration=t, previous=previous), problem


def estimate_at(centre: float, log_slope: float, images: int = 1) -> Estimate:
    return Estimate(*(torch.full((images,), x, dtype=torch.float64) for x in (centre, log_slope, 0.0, 0.0)))


@pytest.mark.parametrize("height", [0.02, 0.2, 0.5, 0.81, 0.97])
def test_a_step_is_found_within_a_cell(height: float) -> None:
    border, _ = search(height=height)
    assert float((border.position - (1 - height)).abs().max()) <= 0.011
    assert bool(border.settled.all())
    assert int(border.searched.max()) <= 60


@pytest.mark.parametrize("floor", [0.05, 0.15, 0.3])
@pytest.mark.parametrize("height", [0.2, 0.64])
def test_a_step_among_flips_is_found(floor: float, height: float) -> None:
    border, _ = search(height=height, floor=floor)
    off = (border.position - (1 - height)).abs()
    # With this noise a search ends where a wrong answer moves the size little; a few images end a bit off.
    assert float(off.median()) <= 0.011
    assert float((off <= 0.05).double().mean()) >= 0.85


@pytest.mark.parametrize(("slope", "floor", "allowed"), [(1.0, 0.0, 0.05), (1.0, 0.15, 0.08), (5.0, 0.15, 0.03)])
def test_a_flat_sigmoid_is_found(slope: float, floor: float, allowed: float) -> None:
    border, _ = search(height=0.4, slope=slope, floor=floor, images=20)
    assert float((border.position - 0.6).pow(2).mean().sqrt()) <= allowed
    assert float((present(border.estimate).slope / slope).log10().abs().median()) <= 0.25


def test_the_slope_of_a_step_is_seen_to_be_steep() -> None:
    border, _ = search()
    assert float(present(border.estimate).slope.min()) > 20


def test_the_floor_is_seen() -> None:
    quiet, _ = search(BayesianSearch(check_every=150), images=10)
    loud, _ = search(BayesianSearch(check_every=150), images=10, floor=0.3)
    assert float(present(quiet.estimate).lost.max()) < 0.05
    assert float(present(loud.estimate).lost.median()) == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize("height", [0.3, 0.7])
def test_the_safe_position_is_on_the_adversarial_side_of_the_border(height: float) -> None:
    border, _ = search(height=height, floor=0.15, images=60)
    assert bool((border.safe <= border.position).all())
    share = float((border.safe <= 1 - height + 0.005).double().mean())
    assert share >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / 60)


def test_more_confidence_is_a_safer_position() -> None:
    low, _ = search(BayesianSearch(confidence=0.6), floor=0.15)
    high, _ = search(BayesianSearch(confidence=0.99), floor=0.15)
    assert bool((high.safe < low.safe).all())


def test_the_ledger_holds_what_was_searched() -> None:
    border, problem = search(floor=0.15)
    assert problem.ledger.by_phase["search"].tolist() == border.searched.tolist()


@pytest.mark.parametrize("interval", [5, 10, 40])
def test_the_stopping_rule_is_looked_at_every_k_queries(interval: int) -> None:
    border, _ = search(BayesianSearch(check_every=interval), floor=0.15)
    assert bool((border.searched % interval == 0).all())
    assert int(border.searched.min()) >= 2 * interval


@pytest.mark.parametrize("limit", [1, 25, 30, 111])
@pytest.mark.parametrize("per_step", [1, 7])
def test_no_search_exceeds_its_limit(limit: int, per_step: int) -> None:
    border, problem = search(BayesianSearch(limit=limit, per_step=per_step), slope=0.5)
    assert int(problem.ledger.total.max()) == limit
    assert float(border.settled.double().mean()) < 0.5


@pytest.mark.parametrize("budget", [1, 13, 24])
@pytest.mark.parametrize("per_step", [1, 5])
def test_no_search_exceeds_the_budget(budget: int, per_step: int) -> None:
    border, problem = search(BayesianSearch(per_step=per_step), slope=1.0, budget=budget)
    assert problem.ledger.total.tolist() == [budget // per_step * per_step] * 30
    assert not bool(border.settled.any())


def test_a_number_of_directions_beyond_its_limit_settles_nothing() -> None:
    plane = Plane(torch.zeros(2) + 1e-3, 1e9)  # far from any border: the floor alone answers
    problem = problem_of(plane, torch.zeros(20, 2), noise=PlanarSigmoid(plane, 1.0, 0.499))
    border = found_by(BayesianSearch(), problem, torch.ones(20, 2))
    assert float(border.settled.double().mean()) <= 0.2
    assert int(border.searched.median()) == 1000


def test_a_search_costs_no_more_than_a_tenth_of_the_directions_it_is_for() -> None:
    border, _ = search(BayesianSearch(count=DirectionCount(limit=300)), slope=0.4)
    assert int(border.searched.max()) <= 60


@pytest.mark.parametrize("choice", [{"estimate": "map"}, {"sample_size": "point"}, {"sample_size": "signal"}])
def test_every_choice_of_the_text_finds_the_centre(choice: dict[str, Any]) -> None:
    border, _ = search(BayesianSearch(**choice), floor=0.15)
    assert float((border.position - 0.63).abs().median()) <= 0.011


def test_the_map_lies_on_the_grid() -> None:
    border, _ = search(BayesianSearch(estimate="map"), floor=0.15)
    cells = border.position * 100
    torch.testing.assert_close(cells, cells.round())


@pytest.mark.parametrize("floor", [0.0, 0.15])
def test_the_expected_sample_size_finds_the_centre(floor: float) -> None:
    border, _ = search(BayesianSearch(TINY, spread=0.1, acquisition="sample-size"), images=8, floor=floor)
    assert float((border.position - 0.63).abs().median()) <= 0.1  # a cell


def test_hundreds_of_answers_leave_the_expected_sample_size_finite() -> None:
    config = BayesianSearch(TINY, spread=0.1, acquisition="sample-size", check_every=250, limit=250)
    border, problem = search(config, images=3, slope=1.0, floor=0.3)
    assert problem.ledger.total.tolist() == [250] * 3
    assert all(bool(torch.isfinite(value).all()) for value in present(border.estimate))
    assert float((border.position - 0.63).abs().median()) <= 0.2


@pytest.mark.parametrize("per_step", [2, 5])
def test_several_queries_per_step_go_to_the_same_place(per_step: int) -> None:
    seen = Seen(Plane(unit(2), 0.37))
    problem = problem_of(seen, torch.zeros(1, 2))
    found_by(BayesianSearch(per_step=per_step), problem, unit(2).unsqueeze(0))
    asked = seen.all_points()[:, 0].reshape(-1, per_step)
    assert torch.equal(asked, asked[:, :1].expand_as(asked))
    assert asked[:, 0].unique().numel() > 3


def test_several_queries_per_step_find_the_centre() -> None:
    border, _ = search(BayesianSearch(per_step=5, spread_over=0.9), floor=0.15)
    assert float((border.position - 0.63).abs().median()) <= 0.011


def spread_places(
    images: int = 1, per_step: int = 400, acquisition: Literal["information", "sample-size"] = "information"
) -> list[torch.Tensor]:
    """Where the first step of a search with a uniform prior asks, as grid positions of each image."""
    seen = Seen(Plane(unit(2), 0.5))
    problem = problem_of(seen, torch.zeros(images, 2))
    config = BayesianSearch(SMALL, 0.05, acquisition=acquisition, per_step=per_step, spread_over=0.9, limit=per_step)
    found_by(config, problem, unit(2).expand(images, 2))
    first = (1 - seen.points[0][:, 0]) * 20 - 0.5  # asked half-way between the positions of the prior
    return [first[seen.images[0] == image].round().to(torch.int64) for image in range(images)]


def test_spread_queries_lie_evenly_over_the_places_within_ninety_percent_of_the_best() -> None:
    value = torch.from_numpy(information(SigmoidPosterior.uniform(SMALL, 1))[0])[0]
    near = (value >= 0.9 * value.max()).nonzero().flatten().tolist()
    assert 1 < len(near) < len(value)
    (chosen,) = (places.tolist() for places in spread_places())
    assert set(chosen) == set(near)
    share = 1 / len(near)
    for place in near:  # an even draw exceeds 5.2 standard deviations once in 5 million; there are ten places
        assert abs(chosen.count(place) - 400 * share) < 5.2 * math.sqrt(400 * share * (1 - share))


def test_spread_sizes_lie_within_ninety_percent_of_the_smallest() -> None:
    size = expected_sample_size(SigmoidPosterior.uniform(SMALL, 1), ratio_table(SMALL, 0.05))[0]
    near = (size <= size.min() / 0.9).nonzero().flatten().tolist()
    assert 0 < len(near) < len(size)
    assert set(spread_places(acquisition="sample-size")[0].tolist()) == set(near)


def test_images_spread_their_queries_differently() -> None:
    one, other = spread_places(images=2)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("t", [2, 5, 10, 32])
@pytest.mark.parametrize("centre", [0.5, 0.02, 0.99])
def test_a_shrunken_prior_keeps_a_part_of_the_line_around_the_previous_result(t: int, centre: float) -> None:
    """The answers put the border at one end of the line, then at the other: the estimate follows as far as it may."""
    found = []
    for height in (2.0, -1.0):  # nothing is adversarial, everything is
        problem = problem_of(Plane(unit(2), height), torch.zeros(1, 2))
        outer = unit(2).unsqueeze(0)
        before = border_of(problem, outer, 0.5, estimate=estimate_at(centre, 2.4))
        config = BayesianSearch(shrink=True, check_every=60, limit=60)
        found.append(float(found_by(config, problem, outer, iteration=t, previous=before).position))
    part = 1 / min(t, 10)
    low = min(max(centre - part / 2, 0.0), 1 - part)
    assert found == pytest.approx([low, low + part], abs=0.016)


@pytest.mark.parametrize("t", [2, 10, 32])
@pytest.mark.parametrize("log_slope", [1.0, 2.4, -0.4])
def test_a_shrunken_prior_keeps_a_part_of_the_slopes_around_the_previous_result(t: int, log_slope: float) -> None:
    """Of a step, the steepest slope is estimated that the prior holds."""
    problem = problem_of(Plane(unit(2), 0.5), torch.zeros(1, 2))
    outer = unit(2).unsqueeze(0)
    before = border_of(problem, outer, 0.5, estimate=estimate_at(0.5, log_slope))
    config = BayesianSearch(shrink=True, estimate="map", check_every=60, limit=60)
    found = found_by(config, problem, outer, iteration=t, previous=before)
    part = 1 / min(t, 10)
    low = min(max(log_slope - 3 * part / 2, -0.5), 2.5 - 3 * part)
    assert low - 0.01 <= float(present(found.estimate).log_slope) <= low + 3 * part + 0.01
    if low + 3 * part < 1.3:  # slopes that 60 answers within a cell can tell apart
        assert float(present(found.estimate).log_slope) > low + 3 * part - 0.21


def test_a_shrunken_prior_saves_queries() -> None:
    problem = problem_of(Plane(unit(2), 0.37), torch.zeros(30, 2))
    before = border_of(problem, unit(2).expand(30, 2), 0.6, estimate=estimate_at(0.6, 2.0, 30))
    wide, _ = search(BayesianSearch(), floor=0.05, t=10, previous=before)
    narrow, _ = search(BayesianSearch(shrink=True), floor=0.05, t=10, previous=before)
    assert int(narrow.searched.sum()) < int(wide.searched.sum())
    assert float((narrow.position - 0.63).abs().median()) <= 0.011


def test_without_a_previous_result_no_prior_is_shrunken() -> None:
    plain, _ = search(BayesianSearch(), floor=0.15, t=5)
    shrink, _ = search(BayesianSearch(shrink=True), floor=0.15, t=5)
    assert torch.equal(plain.position, shrink.position)


@pytest.mark.parametrize("sample_size", ["signal", "point", "centre", "posterior"])
def test_noise_needs_more_directions(sample_size: Literal["signal", "point", "centre", "posterior"]) -> None:
    config = BayesianSearch(sample_size=sample_size, check_every=100, limit=200)
    kinds: tuple[dict[str, Any], ...] = ({}, {"floor": 0.3}, {"slope": 3.0})
    quiet, loud, flat = (search(config, images=12, **kind)[0].sample_ratio.median() for kind in kinds)
    assert 1 <= float(quiet) < 3
    assert float(loud) > 3 * float(quiet)
    assert float(flat) > 10 * float(quiet)


def test_without_noise_the_sample_ratio_does_not_fall_below_the_noiseless_one() -> None:
    free, _ = search(BayesianSearch(sample_size="point", at_least=0.0))
    bound, _ = search(BayesianSearch(sample_size="point"))
    assert float(free.sample_ratio.max()) < 1  # at no offset an answer is worth e times HSJ's
    assert float(bound.sample_ratio.min()) >= 1


def test_the_likeliest_floors_rule_noise_out_where_there_is_none() -> None:
    clean, _ = search(BayesianSearch(sample_size="point"))
    assert clean.sample_ratio.tolist() == pytest.approx([1.0] * len(clean.sample_ratio))
