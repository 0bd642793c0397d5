from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from listening import listening
from noise_toys import roots
from torch import nn

from popskipjump.errors import InputError, OracleError
from popskipjump.noise import Ensemble
from popskipjump.oracles import FunctionModel


def counting(label: int, calls: list[int], classes: int | None = None) -> FunctionModel:
    return listening(lambda batch: calls.append(len(batch)), label, classes)


def test_every_answer_is_asked_of_one_member_only() -> None:
    calls: list[list[int]] = [[], [], []]
    first, *others = (counting(label, calls[label]) for label in range(3))
    answers = Ensemble(others).sample(first, torch.zeros(900, 1), roots(900))
    assert [sum(c) for c in calls] == torch.bincount(answers, minlength=3).tolist()
    assert all(len(c) == 1 for c in calls)


def test_a_member_without_a_row_is_not_asked() -> None:
    calls: list[list[int]] = [[], []]
    answer = Ensemble([counting(1, calls[1])]).sample(counting(0, calls[0]), torch.zeros(1, 1), roots(1))
    assert calls[int(answer)] == [1]
    assert calls[1 - int(answer)] == []


def test_members_are_equally_likely() -> None:
    noise = Ensemble([counting(1, []), counting(2, [])])
    counts = torch.bincount(noise.sample(counting(0, []), torch.zeros(6000, 1), roots(6000)))
    assert float(((counts.double() - 2000) ** 2 / 2000).sum()) < 2 + 5 * 2


def test_each_member_sees_the_rows_it_answers() -> None:
    rows = torch.arange(200.0).unsqueeze(1)
    double = FunctionModel(lambda x: (2 * x[:, 0]).astype(int))
    triple = FunctionModel(lambda x: (3 * x[:, 0]).astype(int))
    answers = Ensemble([triple]).sample(double, rows, roots(200))
    ratio = answers[1:] / rows[1:, 0]
    assert set(ratio.tolist()) == {2.0, 3.0}


def test_the_truth_is_the_share_of_members() -> None:
    noise = Ensemble([lambda x: np.ones(len(x), int), nn.Linear(1, 3), counting(1, [], 3)])
    probabilities = noise.truth(counting(0, []), torch.zeros(2, 1)).probabilities
    assert probabilities.shape == (2, 3)
    assert (probabilities[:, 1] >= 0.5).all()
    assert (probabilities * 4 == (probabilities * 4).round()).all()


def test_unknown_classes_have_no_truth() -> None:
    with pytest.raises(InputError, match="number of classes"):
        Ensemble([lambda x: np.ones(len(x), int)]).truth(counting(0, []), torch.zeros(2, 1))


def test_a_label_beyond_all_known_classes_is_an_error() -> None:
    with pytest.raises(OracleError, match="label 9"):
        Ensemble([counting(9, [])]).truth(counting(0, [], 3), torch.zeros(2, 1))


@pytest.mark.parametrize("members", [[], (), None, 3, nn.Sequential(nn.Linear(1, 2))])
def test_no_list_of_members_is_an_error(members: Any) -> None:
    with pytest.raises(InputError, match="list of one or more classifiers"):
        Ensemble(members)


def test_a_member_that_is_no_classifier_is_an_error() -> None:
    with pytest.raises(InputError, match="int is no classifier"):
        Ensemble([3])
