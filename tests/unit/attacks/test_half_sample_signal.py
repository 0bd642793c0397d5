from __future__ import annotations

import math

import pytest
import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks.parts.halves import HalfSampleSignal
from popskipjump.attacks.parts.likeness import Likeness
from popskipjump.attacks.parts.number import NumberByGain
from popskipjump.attacks.parts.shaped import ShapedDirections
from popskipjump.errors import InputError
from popskipjump.oracles import PlanarSigmoid, Plane

IMAGES, D = 40, 60
ROWS = torch.arange(IMAGES)


def problem_with(floor: float = 0.0):
    """Originals at 0, and a plane at 1/2 of the first axis, met obliquely."""
    plane = Plane(unit(D), 0.5)
    problem = problem_of(
        plane, torch.zeros(IMAGES, D), noise=PlanarSigmoid(plane, math.inf, floor), bounds=(-10.0, 10.0)
    )
    return problem, border_of(problem, (unit(D) + unit(D, 1)).expand(IMAGES, D).clone(), 0.5)


@pytest.mark.parametrize("floor", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("shaped", [False, True])
def test_two_halves_agree_as_much_as_answer_and_normal(floor, shaped):
    signal = HalfSampleSignal(decay=0.5, doubt=100.0)
    problem, border = problem_with(floor)
    direction = ShapedDirections(
        number=NumberByGain(fewest=600, most=600),
        shaped=shaped,
        likeness=Likeness(power=0),
        local=False,
        contrast=None,
        signal=signal,
    )
    for iteration in range(1, 4):
        direction(problem, border, iteration)
    measured = signal.strength(problem, ROWS, torch.zeros(IMAGES, dtype=torch.float64))
    # Across the ray, where the directions lie, nothing but the floors weakens the answers.
    expected = (1 - 2 * floor) ** 2 * 2 / math.pi
    assert float(measured.mean()) == pytest.approx(expected, abs=4 * float(measured.std()) / IMAGES**0.5 + 0.03)
    assert problem.ledger.by_phase["direction"].tolist() == [3 * 600] * IMAGES


def test_few_answers_leave_the_expectation_and_many_replace_it():
    signal, expected = HalfSampleSignal(decay=0.0), torch.full((IMAGES,), 0.4, dtype=torch.float64)
    problem, _ = problem_with()
    assert signal.strength(problem, ROWS, expected).tolist() == pytest.approx(expected.tolist())
    even, one = torch.full((IMAGES, D), 1 / D), torch.full((IMAGES, D), 0.1)
    for pairs, near in ((1e-6, 0.4), (1e6, 1e-4)):
        signal.learn(problem, ROWS, (one, -one), torch.full((IMAGES,), pairs, dtype=torch.float64), even)
        assert signal.strength(problem, ROWS, expected).tolist() == pytest.approx([near] * IMAGES, abs=2e-3)


def test_answers_that_are_all_equal_measure_nothing():
    problem, border = problem_with()
    far = border._replace(point=border.point + 5 * unit(D))
    direction = ShapedDirections(signal=HalfSampleSignal(), number=NumberByGain(fewest=50, most=50))
    direction(problem, far, 1)
    assert problem.notes.read("agreement weight", ROWS, 0.0).tolist() == [0.0] * IMAGES


@pytest.mark.parametrize("make", [lambda: HalfSampleSignal(decay=1.0), lambda: HalfSampleSignal(doubt=0.0)])
def test_a_signal_that_cannot_work_is_refused(make):
    with pytest.raises(InputError):
        make()
