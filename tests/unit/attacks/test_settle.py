from __future__ import annotations

import math

import pytest
import torch
from attack_toys import problem_of, unit
from torch import Tensor

from popskipjump.attacks.settle import Line, Settle, log_evidence
from popskipjump.attacks.settle.evidence import threshold
from popskipjump.oracles import PlanarSigmoid, Plane

COUNT = 60
WIDTH = 0.05  # of the transition, in units of the distance

both_kinds = pytest.mark.parametrize("sharp", [True, False], ids=["sharp", "gradual"])


def kind(sharp: bool, like: Tensor) -> Tensor:
    return torch.full(like.shape, sharp)


def gradual_lines(beyond: float) -> Line:
    """Lines of length 2 across a plane at half of it; their safe positions are some widths beyond the border."""
    rows, one = torch.arange(COUNT), torch.ones(COUNT, dtype=torch.float64)
    outer = 2 * unit(3).repeat(COUNT, 1)
    safe = 0.5 - beyond * WIDTH / 2
    return Line(rows, outer, safe * one, 0.5 * one, WIDTH / 2 * one, 0.01 * one, 0.01 * one, kind(False, one))


@both_kinds
@pytest.mark.parametrize("asked", [1, 8, 40])
def test_the_mean_evidence_of_a_fair_coin_is_one(sharp: bool, asked: int) -> None:
    yes = torch.arange(asked + 1)
    ways = torch.tensor([math.comb(asked, count) for count in yes.tolist()], dtype=torch.float64)
    evidence = log_evidence(yes, torch.full_like(yes, asked), kind(sharp, yes))
    assert float((ways / 2**asked * evidence.exp()).sum()) == pytest.approx(1.0, abs=1e-9)


@both_kinds
def test_all_positions_of_an_image_share_its_level(sharp: bool) -> None:
    place = torch.arange(10_000)
    assert float((-threshold(0.01, place, kind(sharp, place))).exp().sum()) <= 0.01


def test_eight_agreeing_answers_confirm_at_a_sharp_border() -> None:
    asked = torch.tensor([7, 8])
    sharp = kind(True, asked)
    enough = log_evidence(asked, asked, sharp) >= threshold(0.01, torch.zeros_like(asked), sharp)
    assert enough.tolist() == [False, True]


def test_on_a_gradual_border_a_test_does_not_begin_at_the_border_itself() -> None:
    problem = problem_of(
        Plane(unit(3), 1.0),
        torch.zeros(COUNT, 3),
        noise=PlanarSigmoid(Plane(unit(3), 1.0), 1 / (4 * WIDTH)),
        seed=3,
        bounds=(0.0, 3.0),
    )
    settled = Settle()(problem, gradual_lines(0.1), torch.full((COUNT,), 2.0), torch.zeros(COUNT, dtype=torch.int64))
    assert bool(settled.confirmed.all())
    assert float(settled.points[:, 0].min()) > 1 + 0.85 * WIDTH
    # From the border itself the median was 150; from P = 0.7 on a test takes about 70.
    assert float(settled.total.double().median()) < 100


def test_a_point_that_is_far_enough_out_stays_where_it_is() -> None:
    plane = Plane(unit(3), 1.0)
    problem = problem_of(
        plane, torch.zeros(COUNT, 3), noise=PlanarSigmoid(plane, 1 / (4 * WIDTH)), seed=3, bounds=(0.0, 3.0)
    )
    settled = Settle()(problem, gradual_lines(2.0), torch.full((COUNT,), 2.0), torch.zeros(COUNT, dtype=torch.int64))
    assert float((settled.points[:, 0] < 1 + 2.01 * WIDTH).double().mean()) > 0.9
