from __future__ import annotations

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks.parts.accept import Nearer
from popskipjump.oracles import Plane


def setting(before=0.5, found=0.5):
    """One image, whose border was at a distance before and was now found at another."""
    problem = problem_of(Plane(unit(3), 0.5), torch.zeros(1, 3))
    outer = unit(3).unsqueeze(0)
    return problem, border_of(problem, outer, 1 - found), border_of(problem, outer, 1 - before)


def noted(problem, name: str) -> float:
    return float(problem.notes.read(name, torch.tensor([0]), -1.0))


def test_a_nearer_border_is_taken_and_a_further_one_is_not():
    assert Nearer()(*setting(0.5, 0.4)).tolist() == [True]
    assert Nearer()(*setting(0.5, 0.6)).tolist() == [False]


@pytest.mark.parametrize(("doubt", "taken"), [(0.02, False), (0.08, True)])
def test_a_further_border_is_taken_if_both_may_be_equally_far(doubt, taken):
    problem, found, before = setting(0.5, 0.6)
    problem.notes.write("doubt", found.rows, torch.full((1,), doubt, dtype=torch.float64))
    assert Nearer(slack=2.0)(problem, found, before).tolist() == [taken]


def test_what_is_kept_keeps_its_own_doubt():
    problem, found, before = setting(0.5, 0.6)
    problem.notes.write("doubt", found.rows, torch.full((1,), 0.02, dtype=torch.float64))
    Nearer()(problem, found, before)
    assert noted(problem, "kept") == 0
    near = border_of(problem, unit(3).unsqueeze(0), 0.6)
    Nearer()(problem, near, before)
    assert noted(problem, "kept") == pytest.approx(0.02)


def test_a_border_that_was_not_seen_is_not_taken():
    problem, found, before = setting(0.5, 0.4)
    problem.notes.write("missing", found.rows, torch.ones(1, dtype=torch.float64))
    assert Nearer()(problem, found, before).tolist() == [False]


def test_after_some_refusals_in_a_row_the_ray_is_to_be_measured_again():
    problem, found, before = setting(0.5, 0.6)
    asked = []
    for _ in range(3):
        Nearer(patience=3)(problem, found, before)
        asked.append(noted(problem, "again"))
    assert asked == [0.0, 0.0, 1.0]


def test_a_success_starts_the_count_of_refusals_anew():
    problem, far, before = setting(0.5, 0.6)
    near = border_of(problem, unit(3).unsqueeze(0), 0.6)
    for found in (far, far, near, far):
        Nearer(patience=3)(problem, found, before)
    assert noted(problem, "refused") == 1
    assert noted(problem, "again") == 0


def test_a_ray_that_was_measured_again_counts_whatever_it_is():
    problem, found, before = setting(0.5, 0.6)
    problem.notes.write("turned", found.rows, torch.zeros(1, dtype=torch.float64))
    assert Nearer()(problem, found, before).tolist() == [True]
    assert noted(problem, "reached") == float(found.distance)
