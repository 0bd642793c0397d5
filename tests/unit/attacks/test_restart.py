from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_toys import Seen, border_of, locator, problem_of
from present import present
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.protocols import Move, Window
from popskipjump.attacks.searches.warm import WarmStartedSearch
from popskipjump.attacks.starts.restart import NoRestart, RestartIfLost, Restarts
from popskipjump.errors import InputError
from popskipjump.noise import Flip
from popskipjump.oracles import BaseModel, NoiseModel, Plane, Sphere

SHAPE = (3, 8, 8)
D = 192
COUNT = 3


def setting(model: BaseModel, *, noise: NoiseModel | None = None, **options: Any) -> tuple[Problem, Seen]:
    """Grey images, and what is asked about them."""
    seen = Seen(model, noise)
    return problem_of(seen, torch.full((COUNT, *SHAPE), 0.5), **options), seen


def lost(problem: Problem, seen: bool = False) -> Border:
    """A border on lines that lead to where nothing is adversarial."""
    return border_of(problem, problem.original + 0.1, 0.5, seen=torch.full((COUNT,), seen))


def turned(border: Border, angle: float) -> Move:
    return Move(border.outer, torch.full((COUNT,), angle, dtype=torch.float64))


def restarted(
    problem: Problem, border: Border, angle: float | None = 0.0, state: Restarts | None = None
) -> tuple[Border, Restarts]:
    """A restart after a step by an angle; 0 is a measurement of the ray as it is, None comes right after the start."""
    rule = RestartIfLost()
    move = None if angle is None else turned(border, angle)
    state = rule.begin(COUNT) if state is None else state
    return rule(problem, border, move, locator(WarmStartedSearch(), problem), state)


def far_plane() -> Plane:
    return Plane(-torch.ones(D), -0.3 * D)  # adversarial below a mean of 0.3


@pytest.mark.parametrize("angle", [0.0, None])
def test_an_image_whose_line_has_no_border_begins_elsewhere(angle: float | None) -> None:
    problem, _ = setting(far_plane(), noise=Flip(0.1))
    border, state = restarted(problem, lost(problem), angle)
    assert far_plane().labels(border.outer).tolist() == [1, 1, 1]
    assert float((border.distance / (0.2 * D**0.5) - 1).abs().max()) < 0.05
    assert state.made.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("seen", "angle"), [(True, 0.0), (True, None), (False, 0.3)])
def test_an_image_that_may_have_a_border_is_left_alone(seen: bool, angle: float | None) -> None:
    problem, asked = setting(far_plane())
    before = lost(problem, seen)
    assert restarted(problem, before, angle)[0] is before
    assert not asked.points


def test_an_image_whose_line_ends_on_the_adversarial_side_is_left_alone() -> None:
    problem, seen = setting(Plane(torch.ones(D), 0.55 * D))
    before = lost(problem)
    after, state = restarted(problem, before)
    assert torch.equal(after.outer, before.outer)
    assert torch.equal(seen.all_points().unique(), before.outer.unique())
    assert state.made.tolist() == [0, 0, 0]


def test_where_no_other_start_is_found_an_image_stays_where_it_is() -> None:
    problem, _ = setting(Sphere(torch.full((D,), 0.5), 100.0))
    before = lost(problem)
    assert torch.equal(restarted(problem, before)[0].point, before.point)


def test_a_targeted_attack_does_not_look_for_its_target_in_noise() -> None:
    problem, seen = setting(far_plane(), targets=torch.ones(COUNT, dtype=torch.int64))
    before = lost(problem)
    assert torch.equal(restarted(problem, before)[0].point, before.point)
    on_the_ray = torch.cat([problem.original + 0.1 * further for further in (1.0, 1.6, 2.5)])
    torch.testing.assert_close(seen.all_points().unique(dim=0), on_the_ray.unique(dim=0))


@pytest.mark.parametrize("targets", [None, torch.ones(COUNT, dtype=torch.int64)], ids=["untargeted", "targeted"])
@pytest.mark.parametrize("mean", [0.63, 0.7])
def test_an_image_that_has_come_too_near_finds_the_border_further_out_on_its_ray(
    mean: float, targets: Tensor | None
) -> None:
    """The line of `lost` ends at a mean of 0.6: what was gained on its ray is kept, instead of a guess far away."""
    problem, _ = setting(Plane(torch.ones(D), mean * D), noise=Flip(0.1), targets=targets)
    found, _ = restarted(problem, lost(problem))
    assert float((found.distance / ((mean - 0.5) * D**0.5) - 1).abs().max()) < 0.05
    ray = (found.point - problem.original) / found.distance.unsqueeze(1).float()
    torch.testing.assert_close(ray, torch.full_like(ray, D**-0.5))


def test_an_image_that_cannot_be_helped_is_not_helped_for_ever() -> None:
    problem, seen = setting(Sphere(torch.full((D,), 0.5), 100.0))
    before, state, asked = lost(problem), None, []
    for _ in range(5):
        _, state = restarted(problem, before, state=state)
        asked.append(len(seen.all_points()))
    assert asked[0] < asked[1] < asked[2] == asked[3] == asked[4]


def test_each_image_has_restarts_of_its_own() -> None:
    problem, seen = setting(far_plane())
    _, state = restarted(problem, lost(problem), state=Restarts(torch.tensor([3, 0, 2])))
    assert state.made.tolist() == [3, 1, 3]
    assert sorted(torch.cat(seen.images).unique().tolist()) == [1, 2]


def test_a_new_line_is_searched_as_a_whole_with_the_tolerance_of_the_step() -> None:
    problem, _ = setting(far_plane())
    border, windows = lost(problem), []
    search = locator(WarmStartedSearch(), problem)

    def locate(rows: Tensor, outer: Tensor, window: Window | None) -> Any:
        windows.append(window)
        return search(rows, outer, window)

    rule, half = RestartIfLost(), torch.full((COUNT,), 0.5, dtype=torch.float64)
    move = turned(border, 0.0)._replace(window=Window(half, half, torch.tensor([0.01, 0.02, 0.03])))
    rule(problem, border, move, locate, Restarts(torch.tensor([0, 3, 0])))
    assert [present(present(window).tolerance).tolist() for window in windows] == [pytest.approx([0.01, 0.03])]
    assert all(present(window).span.tolist() == [1.0, 1.0] for window in windows)


def test_without_restarts_every_image_stays_where_it_is() -> None:
    problem, seen = setting(far_plane())
    before = lost(problem)
    assert NoRestart()(problem, before, None, locator(WarmStartedSearch(), problem), ()) == (before, ())
    assert not seen.points


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"confirm_votes": 0}, {"votes": 0}, {"tries": 0}])
def test_a_restart_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        RestartIfLost(**wrong)
