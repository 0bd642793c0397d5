from __future__ import annotations

import pytest
import torch
from attack_toys import Seen, border_of, problem_of

from popskipjump.attacks.parts.basis import basis_of
from popskipjump.attacks.parts.carried import CarriedSearch
from popskipjump.attacks.parts.patterns import PatternStart, pattern_count
from popskipjump.geometry import l2_size
from popskipjump.noise import Flip
from popskipjump.oracles import Plane, Sphere
from popskipjump.rng import Key, normal

SHAPE = (3, 8, 8)
D = 192


def checkers() -> torch.Tensor:
    return basis_of(SHAPE).corners[0]


def setting(model=None, *, norm="l2", count=3, **options):
    """Grey images, and borders far out in a random direction."""
    model = Plane(checkers(), 0.2 * D**0.5) if model is None else model
    seen = Seen(model)
    original = torch.full((count, *SHAPE), 0.5)
    problem = problem_of(seen if "noise" not in options else model, original, norm=norm, **options)
    outer = original.flatten(1) + 0.5 * normal(Key(1).roots(torch.arange(count)), D).sign()
    return problem, border_of(problem, outer, 0.1), seen


def test_a_classifier_that_falls_for_checkers_is_found_out():
    problem, border, _ = setting()
    points, found = PatternStart().search(problem, border)
    assert found.tolist() == [True] * 3
    assert float((l2_size(points - problem.original) / border.distance).max()) < 0.7


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_every_point_that_is_found_is_adversarial_and_nearer(norm, seed):
    unit = checkers() + 4 * normal(Key(seed).root(), D)[0]
    model = Plane(unit, float(unit.sum() / 2) + 0.3 * float(unit.norm()))
    problem, border, _ = setting(model, norm=norm)
    points, found = PatternStart().search(problem, border)
    assert bool((model.labels(points)[found] == 1).all())
    nearer = problem.norm.size(points - problem.original).double() < border.distance
    assert bool(nearer[found].all())
    assert torch.equal(points[~found], border.point[~found])


def test_where_no_pattern_helps_each_costs_one_query_and_nothing_changes():
    problem, border, _ = setting(Sphere(torch.full((D,), 0.5), 100.0))
    points, found = PatternStart().search(problem, border)
    assert found.tolist() == [False] * 3
    assert torch.equal(points, border.point)
    assert problem.ledger.total.tolist() == [pattern_count(basis_of(SHAPE))] * 3
    assert problem.ledger.by_phase["start"].tolist() == problem.ledger.total.tolist()


def test_a_targeted_attack_is_asked_nothing():
    problem, border, seen = setting(targets=torch.ones(3, dtype=torch.int64))
    assert PatternStart()(problem, border, CarriedSearch()) is border
    assert not seen.points


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_border_behind_a_pattern_is_found_and_nearer(norm):
    problem, border, _ = setting(norm=norm)
    nearer = PatternStart()(problem, border, CarriedSearch())
    assert bool((nearer.distance < 0.7 * border.distance).all())
    height = Plane(checkers(), 0.2 * D**0.5).height(nearer.point).abs()
    assert float((height / problem.norm.size(nearer.point - problem.original)).max()) < 0.03 * D**0.5


def test_where_no_pattern_helps_the_border_stays():
    problem, border, _ = setting(Sphere(torch.full((D,), 0.5), 100.0))
    assert PatternStart()(problem, border, CarriedSearch()) is border


@pytest.mark.parametrize("budget", [1, 7, 8, 30])
def test_the_patterns_keep_to_the_budget(budget):
    problem, border, _ = setting(budget=budget)
    PatternStart().search(problem, border)
    assert int(problem.ledger.total.max()) <= budget


def test_a_single_flipped_answer_does_not_make_a_start():
    model = Sphere(torch.full((D,), 0.5), 100.0)
    problem, border, _ = setting(model, count=40, noise=Flip(0.1))
    _, found = PatternStart().search(problem, border)
    assert int(found.sum()) <= 2  # a majority of seven flips has a probability below 0.3%, and there are 54 tries each


def test_no_pattern_leaves_the_bounds():
    problem, border, seen = setting()
    PatternStart().search(problem, border)
    assert 0 <= float(seen.all_points().min()) <= float(seen.all_points().max()) <= 1


def test_a_small_input_has_one_pattern_only():
    assert pattern_count(basis_of((5,))) == 1


def test_the_patterns_of_an_image_do_not_depend_on_its_company():
    problem, border, _ = setting()
    together, _ = PatternStart().search(problem, border)
    alone = problem_of(Plane(checkers(), 0.2 * D**0.5), torch.full((1, *SHAPE), 0.5), ids=[2])
    points, _ = PatternStart().search(alone, border.select(torch.tensor([2]))._replace(rows=torch.tensor([0])))
    assert torch.equal(points[0], together[2])
