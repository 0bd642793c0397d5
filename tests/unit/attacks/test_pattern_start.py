from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_toys import Seen, locator, problem_of
from torch import Tensor

from popskipjump.attacks import FromPool, Pool, Problem
from popskipjump.attacks.directions.adaptive.dct import basis_of
from popskipjump.attacks.protocols import Begun
from popskipjump.attacks.searches.warm import WarmStartedSearch
from popskipjump.attacks.starts.patterns import PatternStart, Reached, pattern_count
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size
from popskipjump.noise import Flip
from popskipjump.oracles import Plane, Sphere, Ticket
from popskipjump.rng import Key, normal

SHAPE = (3, 8, 8)
D = 192


def checkers() -> torch.Tensor:
    return basis_of(SHAPE).corners[0]


def setting(model: Any = None, *, norm: str = "l2", count: int = 3, **options: Any) -> tuple[Problem, Tensor, Seen]:
    """Grey images, and starting points far out in a random direction, all of them adversarial for the default."""
    model = Plane(checkers(), 0.2 * D**0.5) if model is None else model
    seen = Seen(model)
    original = torch.full((count, *SHAPE), 0.5)
    problem = problem_of(seen if "noise" not in options else model, original, norm=norm, **options)
    start = original.flatten(1) + 0.5 * normal(Key(1).roots(torch.arange(count)), D).sign()
    return problem, start, seen


def searched(problem: Problem, start: Tensor, **options: Any) -> Reached:
    return PatternStart(**options).search(problem, torch.arange(len(start)), start)


def begun(problem: Problem, start: Tensor) -> Begun:
    return PatternStart()(problem, torch.arange(len(start)), start, locator(WarmStartedSearch(), problem))


def sizes(problem: Problem, points: Tensor) -> Tensor:
    return problem.norm.size(points - problem.original).double()


def test_a_classifier_that_falls_for_checkers_is_found_out() -> None:
    problem, start, _ = setting()
    best = searched(problem, start)
    assert float((best.distance / sizes(problem, start)).max()) < 0.5
    assert torch.allclose(best.distance, l2_size(best.point - problem.original).double())


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_every_point_that_is_found_is_adversarial_and_nearer(norm: str, seed: int) -> None:
    unit = checkers() + 4 * normal(Key(seed).root(), D)[0]
    model = Plane(unit, float(unit.sum() / 2) + 0.3 * float(unit.norm()))
    problem, start, _ = setting(model, norm=norm)
    best = searched(problem, start)
    moved = sizes(problem, best.point) < sizes(problem, start)
    assert bool((model.labels(best.point)[moved] == 1).all())
    assert torch.equal(best.point[~moved], start[~moved])


def test_the_starting_line_is_followed_inward() -> None:
    unit = torch.ones(D) / D**0.5
    problem, _, _ = setting(Plane(unit, float(unit.sum() / 2) + 0.5))
    start = problem.original + 0.5  # at 0.5 D**0.5 = 6.9 along the normal, of which 0.5 are needed
    best = searched(problem, start)
    assert 0.5 <= float(best.distance.min()) <= float(best.distance.max()) <= 0.5 / 0.6


def test_where_nothing_helps_a_line_costs_two_queries_and_each_pattern_one_and_nothing_changes() -> None:
    problem, start, _ = setting(Sphere(torch.full((D,), 0.5), 100.0))
    best = searched(problem, start)
    assert torch.equal(best.point, start)
    assert problem.ledger.total.tolist() == [2 + pattern_count(basis_of(SHAPE))] * 3
    assert problem.ledger.by_phase["start"].tolist() == problem.ledger.total.tolist()


def test_a_targeted_attack_tries_no_pattern() -> None:
    problem, start, _ = setting(Sphere(torch.full((D,), 0.5), 100.0), targets=torch.ones(3, dtype=torch.int64))
    searched(problem, start)
    assert problem.ledger.total.tolist() == [2] * 3


def pooled(budget: int | None = None, **options: Any) -> tuple[Reached, Problem]:
    """A start at 0.9 on axis 0, and a pool with an image on axis 1 that is further, but whose border is nearer."""
    original, basis = torch.zeros(2, 30), torch.eye(30)
    model = Plane(basis[0] + 2 * basis[1] + 0.5 * basis[2], 0.6)
    pool = Pool(torch.stack((0.9 * basis[0], basis[1], basis[2] + 0.3 * basis[1])), torch.ones(3, dtype=torch.int64))
    truth, targets = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    problem = problem_of(model, original, targets=targets, budget=budget)
    source = FromPool(problem, pool, truth, targets, nearest=True)
    problem.further_starts = source.further
    best = PatternStart(**options).search(problem, torch.arange(2), source(torch.arange(2), 0))
    return best, problem


def test_with_targets_further_images_of_the_pool_are_tried() -> None:
    alone, _ = pooled(others=0)
    assert alone.distance.tolist() == pytest.approx([0.9, 0.9])
    best, problem = pooled()
    assert bool((best.distance < 0.5).all())  # the border lies at 0.6 on axis 0 and at 0.3 on axis 1
    assert bool((best.point[:, 1] >= 0.3).all())
    assert problem.ledger.total.tolist() == [int(problem.ledger.total[0])] * 2


def test_a_small_budget_tries_fewer_images_of_the_pool() -> None:
    _, problem = pooled(budget=45, others=2)
    _, whole = pooled(budget=500, others=2)
    _, none = pooled(budget=500, others=0)
    assert int(none.ledger.total[0]) < int(problem.ledger.total[0]) < int(whole.ledger.total[0])


@pytest.mark.parametrize("targets", [None, torch.ones(3, dtype=torch.int64)], ids=["untargeted", "targeted"])
def test_it_tells_whether_several_starts_were_compared(targets: Tensor | None) -> None:
    problem, start, _ = setting(targets=targets)
    assert begun(problem, start).compared.tolist() == [targets is None] * 3


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_border_behind_a_pattern_is_found(norm: str) -> None:
    problem, start, _ = setting(norm=norm)
    border = begun(problem, start).border
    assert bool((border.distance < 0.5 * sizes(problem, start)).all())
    height = Plane(checkers(), 0.2 * D**0.5).height(border.point).abs()
    assert float((height / problem.norm.size(border.point - problem.original)).max()) < 0.12 * D**0.5
    assert bool(border.seen.all())


class LyingAtFirst:
    """Calls everything adversarial for some queries, and then answers as another classifier does."""

    def __init__(self, model: Any, count: int) -> None:
        self.model, self.left = model, count

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.left -= len(points)
        return torch.ones(len(points), dtype=torch.int64) if self.left >= 0 else self.model.labels(points)


def test_a_pattern_that_was_a_mistake_leads_back_to_the_line_of_the_start() -> None:
    """The first answers lie about everything: all patterns seem adversarial, and no border is found behind them."""
    unit = torch.ones(D) / D**0.5
    plane = Plane(unit, float(unit.sum() / 2) + 2.0)
    lies = LyingAtFirst(plane, 300)
    problem = problem_of(lies, torch.full((3, *SHAPE), 0.5))
    border = begun(problem, problem.original + 0.5).border
    assert float((border.distance - 2.0).abs().max()) < 0.3


class TwoLies:
    """Calls the first point of an image that is not adversarial along the right pattern adversarial, twice."""

    def __init__(self, model: Any, lies: int = 2) -> None:
        self.model, self.lies = model, lies
        self.told: dict[int, int] = {}

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        labels = self.model.labels(points)
        along = (points.flatten(1) - 0.5) @ checkers()
        for place, image in enumerate(ticket.image.tolist()):
            near = labels[place] == 0 and float(along[place]) > 0.05 * D**0.5
            if near and self.told.setdefault(image, 0) < self.lies:
                self.told[image] += 1
                labels[place] = 1
        result: Tensor = labels
        return result


def test_a_lucky_last_shrink_falls_back_to_the_shrink_before_and_not_to_the_line() -> None:
    plane = Plane(checkers(), 0.2 * D**0.5)
    honest = searched(problem_of(plane, torch.full((3, *SHAPE), 0.5)), setting()[1])
    best = searched(problem_of(TwoLies(plane), torch.full((3, *SHAPE), 0.5)), setting()[1])
    assert torch.equal(best.point, honest.point)
    assert bool((plane.labels(best.point) == 1).all())


@pytest.mark.parametrize("budget", [1, 7, 8, 30])
def test_the_patterns_keep_to_the_budget(budget: int) -> None:
    problem, start, _ = setting(budget=budget)
    searched(problem, start)
    assert int(problem.ledger.total.max()) <= budget


def test_flipped_answers_do_not_make_a_start() -> None:
    model = Sphere(torch.full((D,), 0.5), 100.0)
    problem, start, _ = setting(model, count=40, noise=Flip(0.1))
    best = searched(problem, start)
    # On the line: 1.1% for a lead of two flips. Patterns: the same for each, and then a majority of seven.
    assert int((best.distance < sizes(problem, start)).sum()) <= 4


def test_no_pattern_leaves_the_bounds() -> None:
    problem, start, seen = setting()
    searched(problem, start)
    assert 0 <= float(seen.all_points().min()) <= float(seen.all_points().max()) <= 1


def test_a_small_input_has_one_pattern_only() -> None:
    assert pattern_count(basis_of((5,))) == 1


def test_the_patterns_of_an_image_do_not_depend_on_its_company() -> None:
    problem, start, _ = setting()
    together = searched(problem, start)
    alone = problem_of(Plane(checkers(), 0.2 * D**0.5), torch.full((1, *SHAPE), 0.5), ids=[2])
    assert torch.equal(searched(alone, start[2:]).point[0], together.point[2])


@pytest.mark.parametrize("wrong", [{"within": 1.0}, {"shrink": 0.0}, {"votes": 0}, {"shrinks": 0}])
def test_a_pattern_start_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(wrong))}.*(shares|at least 1)"):
        PatternStart(**wrong)
