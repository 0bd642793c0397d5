from __future__ import annotations

import pytest
import torch
from attack_toys import Seen, border_of, problem_of

from popskipjump.attacks.parts.basis import basis_of
from popskipjump.attacks.parts.carried import CarriedSearch
from popskipjump.attacks.parts.patterns import PatternStart, pattern_count
from popskipjump.errors import InputError
from popskipjump.geometry import l2_size
from popskipjump.noise import Flip
from popskipjump.oracles import Plane, Sphere
from popskipjump.rng import Key, normal

SHAPE = (3, 8, 8)
D = 192


def checkers() -> torch.Tensor:
    return basis_of(SHAPE).corners[0]


def setting(model=None, *, norm="l2", count=3, **options):
    """Grey images, and starting points far out in a random direction, all of them adversarial for the default."""
    model = Plane(checkers(), 0.2 * D**0.5) if model is None else model
    seen = Seen(model)
    original = torch.full((count, *SHAPE), 0.5)
    problem = problem_of(seen if "noise" not in options else model, original, norm=norm, **options)
    start = original.flatten(1) + 0.5 * normal(Key(1).roots(torch.arange(count)), D).sign()
    return problem, start, seen


def searched(problem, start, **options):
    return PatternStart(**options).search(problem, torch.arange(len(start)), start)


def begun(problem, start):
    return PatternStart()(problem, torch.arange(len(start)), start, CarriedSearch())


def sizes(problem, points):
    return problem.norm.size(points - problem.original).double()


def test_a_classifier_that_falls_for_checkers_is_found_out():
    problem, start, _ = setting()
    best = searched(problem, start)
    assert float((best.distance / sizes(problem, start)).max()) < 0.5
    assert torch.allclose(best.distance, l2_size(best.point - problem.original).double())


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_every_point_that_is_found_is_adversarial_and_nearer(norm, seed):
    unit = checkers() + 4 * normal(Key(seed).root(), D)[0]
    model = Plane(unit, float(unit.sum() / 2) + 0.3 * float(unit.norm()))
    problem, start, _ = setting(model, norm=norm)
    best = searched(problem, start)
    moved = sizes(problem, best.point) < sizes(problem, start)
    assert bool((model.labels(best.point)[moved] == 1).all())
    assert torch.equal(best.point[~moved], start[~moved])


def test_the_starting_line_is_followed_inward():
    unit = torch.ones(D) / D**0.5
    problem, _, _ = setting(Plane(unit, float(unit.sum() / 2) + 0.5))
    start = problem.original + 0.5  # at 0.5 D**0.5 = 6.9 along the normal, of which 0.5 are needed
    best = searched(problem, start)
    assert 0.5 <= float(best.distance.min()) <= float(best.distance.max()) <= 0.5 / 0.6


def test_where_nothing_helps_a_line_costs_two_queries_and_each_pattern_one_and_nothing_changes():
    problem, start, _ = setting(Sphere(torch.full((D,), 0.5), 100.0))
    best = searched(problem, start)
    assert torch.equal(best.point, start)
    assert problem.ledger.total.tolist() == [2 + pattern_count(basis_of(SHAPE))] * 3
    assert problem.ledger.by_phase["start"].tolist() == problem.ledger.total.tolist()


def test_a_targeted_attack_tries_no_pattern():
    problem, start, _ = setting(Sphere(torch.full((D,), 0.5), 100.0), targets=torch.ones(3, dtype=torch.int64))
    searched(problem, start)
    assert problem.ledger.total.tolist() == [2] * 3


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_border_behind_a_pattern_is_found(norm):
    problem, start, _ = setting(norm=norm)
    border = begun(problem, start)
    assert bool((border.distance < 0.5 * sizes(problem, start)).all())
    height = Plane(checkers(), 0.2 * D**0.5).height(border.point).abs()
    assert float((height / problem.norm.size(border.point - problem.original)).max()) < 0.12 * D**0.5
    assert problem.notes.read("missing", border.rows, 1.0).sum() == 0


class LyingAtFirst:
    """Calls everything adversarial for some queries, and then answers as another classifier does."""

    def __init__(self, model, count) -> None:
        self.model, self.left = model, count

    def ask(self, points, ticket):
        self.left -= len(points)
        return torch.ones(len(points), dtype=torch.int64) if self.left >= 0 else self.model.labels(points)


def test_a_pattern_that_was_a_mistake_leads_back_to_the_line_of_the_start():
    """The first answers lie about everything: all patterns seem adversarial, and no border is found behind them."""
    unit = torch.ones(D) / D**0.5
    plane = Plane(unit, float(unit.sum() / 2) + 2.0)
    lies = LyingAtFirst(plane, 300)
    problem = problem_of(lies, torch.full((3, *SHAPE), 0.5))
    border = begun(problem, problem.original + 0.5)
    assert float((border.distance - 2.0).abs().max()) < 0.3


@pytest.mark.parametrize("budget", [1, 7, 8, 30])
def test_the_patterns_keep_to_the_budget(budget):
    problem, start, _ = setting(budget=budget)
    searched(problem, start)
    assert int(problem.ledger.total.max()) <= budget


def test_flipped_answers_do_not_make_a_start():
    model = Sphere(torch.full((D,), 0.5), 100.0)
    problem, start, _ = setting(model, count=40, noise=Flip(0.1))
    best = searched(problem, start)
    # On the line: 1.1% for a lead of two flips. Patterns: the same for each, and then a majority of seven.
    assert int((best.distance < sizes(problem, start)).sum()) <= 4


def test_no_pattern_leaves_the_bounds():
    problem, start, seen = setting()
    searched(problem, start)
    assert 0 <= float(seen.all_points().min()) <= float(seen.all_points().max()) <= 1


def test_a_small_input_has_one_pattern_only():
    assert pattern_count(basis_of((5,))) == 1


def test_the_patterns_of_an_image_do_not_depend_on_its_company():
    problem, start, _ = setting()
    together = searched(problem, start)
    alone = problem_of(Plane(checkers(), 0.2 * D**0.5), torch.full((1, *SHAPE), 0.5), ids=[2])
    assert torch.equal(searched(alone, start[2:]).point[0], together.point[2])


@pytest.mark.parametrize(
    "wrong", [{"within": 1.0}, {"shrink": 0.0}, {"votes": 0}, {"shrinks": 0}, {"assured": 0}, {"tries": 0}]
)
def test_a_pattern_start_refuses_what_cannot_work(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))}.*(shares|at least 1)"):
        PatternStart(**wrong)


def lost(problem, missing: float = 1.0, turned: float = 0.0):
    """A border on lines that lead to where nothing is adversarial, after a look at the rays as they are."""
    count = len(problem.original)
    rows, nowhere = torch.arange(count), problem.original + 0.1
    problem.notes.write("missing", rows, torch.full((count,), missing, dtype=torch.float64))
    problem.notes.write("turned", rows, torch.full((count,), turned, dtype=torch.float64))
    return border_of(problem, nowhere, 0.5)


def far_plane() -> Plane:
    return Plane(-torch.ones(D), -0.3 * D)  # adversarial below a mean of 0.3


def test_an_image_whose_line_has_no_border_begins_elsewhere():
    problem, *_ = setting(far_plane(), noise=Flip(0.1))
    begun_anew = PatternStart().anew(problem, lost(problem), CarriedSearch())
    assert far_plane().labels(begun_anew.outer).tolist() == [1, 1, 1]
    assert float((begun_anew.distance / (0.2 * D**0.5) - 1).abs().max()) < 0.05


@pytest.mark.parametrize("notes", [{"missing": 0.0}, {"turned": 0.3}])
def test_an_image_that_may_have_a_border_is_left_alone(notes):
    problem, _, seen = setting(far_plane())
    before = lost(problem, **notes)
    assert PatternStart().anew(problem, before, CarriedSearch()) is before
    assert not seen.points


def test_an_image_whose_line_ends_on_the_adversarial_side_is_left_alone():
    problem, _, seen = setting(Plane(torch.ones(D), 0.55 * D))
    before = lost(problem)
    after = PatternStart().anew(problem, before, CarriedSearch())
    assert torch.equal(after.outer, before.outer)
    assert torch.equal(seen.all_points().unique(), before.outer.unique())


def test_where_no_other_start_is_found_an_image_stays_where_it_is():
    problem, _, _ = setting(Sphere(torch.full((D,), 0.5), 100.0))
    before = lost(problem)
    assert torch.equal(PatternStart().anew(problem, before, CarriedSearch()).point, before.point)


def test_a_targeted_attack_does_not_look_for_its_target_in_noise():
    problem, _, seen = setting(far_plane(), targets=torch.ones(3, dtype=torch.int64))
    before = lost(problem)
    assert PatternStart().anew(problem, before, CarriedSearch()) is before
    on_the_ray = torch.cat([problem.original + 0.1 * further for further in (1.0, 1.6, 2.5)])
    torch.testing.assert_close(seen.all_points().unique(dim=0), on_the_ray.unique(dim=0))


@pytest.mark.parametrize("targets", [None, torch.ones(3, dtype=torch.int64)], ids=["untargeted", "targeted"])
@pytest.mark.parametrize("mean", [0.63, 0.7])
def test_an_image_that_has_come_too_near_finds_the_border_further_out_on_its_ray(mean, targets):
    """The line of `lost` ends at a mean of 0.6: what was gained on its ray is kept, instead of a guess far away."""
    problem, *_ = setting(Plane(torch.ones(D), mean * D), noise=Flip(0.1), targets=targets)
    found = PatternStart().anew(problem, lost(problem), CarriedSearch())
    assert float((found.distance / ((mean - 0.5) * D**0.5) - 1).abs().max()) < 0.05
    ray = (found.point - problem.original) / found.distance.unsqueeze(1).float()
    torch.testing.assert_close(ray, torch.full_like(ray, D**-0.5))


def test_an_image_that_cannot_be_helped_is_not_helped_for_ever():
    problem, _, seen = setting(Sphere(torch.full((D,), 0.5), 100.0))
    before, asked = lost(problem), []
    for _ in range(5):
        PatternStart().anew(problem, before, CarriedSearch())
        asked.append(len(seen.all_points()))
    assert asked[0] < asked[1] < asked[2] == asked[3] == asked[4]
