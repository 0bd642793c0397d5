from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from attack_toys import begun_at, border_of, problem_of, unit
from present import present

from popskipjump import Plane, Sphere, evaluate
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint
from popskipjump.attacks.base import run
from popskipjump.attacks.directions.adaptive.dct import basis_of
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.monte_carlo import LineSpread, MonteCarlo
from popskipjump.attacks.quick_skip_jump import QuickSkipJump
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.attacks.searches.warm import WarmStartedSearch
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.restart import NoRestart
from popskipjump.attacks.steps.arc import ArcStep
from popskipjump.attacks.steps.straight import FullStep
from popskipjump.evaluation import Report
from popskipjump.evaluation.inputs import AttackConfig
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


def attacked(
    dimension: int,
    budget: int,
    attack: AttackConfig | str = "qsj",
    norm: str = "l2",
    noise: str | None = None,
    **more: Any,
) -> tuple[Report, np.ndarray]:
    plane = plane_of(dimension)
    options: dict[str, Any] = {"budget": budget, "verdict": 0, "starts": starts_of(plane)} | more
    report = evaluate(plane, middle(dimension), ZEROS, attack, noise, norm, **options)
    return report, report.distances / plane.distance(middle(dimension), norm).numpy()


@pytest.mark.parametrize(("dimension", "budget", "near"), [(2, 600, 1.03), (100, 1000, 1.08), (3072, 1500, 1.5)])
def test_it_comes_near_the_nearest_point_of_a_plane(dimension: int, budget: int, near: float) -> None:
    report, ratio = attacked(dimension, budget)
    assert float(np.median(ratio)) < near
    assert float(ratio.min()) > 0.98  # nothing is nearer than the nearest point, but for the width of a search
    assert int(report.queries.max()) <= budget


def test_it_comes_near_the_nearest_point_of_a_plane_under_flips() -> None:
    _, ratio = attacked(100, 2000, noise="flip:0.1")
    assert 0.95 < float(np.median(ratio)) < 1.12


@pytest.mark.parametrize(("dimension", "budget", "near"), [(2, 600, 1.05), (100, 1500, 1.1)])
def test_it_comes_near_the_nearest_point_of_a_sphere_from_within(dimension: int, budget: int, near: float) -> None:
    sphere = Sphere(torch.full((dimension,), 0.5), 0.35)
    images = middle(dimension)
    images[:, 0] += 0.2
    report = evaluate(sphere, images, ZEROS, "qsj", budget=budget, verdict=0)
    assert float(np.median(report.distances / 0.15)) < near


@pytest.mark.parametrize("dimension", [2, 100])
def test_a_linf_attack_comes_nearer_than_its_start(dimension: int) -> None:
    plane = plane_of(dimension)
    begin = (starts_of(plane) - 0.5).abs().amax(dim=1).numpy()
    report, ratio = attacked(dimension, 800, norm="linf")
    assert (report.distances < begin).all()
    assert float(ratio.min()) > 0.98


def test_a_linf_attack_goes_on_coming_nearer() -> None:
    early, late = (
        np.concatenate([attacked(100, budget, norm="linf", seed=seed)[1] for seed in range(3)])
        for budget in (300, 1500)
    )
    assert float(np.mean(late)) < 0.97 * float(np.mean(early))


def test_a_linf_attack_comes_as_near_as_psj() -> None:
    quick, slow = (attacked(100, 1000, attack, "linf", starts=None)[1] for attack in ("qsj", "psj"))
    assert float(np.median(quick)) < 1.1 * float(np.median(slow))


def test_more_queries_come_nearer() -> None:
    ratios = [float(np.median(attacked(100, budget)[1])) for budget in (150, 400, 1200)]
    assert ratios == sorted(ratios, reverse=True)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_targeted_attack_ends_in_its_target(norm: str) -> None:
    """A returned point is in its target with a confidence of 95%: of 36, eleven fail with a probability of 9e-7."""
    plane = plane_of(30)
    goal = torch.ones(COUNT, dtype=torch.int64)
    runs = [attacked(30, 300, norm=norm, targets=goal, seed=seed) for seed in range(12)]
    points = torch.cat([torch.from_numpy(report.points) for report, _ in runs])
    assert int((plane.labels(points) == 1).sum()) >= len(points) - 10
    assert all(report.targets is not None and report.targets.tolist() == goal.tolist() for report, _ in runs)
    # Whichever side of the border they lie on, they lie within a step of it.
    assert float((plane.height(points) / 0.3).abs().max()) < 0.3
    if norm == "l2":
        assert float(np.median(np.concatenate([ratio for _, ratio in runs]))) < 1.2


@pytest.mark.parametrize("shape", [(100,), (1, 10, 10), (4, 5, 5), (2, 50)], ids=str)
def test_images_of_any_shape_are_attacked(shape: tuple[int, ...]) -> None:
    plane = plane_of(100)
    starts = starts_of(plane).reshape(COUNT, *shape)
    report = evaluate(plane, middle(100, shape), ZEROS, "qsj", budget=800, verdict=0, starts=starts)
    assert report.points.shape == (COUNT, *shape)
    assert float(np.median(report.distances / 0.3)) < 1.15


@pytest.mark.parametrize("budget", [1, 5, 20, 21, 40, 77, 150, 333])
@pytest.mark.parametrize("noise", [None, "flip:0.1"], ids=["clean", "flips"])
def test_a_budget_is_never_exceeded(budget: int, noise: str | None) -> None:
    report, _ = attacked(20, budget, noise=noise, verdict=10)
    assert int(report.queries.max()) <= budget


@pytest.mark.parametrize("budget", [300, 1000])
def test_nearly_all_of_a_budget_is_spent(budget: int) -> None:
    report, _ = attacked(100, budget)
    assert int(report.queries.min()) > 0.85 * budget  # a part is kept for confirming the point


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    first, second, other = (attacked(20, 400, noise="flip:0.1", seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(present(first.trace.points), present(second.trace.points))
    assert torch.equal(first.trace.queries, second.trace.queries)
    assert not torch.equal(present(first.trace.points), present(other.trace.points))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("noise", [None, "flip:0.1"], ids=["clean", "flips"])
@pytest.mark.parametrize("shape", [(20,), (3, 6, 6), (1, 28, 28)], ids=str)
def test_a_batch_of_three_equals_three_runs_of_one(norm: str, noise: str | None, shape: tuple[int, ...]) -> None:
    dimension = int(np.prod(shape))
    plane = plane_of(dimension)
    images = uniform(Key(11).roots(torch.arange(COUNT)), dimension) * 0.2 + 0.4
    labels = plane.labels(images)
    images = images.reshape(COUNT, *shape)
    options: dict[str, Any] = {"attack": "qsj", "noise": noise, "norm": norm, "budget": 500, "verdict": 0}
    together = evaluate(plane, images, labels, **options)
    for row in range(COUNT):
        one = slice(row, row + 1)
        alone = evaluate(plane, images[one], labels[one], image_ids=[row], **options)
        assert alone.points.tobytes() == together.points[one].tobytes()
        assert alone.queries.tolist() == together.queries[one].tolist()
        steps = len(alone.trace.distance)  # the trace of a batch is as long as that of its last image
        assert torch.equal(alone.trace.distance, together.trace.distance[:steps, one])
        assert torch.equal(present(alone.trace.points), present(together.trace.points)[:steps, one])
        assert alone.status == together.status[one]


def test_an_image_leaves_when_it_is_near_enough() -> None:
    far, _ = attacked(100, 1500)
    report, _ = attacked(100, 1500, stop_distance=0.36)
    assert [status.name for status in report.status] == ["CLOSE_ENOUGH"] * COUNT
    assert (report.distances <= 0.36).all()
    assert (report.queries < far.queries).all()


def test_it_starts_from_noise_when_nothing_else_is_given() -> None:
    report, ratio = attacked(20, 800, starts=None)
    assert np.isfinite(report.distances).all()
    assert float(np.median(ratio)) < 1.15


def test_a_classifier_that_cannot_be_fooled_ends_without_a_point() -> None:
    inside = Sphere(torch.full((20,), 0.5), 100.0)
    report = evaluate(inside, middle(20), ZEROS, "qsj", budget=500, verdict=0)
    assert [status.name for status in report.status] == ["NO_START"] * COUNT
    assert int(report.queries.max()) <= 500


OTHERS = {
    "not centred": {"direction": AdaptiveDirections(centring=0.0)},
    "no spectrum": {"direction": AdaptiveDirections(learn_spectrum=False)},
    "not tangential": {"direction": AdaptiveDirections(tangential=False)},
    "not local": {"direction": AdaptiveDirections(local=False)},
    "bounds unknown": {"direction": AdaptiveDirections(active_bounds=None)},
    "rivals alike": {"direction": AdaptiveDirections(rivals=None)},
    "small blocks": {"direction": AdaptiveDirections(block=7)},
    "directions of psj": {"direction": MonteCarlo(DirectionCount(), LineSpread(0.01), baseline=True)},
    "given start": {"start": GivenStart()},
    "nothing carried": {"search": WarmStartedSearch(keep=0.0)},
    "search of psj": {"search": BayesianSearch()},
    "straight step": {"step": FullStep(1.3)},
    "acceptance of psj": {"acceptance": UnlessFaint()},
    "no restart": {"restart": NoRestart()},
}


@pytest.mark.parametrize("parts", OTHERS.values(), ids=OTHERS)
def test_it_comes_most_of_the_way_with_any_one_part_replaced(parts: dict[str, Any]) -> None:
    """The starting line meets the plane at about 1.3 times its distance: the walk must take at least half of that."""
    report, ratio = attacked(60, 900, QuickSkipJump(**parts))
    first = report.trace.distance[0].numpy() / 0.3
    assert float(np.median(ratio)) > 0.98
    assert float(np.median(ratio)) - 1 < 0.5 * (max(float(np.median(first)), 1.3) - 1)
    assert int(report.queries.max()) <= 900


def excess(attack: QuickSkipJump, normal_: torch.Tensor, budget: int) -> float:
    """How much farther than the nearest point of a plane an attack ends on images of 12 x 12, from starts far off."""
    plane = Plane(normal_, float(normal_.sum() / 2) + 0.1 * 144)
    images = 0.5 + 0.02 * normal(Key(3).roots(torch.arange(8)), 144)
    along = normal_ / normal_.abs().mean() + 1.5 * normal(Key(4).roots(torch.arange(8)), 144)
    starts = (images + 0.45 * along.sign()).clamp(0, 1).reshape(8, 1, 12, 12)
    truth = torch.zeros(8, dtype=torch.int64)
    report = evaluate(plane, images.reshape(8, 1, 12, 12), truth, attack, starts=starts, budget=budget, verdict=0)
    return float(np.mean(report.border_distances / plane.distance(images).numpy())) - 1


CHECKERS = basis_of((1, 12, 12)).corners[0]
WAVES = torch.cos(torch.linspace(0, 2 * math.pi, 12)).repeat(12, 1).flatten() * 2**0.5
BARE = {"start": GivenStart(), "restart": NoRestart()}
NEAR = BARE | {"direction": AdaptiveDirections(far_mode=None)}  # the far mode turns by a ladder instead


@pytest.mark.parametrize(
    ("parts", "without", "normal_", "share"),
    [
        ({}, BARE, CHECKERS, 0.3),
        (BARE, BARE | {"direction": AdaptiveDirections(learn_spectrum=False)}, WAVES, 0.7),
        (NEAR, NEAR | {"step": FullStep(1.3)}, CHECKERS, 0.9),
    ],
    ids=["pattern start", "learned spectrum", "arc"],
)
def test_a_part_brings_it_nearer_where_the_part_is_made_for(
    parts: dict[str, Any], without: Any, normal_: Any, share: float
) -> None:
    """Measured excess of the distance: 0.00, 0.05 and 0.13 with the part, and 0.18, 0.17 and 0.18 without it."""
    assert excess(QuickSkipJump(**parts), normal_, 400) < share * excess(QuickSkipJump(**without), normal_, 400)


def test_it_needs_fewer_queries_than_psj_on_a_plane() -> None:
    quick, slow = (attacked(100, 700, attack)[1] for attack in ("qsj", "psj"))
    assert float(np.median(quick)) - 1 < 0.5 * (float(np.median(slow)) - 1)


def test_a_border_at_the_original_itself_gives_finite_numbers() -> None:
    original = torch.zeros(3, 60)
    plane = Plane(unit(60), 0.0)
    problem = problem_of(plane, original, noise=PlanarSigmoid(plane, 1.0, 0.1), bounds=(-10.0, 10.0))
    border = border_of(problem, unit(60).expand(3, 60).clone(), 1.0)
    assert border.distance.tolist() == [0.0] * 3
    direction, step, search = AdaptiveDirections(), ArcStep(), WarmStartedSearch()
    known, angle, prior = direction.begin(problem, begun_at(border)), step.begin(3), search.begin(3)
    no = torch.zeros(3, dtype=torch.bool)
    for iteration in (1, 2, 3):
        gradient, known = direction(problem, border, iteration, known)
        move = step(problem, border, gradient, no, iteration, angle)
        found, prior = search(problem, border.rows, move.outer, move.window, iteration, border, prior)
        angle = step.learn(problem, border, found, move, angle)
        for values in (gradient, move.outer, found.point, found.deviation, found.width, angle.angle):
            assert bool(torch.isfinite(values).all())


@pytest.mark.parametrize("slope", [1.25, 0.8])  # transitions of width 0.2 and 0.31, at a distance of 0.2
@pytest.mark.slow
def test_near_a_border_that_is_wider_than_the_distance_its_points_do_not_drift_to_the_wrong_side(slope: float) -> None:
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
def test_inputs_of_any_shape_are_attacked(shape: tuple[int, ...]) -> None:
    plane = plane_of(int(np.prod(shape)), height=0.2)
    starts = starts_of(plane).reshape(COUNT, *shape)
    report = evaluate(plane, middle(0, shape), ZEROS, "qsj", budget=400, verdict=0, starts=starts)
    assert float(np.median(report.distances)) < 1.3 * 0.2
    assert report.points.shape == (COUNT, *shape)


def test_an_attack_takes_the_same_way_wherever_the_channels_are() -> None:
    plane = plane_of(192, height=0.2)
    moved = Plane(plane.normal.reshape(3, 8, 8).movedim(0, -1).flatten(), plane.offset)
    starts = starts_of(plane).reshape(COUNT, 3, 8, 8)
    first = evaluate(plane, middle(0, (3, 8, 8)), ZEROS, "qsj", budget=300, verdict=0, starts=starts)
    last = evaluate(moved, middle(0, (8, 8, 3)), ZEROS, "qsj", budget=300, verdict=0, starts=starts.movedim(1, -1))
    np.testing.assert_allclose(last.distances, first.distances, rtol=1e-3)


@pytest.mark.parametrize("dimension", [5, 100])
@pytest.mark.slow
def test_a_false_start_does_not_cost_the_image(dimension: int) -> None:
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
