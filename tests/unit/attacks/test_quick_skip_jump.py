from __future__ import annotations

import numpy as np
import pytest
import torch
from attack_toys import Seen, border_of, problem_of, unit

from popskipjump import InputError, Plane, Sphere, evaluate
from popskipjump.attacks.base import run
from popskipjump.attacks.parts.advance import ArcStep, FullStep
from popskipjump.attacks.parts.basis import basis_of
from popskipjump.attacks.parts.carried import CarriedSearch
from popskipjump.attacks.parts.halves import HalfSampleSignal
from popskipjump.attacks.parts.length import LengthByWidth
from popskipjump.attacks.parts.likeness import Likeness
from popskipjump.attacks.parts.number import NumberByGain
from popskipjump.attacks.parts.shaped import ShapedDirections
from popskipjump.attacks.quick_skip_jump import QuickSkipJump
from popskipjump.metrics import border_distance
from popskipjump.noise import Flip
from popskipjump.oracles import PlanarSigmoid
from popskipjump.rng import Key, normal, uniform
from popskipjump.types import Status

COUNT = 3
ZEROS = torch.zeros(COUNT, dtype=torch.int64)


def plane_of(dimension: int, height: float = 0.3) -> Plane:
    """A plane with a random normal, at a known distance from the middle of the unit cube."""
    unit = normal(Key(7).root(), dimension)[0]
    unit = unit / unit.norm()
    return Plane(unit, float(unit.sum() / 2) + height)


def middle(dimension: int, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    return torch.full((COUNT, *(shape or (dimension,))), 0.5)


def starts_of(plane: Plane, share: float = 0.8) -> torch.Tensor:
    """Corners of the cube on the far side of the plane, with some coordinates left alone."""
    chosen = uniform(Key(3).roots(torch.arange(COUNT)), len(plane.normal)) < share
    return 0.5 + 0.5 * torch.sign(plane.normal) * chosen


def attacked(dimension: int, budget: int, attack="qsj", norm="l2", noise=None, **options):
    plane = plane_of(dimension)
    options = {"budget": budget, "verdict": 0, "starts": starts_of(plane)} | options
    report = evaluate(plane, middle(dimension), ZEROS, attack, noise, norm, **options)
    return report, report.distances / plane.distance(middle(dimension), norm).numpy()


@pytest.mark.parametrize(("dimension", "budget", "near"), [(2, 600, 1.03), (100, 1000, 1.08), (3072, 1500, 1.5)])
def test_it_comes_near_the_nearest_point_of_a_plane(dimension, budget, near):
    report, ratio = attacked(dimension, budget)
    assert float(np.median(ratio)) < near
    assert float(ratio.min()) > 0.98  # nothing is nearer than the nearest point, but for the width of a search
    assert int(report.queries.max()) <= budget


def test_it_comes_near_the_nearest_point_of_a_plane_under_flips():
    _, ratio = attacked(100, 2000, noise="flip:0.1")
    assert 0.95 < float(np.median(ratio)) < 1.12


@pytest.mark.parametrize(("dimension", "budget", "near"), [(2, 600, 1.05), (100, 1500, 1.1)])
def test_it_comes_near_the_nearest_point_of_a_sphere_from_within(dimension, budget, near):
    sphere = Sphere(torch.full((dimension,), 0.5), 0.35)
    images = middle(dimension)
    images[:, 0] += 0.2
    report = evaluate(sphere, images, ZEROS, "qsj", budget=budget, verdict=0)
    assert float(np.median(report.distances / 0.15)) < near


@pytest.mark.parametrize("dimension", [2, 100])
def test_a_linf_attack_comes_nearer_than_its_start(dimension):
    plane = plane_of(dimension)
    begin = (starts_of(plane) - 0.5).abs().amax(dim=1).numpy()
    report, ratio = attacked(dimension, 800, norm="linf")
    assert (report.distances < begin).all()
    assert float(ratio.min()) > 0.98


def test_a_linf_attack_goes_on_coming_nearer():
    early, late = (
        np.concatenate([attacked(100, budget, norm="linf", seed=seed)[1] for seed in range(3)])
        for budget in (300, 1500)
    )
    assert float(np.mean(late)) < 0.95 * float(np.mean(early))


def test_a_linf_attack_comes_as_near_as_psj():
    quick, slow = (attacked(100, 1000, attack, "linf", starts=None)[1] for attack in ("qsj", "psj"))
    assert float(np.median(quick)) < 1.1 * float(np.median(slow))


def test_more_queries_come_nearer():
    ratios = [float(np.median(attacked(100, budget)[1])) for budget in (150, 400, 1200)]
    assert ratios == sorted(ratios, reverse=True)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_targeted_attack_ends_in_its_target(norm):
    plane = plane_of(30)
    goal = torch.ones(COUNT, dtype=torch.int64)
    report, ratio = attacked(30, 800, norm=norm, targets=goal)
    assert plane.labels(torch.from_numpy(report.points)).tolist() == goal.tolist()
    assert report.targets is not None
    if norm == "l2":
        assert float(np.median(ratio)) < 1.1


@pytest.mark.parametrize("shape", [(100,), (1, 10, 10), (4, 5, 5), (2, 50)], ids=str)
def test_images_of_any_shape_are_attacked(shape):
    plane = plane_of(100)
    starts = starts_of(plane).reshape(COUNT, *shape)
    report = evaluate(plane, middle(100, shape), ZEROS, "qsj", budget=800, verdict=0, starts=starts)
    assert report.points.shape == (COUNT, *shape)
    assert float(np.median(report.distances / 0.3)) < 1.15


@pytest.mark.parametrize("budget", [1, 5, 20, 21, 40, 77, 150, 333])
@pytest.mark.parametrize("noise", [None, "flip:0.1"], ids=["clean", "flips"])
def test_a_budget_is_never_exceeded(budget, noise):
    report, _ = attacked(20, budget, noise=noise, verdict=10)
    assert int(report.queries.max()) <= budget


@pytest.mark.parametrize("budget", [300, 1000])
def test_nearly_all_of_a_budget_is_spent(budget):
    report, _ = attacked(100, budget)
    assert int(report.queries.min()) > 0.85 * budget


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    first, second, other = (attacked(20, 400, noise="flip:0.1", seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first.trace.points, second.trace.points)
    assert torch.equal(first.trace.queries, second.trace.queries)
    assert not torch.equal(first.trace.points, other.trace.points)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("noise", [None, "flip:0.1"], ids=["clean", "flips"])
@pytest.mark.parametrize("shape", [(20,), (3, 6, 6)], ids=str)
def test_a_batch_of_three_equals_three_runs_of_one(norm, noise, shape):
    dimension = int(np.prod(shape))
    plane = plane_of(dimension)
    images = uniform(Key(11).roots(torch.arange(COUNT)), dimension) * 0.2 + 0.4
    labels = plane.labels(images)
    images = images.reshape(COUNT, *shape)
    options = {"attack": "qsj", "noise": noise, "norm": norm, "budget": 500, "verdict": 0}
    together = evaluate(plane, images, labels, **options)
    for row in range(COUNT):
        one = slice(row, row + 1)
        alone = evaluate(plane, images[one], labels[one], image_ids=[row], **options)
        assert alone.points.tobytes() == together.points[one].tobytes()
        assert alone.queries.tolist() == together.queries[one].tolist()
        steps = len(alone.trace.distance)  # the trace of a batch is as long as that of its last image
        assert torch.equal(alone.trace.distance, together.trace.distance[:steps, one])
        assert torch.equal(alone.trace.points, together.trace.points[:steps, one])
        assert alone.status == together.status[one]


def test_an_image_leaves_when_it_is_near_enough():
    far, _ = attacked(100, 1500)
    report, _ = attacked(100, 1500, stop_distance=0.36)
    assert [status.name for status in report.status] == ["CLOSE_ENOUGH"] * COUNT
    assert (report.distances <= 0.36).all()
    assert (report.queries < far.queries).all()


def test_it_starts_from_noise_when_nothing_else_is_given():
    report, ratio = attacked(20, 800, starts=None)
    assert np.isfinite(report.distances).all()
    assert float(np.median(ratio)) < 1.15


def test_a_classifier_that_cannot_be_fooled_ends_without_a_point():
    inside = Sphere(torch.full((20,), 0.5), 100.0)
    report = evaluate(inside, middle(20), ZEROS, "qsj", budget=500, verdict=0)
    assert [status.name for status in report.status] == ["NO_START"] * COUNT
    assert int(report.queries.max()) <= 500


OTHERS = {
    "unbalanced": {"direction": ShapedDirections(balance=0.0)},
    "not shaped": {"direction": ShapedDirections(shaped=False)},
    "not tangential": {"direction": ShapedDirections(tangential=False)},
    "no patterns": {"start": None},
    "nothing carried": {"search": CarriedSearch(keep=0.0)},
    "small parts": {"direction": ShapedDirections(part=7)},
    "measured signal": {"direction": ShapedDirections(signal=HalfSampleSignal())},
}


@pytest.mark.parametrize("parts", OTHERS.values(), ids=OTHERS)
def test_it_works_without_any_one_of_its_parts(parts):
    _, ratio = attacked(60, 1200, QuickSkipJump(**parts))
    assert 0.98 < float(np.median(ratio)) < 1.25


def test_a_straight_step_can_take_the_place_of_the_arc():
    report, _ = attacked(60, 800, QuickSkipJump(advance=FullStep()))
    assert np.isfinite(report.distances).all()
    assert int(report.queries.max()) <= 800


def test_it_needs_fewer_queries_than_psj_on_a_plane():
    quick, slow = (attacked(100, 700, attack)[1] for attack in ("qsj", "psj"))
    assert float(np.median(quick)) - 1 < 0.5 * (float(np.median(slow)) - 1)


def test_later_iterations_ask_in_more_directions():
    asked = {}
    for iteration in (10, 20, 50):
        plane = Plane(unit(60), 0.5)
        problem = problem_of(plane, torch.zeros(3, 60), bounds=(-10.0, 10.0))
        border = border_of(problem, (unit(60) + unit(60, 1)).expand(3, 60).clone(), 0.5)
        ShapedDirections(number=NumberByGain(fewest=1, doubling=30), likeness=Likeness(power=0))(
            problem, border, iteration
        )
        asked[iteration] = problem.ledger.by_phase["direction"].to(torch.float64).mean()
    once = asked[10] / (1 + 10 / 30)
    for iteration, count in asked.items():
        assert float(count) == pytest.approx(float(once) * (1 + iteration / 30), abs=2)
    assert asked[50] > asked[10] + 3


@pytest.mark.parametrize(("iteration", "faster"), [(4, 1.0), (40, 1 + 5 * 32 / 80)])
def test_where_the_border_is_gradual_late_iterations_ask_in_still_more_directions(iteration, faster):
    def asked(unjudged: float) -> float:
        problem = problem_of(Plane(unit(60), 0.5), torch.zeros(3, 60), bounds=(-10.0, 10.0))
        border = border_of(problem, (unit(60) + unit(60, 1)).expand(3, 60).clone(), 0.5)
        problem.notes.write("width", border.rows, torch.full((3,), 1e3, dtype=torch.float64))  # nothing but gradual
        ShapedDirections(number=NumberByGain(most=100_000, unjudged=unjudged), likeness=Likeness(power=0))(
            problem, border, iteration
        )
        return float(problem.ledger.by_phase["direction"].to(torch.float64).mean())

    assert asked(5.0) / asked(0.0) == pytest.approx(faster, rel=0.02)


def asked_like_the_first_change(iteration: int, tried: float, width: float) -> float:
    """How much of the directions lies in the frequencies of a first change by checkers, before any answer."""
    basis = basis_of((1, 12, 12))
    seen = Seen(Plane(basis.corners[0], 1.0))
    problem = problem_of(seen, torch.full((1, 1, 12, 12), 0.5))
    for name, value in (("patterns tried", tried), ("width", width)):
        problem.notes.write(name, torch.arange(1), torch.full((1,), value, dtype=torch.float64))
    border = border_of(problem, 0.5 + 0.2 * basis.corners[:1], 0.5)
    ShapedDirections(local=False, number=NumberByGain(most=400))(problem, border, iteration)
    points = seen.all_points()
    energy = basis.by_band(basis.to_coefficients(points - points.mean(dim=0)) ** 2).sum(dim=0)
    return float(energy[-1] / energy.sum())


def test_where_no_patterns_were_tried_the_first_change_is_trusted_less():
    tried, untried = (asked_like_the_first_change(1, value, width=0.0) for value in (1.0, 0.0))
    assert tried > 1.1 * untried


def test_where_the_border_is_gradual_the_first_change_counts_longer():
    sharp, gradual = (asked_like_the_first_change(60, 1.0, width) for width in (0.0, 0.3))
    assert gradual > 1.3 * sharp


def test_a_border_at_the_original_itself_gives_finite_numbers():
    original = torch.zeros(3, 60)
    plane = Plane(unit(60), 0.0)
    problem = problem_of(plane, original, noise=PlanarSigmoid(plane, 1.0, 0.1), bounds=(-10.0, 10.0))
    border = border_of(problem, unit(60).expand(3, 60).clone(), 1.0)
    assert border.distance.tolist() == [0.0] * 3
    direction, advance, search = ShapedDirections(), ArcStep(), CarriedSearch()
    for iteration in (1, 2, 3):
        gradient = direction(problem, border, iteration)
        outer = advance(problem, border, gradient, iteration)
        assert bool(torch.isfinite(gradient).all())
        assert bool(torch.isfinite(outer).all())
        found = search(problem, border.rows, outer, iteration, border)
        assert bool(torch.isfinite(found.point).all())


@pytest.mark.parametrize(
    "make",
    [
        lambda: LengthByWidth(radius=0),
        lambda: LengthByWidth(reach=-1.0),
        lambda: LengthByWidth(widths=-1.0),
        lambda: NumberByGain(fewest=10, most=5),
        lambda: NumberByGain(factor=0),
        lambda: ShapedDirections(part=0),
        lambda: NumberByGain(doubling=0),
        lambda: ShapedDirections(decay=2),
        lambda: Likeness(power=-1),
        lambda: Likeness(fading=1.5),
        lambda: Likeness(trust=-0.1),
        lambda: Likeness(untried=1.1),
        lambda: NumberByGain(unjudged=-1.0),
        lambda: ShapedDirections(balance=-0.1),
        lambda: ShapedDirections(least=0.0),
        lambda: CarriedSearch(keep=-0.1),
        lambda: CarriedSearch(fewest=400),
        lambda: ArcStep(first=2.0),
        lambda: ArcStep(margin=1.0),
    ],
)
def test_a_part_that_cannot_work_is_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("slope", [1.25, 0.8])  # transitions of width 0.2 and 0.31, at a distance of 0.2
def test_near_a_border_that_is_wider_than_the_distance_its_points_do_not_drift_to_the_wrong_side(slope):
    plane = plane_of(20, 0.0)
    noise = PlanarSigmoid(plane, slope)
    near = 0.5 + 0.1 * normal(Key(2).roots(torch.arange(24)), 20)
    near = near - (plane.height(near) + 0.2).unsqueeze(1) * plane.normal
    report = evaluate(plane, near, plane.labels(near), "qsj", noise, budget=1500, verdict=0)
    height = plane.height(torch.as_tensor(report.points))
    assert 0 < float(height.median()) < 0.2
    assert float((height > 0).double().mean()) > 0.7


@pytest.mark.parametrize(
    "shape", [(8, 8, 1), (8, 8, 3), (3, 8, 8), (64, 1), (16, 1, 1), (1, 1, 20), (20, 2), (7, 1)], ids=str
)
def test_inputs_of_any_shape_are_attacked(shape):
    plane = plane_of(int(np.prod(shape)), height=0.2)
    starts = starts_of(plane).reshape(COUNT, *shape)
    report = evaluate(plane, middle(0, shape), ZEROS, "qsj", budget=400, verdict=0, starts=starts)
    assert float(np.median(report.distances)) < 1.3 * 0.2
    assert report.points.shape == (COUNT, *shape)


def test_an_attack_takes_the_same_way_wherever_the_channels_are():
    plane = plane_of(192, height=0.2)
    moved = Plane(plane.normal.reshape(3, 8, 8).movedim(0, -1).flatten(), plane.offset)
    starts = starts_of(plane).reshape(COUNT, 3, 8, 8)
    first = evaluate(plane, middle(0, (3, 8, 8)), ZEROS, "qsj", budget=300, verdict=0, starts=starts)
    last = evaluate(moved, middle(0, (8, 8, 3)), ZEROS, "qsj", budget=300, verdict=0, starts=starts.movedim(1, -1))
    np.testing.assert_allclose(last.distances, first.distances, rtol=1e-3)


@pytest.mark.parametrize("dimension", [5, 100])
def test_a_false_start_does_not_cost_the_image(dimension):
    """At 25% flips, one guess in ten that is not adversarial wins three of five votes."""
    plane = plane_of(dimension, height=0.15)
    images = 0.45 + 0.1 * uniform(Key(9).roots(torch.arange(20)), dimension)
    starts = 0.5 - 0.3 * plane.normal / plane.normal.norm() + torch.zeros_like(images)  # away from the border
    truth = plane.labels(images)
    problem = problem_of(plane, images, truth, noise=Flip(0.25))
    walk = QuickSkipJump(iterations=8).build(dimension)
    result = run(walk, problem, torch.arange(20), starts, [Status.RUNNING] * 20)
    met = torch.isfinite(border_distance(plane, images, result.points, truth))
    assert int(met.sum()) >= 18
