"""What a report says is confirmed is adversarial; what is not is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from evaluation_toys import PLANE, Troubled, images_of, zeros
from torch import Tensor

from popskipjump import InputError, OracleError, Plane, Retry, Settle, Status, evaluate
from popskipjump.evaluation import Report
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.metrics import anytime_interval
from popskipjump.rng import Key, uniform

every_attack = pytest.mark.parametrize("attack", ["psj", "qsj", "hsj"])


def names(report: Report) -> list[str]:
    return [status.name for status in report.status]


@every_attack
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("d", [2, 30])
def test_without_noise_every_confirmed_point_is_adversarial_and_takes_eight_answers(
    attack: AttackConfig | str, norm: str, d: int
) -> None:
    plane = Plane(torch.ones(d), d / 2)
    images = uniform(Key(4).roots(torch.arange(30)), d)
    labels = plane.labels(images)
    report = evaluate(plane, images, labels, attack, norm=norm, budget=400)
    alone = torch.cat([plane.labels(point[None]) for point in torch.from_numpy(report.points)])
    assert report.success.all()
    assert (alone != labels).all()
    assert set(names(report)) == {"BUDGET_SPENT"}
    assert np.median(report.queries_by_phase["settle"]) == 8
    assert report.queries.max() <= 400


@every_attack
def test_a_settled_point_is_hardly_further_out_without_noise(attack: AttackConfig | str) -> None:
    report = evaluate(PLANE, images_of(), zeros(), attack, iterations=5)
    added = np.log(report.distances / report.walked)
    assert (added != 0).all()  # the margin, or the gain of a nearer line
    assert added.max() < 1e-3


def test_a_budget_that_ends_before_a_start_is_found_is_too_small() -> None:
    report = evaluate(PLANE, images_of(), zeros(), budget=2)
    assert names(report) == ["BUDGET_TOO_SMALL"] * 3


def test_all_images_misclassified_hints_at_labels_and_preprocessing() -> None:
    report = evaluate(PLANE, images_of(), zeros() + 1)
    assert names(report) == ["MISCLASSIFIED"] * 3
    assert "check that labels count from 0" in report.warnings[0]
    assert "WARNING: the classifier gives another class to every image" in str(report)


@pytest.mark.parametrize("calls", [3, 20, 45])
def test_one_failure_costs_a_single_image_nothing(calls: int) -> None:
    waits: list[Any] = []

    def trouble(oracle: Troubled, image: Tensor) -> None:
        if oracle.calls == calls:
            raise TimeoutError("no answer")

    report = evaluate(Troubled(trouble), images_of(1), zeros(1), "qsj", budget=300, retry=Retry(sleep=waits.append))
    assert names(report) == ["BUDGET_SPENT"]
    assert report.success.all()
    assert waits == [0.1]


def test_a_single_image_that_fails_for_good_leaves_its_report_with_the_error() -> None:
    def trouble(oracle: Troubled, image: Tensor) -> None:
        if oracle.calls > 40:
            raise TimeoutError("no answer")

    with pytest.raises(OracleError) as caught:
        evaluate(Troubled(trouble), images_of(1), zeros(1), "qsj", budget=300, retry=Retry(wait=0))
    report: Any = caught.value.report
    assert names(report) == ["ORACLE_FAILED"]
    assert math.isfinite(report.distances[0])
    assert not report.success[0]
    assert report.messages == {0: "TimeoutError: no answer"}


class Half(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 2).to(dtype)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[-1.0] * 6, [1.0] * 6]))
            self.layer.bias.copy_(torch.tensor([3.0, -3.0]))

    def forward(self, points: Tensor) -> Tensor:
        result: Tensor = self.layer(points.flatten(1))
        return result


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_module_is_asked_in_its_own_type(dtype: torch.dtype) -> None:
    report = evaluate(Half(dtype), images_of(), zeros(), "qsj", budget=300)
    assert report.success.all()


def test_logits_that_are_not_a_number_are_named() -> None:
    module = Half(torch.float32)
    module.layer.bias.data[0] = math.nan
    with pytest.raises(OracleError, match=r"not a number \(NaN\) for"):
        evaluate(module, images_of(), zeros(), "qsj", budget=300, retry=Retry(wait=0))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"budget": 10**30}, "budget must be at most"),
        ({"iterations": 10**9}, "iterations must be at most"),
        ({"stop_distance": "near"}, "stop_distance must be"),
        ({"stop_distance": math.nan}, "stop_distance must be"),
        ({"stop_distance": -1}, "stop_distance must be"),
        ({"image_ids": [1, 2, 1]}, "image_ids must differ"),
        ({"seed": "x"}, "seed must be an integer"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"votes": 10**30}, "votes must be a whole number from 1 to"),
        ({"norm": 2}, "norm must be"),
        ({"settle": 0.01}, r"settle must be an object such as `Settle\(\)`"),
        ({"retry": 5}, r"retry must be an object such as `Retry\(\)`"),
        ({"bounds": (0, 1e30)}, "bounds must lie within"),
        ({"bounds": (1e6, 1e6 + 1)}, "float32 has only"),
    ],
)
def test_numbers_that_mean_nothing_are_refused_before_the_first_query(what: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(lambda batch: pytest.fail("it was asked"), images_of(), zeros(), **what)


def test_random_answers_are_confirmed_as_rarely_as_the_level_says() -> None:
    """2,000 coins at a level of 5%: 100 expected at most; 170 or more have a probability below 1e-10."""
    tosses = uniform(Key(8).roots(torch.arange(2000)), 200) < 0.5
    yes, asked = tosses.cumsum(dim=1), torch.arange(1, 201).expand(2000, -1)
    low, _ = anytime_interval(yes.flatten(), asked.flatten(), 0.95)
    assert int((low.reshape(2000, 200) > 0.5).any(dim=1).sum()) < 170


def test_a_lower_level_takes_more_answers() -> None:
    report = evaluate(PLANE, images_of(), zeros(), "hsj", iterations=1, settle=Settle(level=1e-6))
    assert report.queries_by_phase["settle"].tolist() == [22] * 3
    assert set(report.status) == {Status.FINISHED}
