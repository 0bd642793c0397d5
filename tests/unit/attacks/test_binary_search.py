from __future__ import annotations

import math

import pytest
import torch
from attack_toys import Seen, found_by, problem_of, unit

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.searches.bisection import BinarySearch
from popskipjump.errors import InputError
from popskipjump.oracles import Plane

D = 9


def search(
    theta: float | None = None,
    *,
    height: float = 0.37,
    count: int = 1,
    dimension: int = D,
    norm: str = "l2",
    budget: int | None = None,
    votes: int = 1,
) -> tuple[Border, Problem, Seen]:
    """Search on lines of length 1 across a plane: the border is at the position 1 - height."""
    seen = Seen(Plane(unit(dimension), height))
    problem = problem_of(seen, torch.zeros(count, dimension), norm=norm, budget=budget, votes=votes)
    outer = unit(dimension).expand(count, dimension).clone()
    return found_by(BinarySearch(theta), problem, outer), problem, seen


@pytest.mark.parametrize("theta", [0.3, 0.01, 1e-5])
@pytest.mark.parametrize("height", [0.05, 0.37, 0.62, 0.98])
def test_the_border_is_found_to_the_precision_asked_for(theta: float, height: float) -> None:
    border, problem, _ = search(theta, height=height)
    assert 0 <= 1 - height - float(border.position) <= theta + 1e-6
    assert problem.ledger.total.tolist() == [math.ceil(math.log2(1 / theta))]
    assert border.searched.tolist() == problem.ledger.total.tolist()
    assert border.settled.tolist() == [True]


def test_the_point_is_on_the_adversarial_side() -> None:
    border, _, seen = search(1e-4)
    assert seen.model.labels(border.point).tolist() == [1]
    assert torch.equal(border.safe, border.position)


@pytest.mark.parametrize(("norm", "power"), [("l2", 1.5), ("linf", 2.0)])
def test_the_published_precision_depends_on_the_dimension(norm: str, power: float) -> None:
    border, _, _ = search(norm=norm)
    assert border.searched.tolist() == [math.ceil(power * math.log2(D))]


def test_distance_and_gap_are_measured() -> None:
    border, _, _ = search(1e-6)
    assert float(border.distance) == pytest.approx(0.37, abs=1e-5)
    assert float(border.gap) == 1.0


def test_an_original_that_is_adversarial_itself_is_approached() -> None:
    border, _, _ = search(1e-3, height=-1.0)
    assert float(border.distance) <= 1e-3


def test_an_end_that_is_not_adversarial_is_kept() -> None:
    border, _, _ = search(1e-3, height=2.0)
    assert float(border.position) == 0.0


def test_a_budget_cuts_the_search_short() -> None:
    border, problem, _ = search(1e-6, budget=7, count=2)
    assert problem.ledger.total.tolist() == [7, 7]
    assert border.settled.tolist() == [False, False]
    assert 0 <= 0.63 - float(border.position[0]) <= 2**-7


def test_a_search_with_votes_counts_decisions() -> None:
    border, problem, _ = search(0.1, votes=3)
    assert border.searched.tolist() == [4]
    assert problem.ledger.total.tolist() == [12]


def test_a_precision_beyond_floating_point_ends() -> None:
    border, _, _ = search(1e-300)
    assert int(border.searched) <= 60
    assert float(border.position) == pytest.approx(0.63, abs=1e-6)


def test_a_border_found_without_a_model_of_the_noise_has_no_estimate() -> None:
    assert search(0.1)[0].estimate is None


@pytest.mark.parametrize("theta", [0.0, -1.0, 1.5])
def test_a_precision_that_is_no_part_of_the_line_is_refused(theta: float) -> None:
    with pytest.raises(InputError, match="theta"):
        BinarySearch(theta)


def test_the_deviation_is_half_of_what_was_left_of_the_line() -> None:
    border, _, _ = search(0.1)
    assert float(border.deviation) == pytest.approx(2**-4 / 2)


@pytest.mark.parametrize(("height", "seen"), [(0.37, True), (2.0, False)])
def test_a_border_is_seen_if_anything_within_the_line_was_adversarial(height: float, seen: bool) -> None:
    assert search(1e-3, height=height)[0].seen.tolist() == [seen]


@pytest.mark.parametrize(("norm", "part"), [("l2", 4.0), ("linf", 1.0)])
def test_it_ends_where_the_classifier_cannot_tell_more_and_is_safe_one_interval_further_out(
    norm: str, part: float
) -> None:
    """On a line of length 1, a change of every value by `finest` has the length `part` times that."""
    finest = 2.0**-10
    seen = Seen(Plane(unit(16), 0.37))
    problem = problem_of(seen, torch.zeros(1, 16), norm=norm)
    border = found_by(BinarySearch(1e-6, finest), problem, unit(16).unsqueeze(0).clone())
    assert problem.ledger.total.tolist() == [math.ceil(math.log2(1 / (part * finest)))]
    assert float(border.position - border.safe) == pytest.approx(part * finest)
    assert border.settled.tolist() == [True]


@pytest.mark.parametrize("finest", [-0.1, 1.0])
def test_it_refuses_a_resolution_that_is_none(finest: float) -> None:
    with pytest.raises(InputError, match="finest"):
        BinarySearch(finest=finest)
