from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attack_toys import begun_at, border_of, problem_of, unit
from present import present
from torch import Tensor

from popskipjump.attacks import (
    ATTACKS,
    AttackResult,
    Border,
    HopSkipJump,
    PopSkipJump,
    Problem,
    Step,
    run,
)
from popskipjump.attacks.acceptance.if_nearer import AcceptIfNearer
from popskipjump.attacks.acceptance.unless_faint import FlatLines, UnlessFaint
from popskipjump.attacks.border import merge
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.monte_carlo import LineSpread, MonteCarlo, TrueDirection
from popskipjump.attacks.protocols import Acceptance, Begun, Decision, Locate, Move, Window
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.attacks.searches.bisection import BinarySearch
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.restart import NoRestart
from popskipjump.attacks.steps.arc import ArcState, ArcStep
from popskipjump.attacks.steps.straight import FullStep, HalvingStep
from popskipjump.attacks.walk import BoundaryWalk, WalkState
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.oracles import BaseModel, PlanarSigmoid, Plane
from popskipjump.sigmoid import Estimate
from popskipjump.types import Status

D = 8


def plane_problem(count: int = 3, **options: Any) -> Problem:
    plane = Plane(unit(D), 0.3)
    return problem_of(plane, torch.zeros(count, D), **options)


def attack(config: AttackConfig, problem: Problem, **options: Any) -> AttackResult:
    count = len(problem.original)
    status = [Status.RUNNING] * count
    return run(config.build(D), problem, torch.arange(count), torch.full((count, D), 0.7), status, **options)


def estimate(count: int, value: float) -> Estimate:
    return Estimate(*(torch.full((count,), value, dtype=torch.float64) for _ in range(4)))


@pytest.mark.parametrize("config", [PopSkipJump(iterations=8), HopSkipJump(iterations=8)], ids=["psj", "hsj"])
def test_a_walk_comes_near_the_border_of_a_plane(config: AttackConfig) -> None:
    result = attack(config, plane_problem())
    assert [s.name for s in result.status] == ["FINISHED"] * 3
    assert float(result.trace.distance[0].min()) > 0.7
    assert float(result.distances.max()) < 0.36
    assert float(result.distances.min()) > 0.29
    torch.testing.assert_close(result.points.norm(dim=1).double(), result.distances, rtol=1e-5, atol=1e-6)


def test_the_trace_holds_every_iteration() -> None:
    problem = plane_problem()
    result = attack(PopSkipJump(iterations=4), problem)
    trace = result.trace
    assert trace.distance.shape == trace.queries.shape == trace.centre.shape == trace.gap.shape == (5, 3)
    assert present(trace.points).shape == (5, 3, D)
    torch.testing.assert_close(present(trace.points).norm(dim=2).double(), trace.distance, rtol=1e-5, atol=1e-6)
    assert bool((trace.queries.diff(dim=0) > 0).all())
    settled = problem.ledger.by_phase["settle"]
    assert (trace.queries[-1] + settled).tolist() == problem.ledger.total.tolist()
    for value in trace.centre, trace.slope, trace.low, trace.high, trace.gap:
        assert bool(torch.isfinite(value).all())
    torch.testing.assert_close((1 - trace.centre) * trace.gap, trace.distance, rtol=1e-4, atol=1e-5)


def test_a_trace_without_points_keeps_none() -> None:
    assert attack(PopSkipJump(iterations=1), plane_problem(), keep_points=False).trace.points is None


def test_an_attack_without_a_model_of_the_noise_has_no_estimate() -> None:
    result = attack(HopSkipJump(iterations=1), plane_problem())
    assert result.estimate is None
    assert bool(result.trace.centre.isnan().all())


def test_the_last_estimate_is_that_of_the_last_search() -> None:
    result = attack(PopSkipJump(iterations=2), plane_problem())
    assert torch.equal(present(result.estimate).centre, result.trace.centre[-1])
    torch.testing.assert_close(present(result.estimate).slope, result.trace.slope[-1])


def test_no_iteration_is_the_first_search_alone() -> None:
    problem = plane_problem()
    result = attack(PopSkipJump(iterations=0), problem)
    assert [s.name for s in result.status] == ["FINISHED"] * 3
    assert set(problem.ledger.by_phase) == {"search", "settle"}


def test_an_image_near_enough_leaves() -> None:
    problem = plane_problem()
    result = attack(PopSkipJump(iterations=10), problem, stop_distance=0.5)
    assert [s.name for s in result.status] == ["CLOSE_ENOUGH"] * 3
    assert float(result.distances.max()) <= 0.5
    assert int(problem.ledger.total.max()) < 700
    assert torch.equal(result.trace.distance[-1], result.trace.distance[-2])


def test_progress_is_told_after_every_iteration() -> None:
    told: list[Any] = []
    problem = plane_problem()
    attack(HopSkipJump(iterations=3), problem, on_progress=told.append)
    assert [p.iteration for p in told] == [0, 1, 2, 3]
    assert {p.iterations for p in told} == {3}
    assert {p.images for p in told} == {3}
    assert told[-1].queries == int((problem.ledger.total - problem.ledger.by_phase["settle"]).sum())


def test_merge_takes_row_by_row() -> None:
    problem = plane_problem(2)
    outer = unit(D).expand(2, D)
    old = border_of(problem, outer, 0.2, estimate=estimate(2, 0.2))
    new = border_of(problem, outer, 0.6, estimate=estimate(2, 0.6))
    merged = merge(torch.tensor([True, False]), new, old)
    assert merged.position.tolist() == [0.6, 0.2]
    assert merged.point[:, 0].tolist() == pytest.approx([0.4, 0.8])
    assert merged.distance.tolist() == pytest.approx([0.4, 0.8])
    assert present(merged.estimate).centre.tolist() == [0.6, 0.2]


def test_a_refused_border_still_tells_how_wide_the_transition_is_now() -> None:
    problem = plane_problem(2)
    old, new = (
        border_of(problem, unit(D).expand(2, D), 0.2, **{name: torch.full((2,), value) for name in ("width", "lost")})
        for value in (0.1, 0.3)
    )
    merged = merge(torch.tensor([True, False]), new, old)
    assert torch.equal(merged.width, new.width)
    assert torch.equal(merged.lost, new.lost)


def test_select_takes_all_that_is_known_of_an_image() -> None:
    problem = plane_problem(3)
    border = border_of(problem, unit(D).expand(3, D), torch.tensor([0.1, 0.2, 0.3]), estimate=estimate(3, 0.5))
    one = border.select(torch.tensor([False, False, True]))
    assert one.rows.tolist() == [2]
    assert one.position.tolist() == pytest.approx([0.3])
    assert one.point.shape == (1, D)
    assert present(one.estimate).centre.shape == (1,)


class Cut:
    """A search that the budget ends: it asks all but `left` queries and returns a place that means nothing."""

    def __init__(self, left: int, per_step: int) -> None:
        self.left, self.per_step = left, per_step

    def begin(self, images: int) -> tuple[()]:
        return ()

    def __call__(
        self,
        problem: Problem,
        rows: Tensor,
        outer: Tensor,
        window: Window | None,
        iteration: int,
        previous: Border | None,
        state: Any,
    ) -> tuple[Border, Any]:
        for _ in range(int(problem.affordable(rows).min()) - self.left):
            problem.decide(outer.clone(), rows, "search")
        return border_of(problem, outer, 0.01, settled=torch.zeros(len(rows), dtype=torch.bool)), state


class At:
    """A start at a known border."""

    def __init__(self, position: float) -> None:
        self.position = position

    def __call__(self, problem: Problem, rows: Tensor, start: Tensor, locate: Locate) -> Begun:
        return begun_at(border_of(problem, start, self.position))


def walk_of(**parts: Any) -> BoundaryWalk[Any, Any, Any, Any, Any]:
    plain: dict[str, Any] = {
        "start": At(0.7),
        "direction": MonteCarlo(DirectionCount(base=50), LineSpread(0.01)),
        "step_rule": FullStep(),
        "search": BinarySearch(),
        "acceptance": UnlessFaint(),
        "restart": NoRestart(),
        "iterations": 1,
    }
    return BoundaryWalk(**(plain | parts))


@pytest.mark.parametrize(("left", "per_step", "kept"), [(0, 1, True), (3, 5, True), (5, 5, False), (1, 1, False)])
def test_a_search_that_the_budget_cut_short_does_not_replace_the_border_before_it(
    left: int, per_step: int, kept: bool
) -> None:
    problem = plane_problem(2, budget=200)
    walk = walk_of(search=Cut(left, per_step))
    before = walk.init(problem, torch.arange(2), unit(D).expand(2, D))
    after = walk.step(problem, before, 1)
    assert bool(torch.equal(after.border.position, before.border.position)) is kept


def test_a_step_of_a_walk_goes_on_from_a_step_of_a_walk() -> None:
    problem = plane_problem(2)
    border = border_of(problem, unit(D).expand(2, D), 0.7)
    with pytest.raises(TypeError, match="goes on from a step of a walk"):
        walk_of().step(problem, Step(border, {}), 1)


def memory_of(step: Step) -> WalkState[Any, Any, Any, Any, Any]:
    """What a walk keeps between its iterations."""
    assert isinstance(step.memory, WalkState)
    return step.memory


def parts_of(config: AttackConfig, dimension: int) -> Any:
    """A built attack, whose parts are known to the test and not to its type."""
    return config.build(dimension)


class Refusing:
    """Refuses every border, and wants the ray of one image measured again."""

    def begin(self, images: int) -> tuple[()]:
        return ()

    def __call__(self, problem: Problem, found: Border, before: Border, move: Move, state: Any) -> tuple[Decision, Any]:
        no = torch.zeros(len(found.rows), dtype=torch.bool)
        return Decision(no, found.rows == 1, no), state


def test_a_refused_border_leaves_the_one_before_and_the_next_step_measures_the_ray_that_is_asked_for() -> None:
    problem = plane_problem(3)
    walk = walk_of(acceptance=Refusing())
    now = first = walk.init(problem, torch.arange(3), unit(D).expand(3, D))
    for iteration in (1, 2):
        now = walk.step(problem, now, iteration)
        assert torch.equal(now.border.point, first.border.point)
        assert memory_of(now).remeasure.tolist() == [False, True, False]


@pytest.mark.parametrize("acceptance", [AcceptIfNearer(), UnlessFaint()], ids=["if nearer", "unless faint"])
def test_an_arc_learns_its_angle_whatever_accepts_its_borders(acceptance: Acceptance[Any]) -> None:
    """Without its angle learned, the walk ended three times as far from the optimum, without a word."""
    problem = plane_problem(6)
    walk = walk_of(
        step_rule=ArcStep(), search=BayesianSearch(), acceptance=acceptance, start=GivenStart(), iterations=9
    )
    status = [Status.RUNNING] * 6
    result = run(walk, problem, torch.arange(6), torch.full((6, D), 0.7), status)
    angle_kept = walk_of(
        step_rule=ArcStep(rate=0.0), search=BayesianSearch(), acceptance=acceptance, start=GivenStart()
    )
    assert float(result.distances.median()) < 0.33
    for rule, moved in ((walk, True), (angle_kept, False)):
        problem = plane_problem(6)
        now = rule.init(problem, torch.arange(6), torch.full((6, D), 0.7))
        before = memory_of(now).step.angle
        after = memory_of(rule.step(problem, now, 1)).step.angle
        assert torch.equal(before, after) is not moved


def test_the_state_of_a_walk_keeps_the_images_that_stay() -> None:
    rows = torch.arange(3)
    state = WalkState(
        rows=rows,
        remeasure=torch.tensor([True, False, True]),
        search=(),
        direction=FlatLines(torch.tensor([1, 2, 3])),
        step=ArcState(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.1, 0.2, 0.3])),
        acceptance=(),
        restart=None,
    )
    left = state.of(torch.tensor([0, 2]))
    assert left.remeasure.tolist() == [True, True]
    assert left.direction.in_a_row.tolist() == [1, 3]
    assert left.step.angle.tolist() == pytest.approx([0.1, 0.3])
    assert state.of(rows) is state


def test_an_image_that_cannot_pay_a_step_leaves_with_what_it_has() -> None:
    problem = plane_problem(2, budget=torch.tensor([60, 10_000]))
    result = attack(PopSkipJump(iterations=2), problem)
    assert [s.name for s in result.status] == ["BUDGET_SPENT", "FINISHED"]
    assert math.isfinite(float(result.distances[0]))


class Noise:
    """Answers without regard to the input."""

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        return (roots >> 7) & 1


@pytest.mark.parametrize(
    "choice",
    [
        {},
        pytest.param({"estimate": "map"}, marks=pytest.mark.slow),
        pytest.param({"sample_size": "posterior"}, marks=pytest.mark.slow),
    ],
    ids=["default", "map", "posterior"],
)
def test_pure_noise_ends_without_a_signal(choice: dict[str, Any]) -> None:
    problem = plane_problem(20, noise=Noise())
    result = attack(PopSkipJump(**choice), problem)
    lost = torch.tensor([s.name == "NO_SIGNAL" for s in result.status])
    assert {s.name for s in result.status} <= {"NO_SIGNAL", "FLAT"}
    assert float(lost.double().mean()) > 0.8  # a first search may be fooled, a second hardly
    assert bool(torch.isinf(result.distances[lost]).all())
    assert torch.equal(result.points[lost], problem.original[lost])
    assert float(problem.ledger.total.double().mean()) < 3000


@pytest.mark.parametrize(("slope", "floor"), [(math.inf, 0.3), (1.0, 0.0), (2.0, 0.15)])
@pytest.mark.slow
def test_a_border_in_much_noise_is_not_called_pure_noise(slope: float, floor: float) -> None:
    plane = Plane(unit(D), 0.3)
    problem = problem_of(plane, torch.zeros(10, D), noise=PlanarSigmoid(plane, slope, floor))
    result = attack(PopSkipJump(iterations=1, count=DirectionCount(limit=2000)), problem)
    assert {s.name for s in result.status} == {"FINISHED"}


def test_psj_has_the_settings_of_both_data_sets() -> None:
    mnist, cifar = (parts_of(PopSkipJump(), dimension) for dimension in (784, 3072))
    assert (mnist.search.grid.positions, cifar.search.grid.positions) == (101, 301)
    assert (mnist.direction.spread.part, cifar.direction.spread.part) == (1 / 100, 1 / 300)
    assert mnist.search.spread == mnist.direction.spread.part


def test_hsj_is_composed_as_published() -> None:
    walk = parts_of(HopSkipJump(), 100)
    assert isinstance(walk.search, BinarySearch)
    assert isinstance(walk.step_rule, HalvingStep)
    assert walk.direction.sphere
    assert walk.direction.baseline
    assert walk.direction.count.limit == 10_000


def test_hsj_with_the_radius_of_psj_keeps_the_ratio_of_precision_and_radius() -> None:
    walk = parts_of(HopSkipJump(psj_radius=True), 400)
    assert walk.direction.spread.part == pytest.approx(0.2)
    assert walk.search.theta == pytest.approx(0.01)


def test_the_true_gradient_is_a_part_of_psj() -> None:
    assert isinstance(ATTACKS["psj-true-gradient"]().build(10).direction, TrueDirection)


def test_one_floor_is_a_pair_of_equal_ones() -> None:
    search = PopSkipJump(floors=(0.0, (0.01, 0.1), 0.2)).build(10).search
    assert isinstance(search, BayesianSearch)
    assert search.grid.floors == ((0.0, 0.0), (0.01, 0.1), (0.2, 0.2))


@pytest.mark.parametrize("arguments", [{"acquisition": "luck"}, {"estimate": "median"}, {"sample_size": "guess"}])
def test_an_unknown_choice_is_an_error_that_names_the_known_ones(arguments: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError, match="choose one of"):
        PopSkipJump(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"per_step": 0},
        {"check_every": 0},
        {"search_limit": 0},
        {"spread_over": 0.0},
        {"spread_over": 1.1},
        {"confidence": 1.0},
        {"enlarge": 0.9},
    ],
)
def test_settings_out_of_range_are_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must be|at least"):
        PopSkipJump(**arguments)


@pytest.mark.parametrize("arguments", [{"radius": 0.0}, {"radius": 0.1, "psj_radius": True}])
def test_an_impossible_radius_is_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="radius"):
        HopSkipJump(**arguments)
