from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from noise_toys import roots
from torch import nn

from popskipjump.errors import InputError, OracleError
from popskipjump.noise import Flip
from popskipjump.oracles import FunctionModel, TorchModel

MANY = 20_000


def constant(label: int, classes: int | None = None) -> FunctionModel:
    return FunctionModel(lambda x: np.full(len(x), label), classes)


def test_every_answer_is_flipped_at_rate_one() -> None:
    assert (Flip(1.0).sample(constant(3, 10), torch.zeros(MANY, 1), roots(MANY)) != 3).all()


def test_the_label_stays_with_probability_one_minus_the_rate() -> None:
    same = Flip(0.1).sample(constant(3, 10), torch.zeros(MANY, 1), roots(MANY)) == 3
    assert abs(float(same.float().mean()) - 0.9) < 5 * (0.09 / MANY) ** 0.5


def test_flipped_answers_are_uniform_over_the_other_labels() -> None:
    answers = Flip(1.0).sample(constant(3, 10), torch.zeros(MANY, 1), roots(MANY))
    counts = torch.bincount(answers, minlength=10)
    assert counts[3] == 0
    expected = MANY / 9
    others = counts[torch.arange(10) != 3].double()
    chi_square = float(((others - expected) ** 2 / expected).sum())  # 8 degrees of freedom
    assert chi_square < 8 + 5 * 16**0.5


def test_the_two_floors_differ_with_ten_classes() -> None:
    truth = Flip(0.1).truth(constant(3, 10), torch.zeros(1, 1))
    assert float(truth.probabilities[0, 3]) == pytest.approx(0.9)
    assert float(truth.probabilities[0, 4]) == pytest.approx(0.1 / 9)


def test_two_classes_swap() -> None:
    assert (Flip(1.0).sample(constant(0, 2), torch.zeros(50, 1), roots(50)) == 1).all()


def test_classes_of_the_noise_win_over_the_models() -> None:
    answers = Flip(1.0, classes=3).sample(constant(0), torch.zeros(200, 1), roots(200))
    assert set(answers.tolist()) == {1, 2}


def test_a_torch_model_is_asked_for_its_classes_first() -> None:
    layer = nn.Linear(2, 5)
    nn.init.constant_(layer.bias, 0.0)  # class 0 at the origin
    model = TorchModel(layer)
    assert model.classes is None
    assert set(Flip(1.0).sample(model, torch.zeros(500, 2), roots(500)).tolist()) == {1, 2, 3, 4}


def test_an_unknown_number_of_classes_names_the_argument_to_pass() -> None:
    with pytest.raises(InputError, match=r"pass `classes=`, as in Flip\(0.1, classes=10\)"):
        Flip(0.1).sample(constant(0), torch.zeros(1, 1), roots(1))


def test_an_unknown_number_of_classes_is_found_before_the_first_query() -> None:
    with pytest.raises(InputError, match="classes="):
        Flip(0.1).check(FunctionModel(lambda x: pytest.fail("asked")), (1,))


def test_a_label_beyond_the_classes_is_an_error() -> None:
    with pytest.raises(OracleError, match="label 7, but it is said to have 5 classes"):
        Flip(0.1, classes=5).sample(constant(7), torch.zeros(1, 1), roots(1))


def test_a_single_class_cannot_be_flipped() -> None:
    with pytest.raises(InputError, match="2 or more classes"):
        Flip(0.1).sample(constant(0, 1), torch.zeros(1, 1), roots(1))


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_rate_out_of_range_is_an_error(rate: float) -> None:
    with pytest.raises(InputError, match=r"flip rate must be in \[0, 1\]"):
        Flip(rate)


@pytest.mark.parametrize("rate", ["0.1", None, True])
def test_a_rate_that_is_no_number_is_an_error(rate: Any) -> None:
    with pytest.raises(InputError, match="flip rate must be a number"):
        Flip(rate)


def test_fewer_than_two_classes_is_an_error() -> None:
    with pytest.raises(InputError, match="classes must be a whole number of at least 2"):
        Flip(0.1, classes=1)


def test_an_integer_rate_is_the_same_value() -> None:
    one: Any = np.float32(1.0)
    assert Flip(1) == Flip(one)
