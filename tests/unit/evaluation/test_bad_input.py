"""What can be known before the first query is an error before the first query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from evaluation_toys import Asked, images_of, zeros
from torch import Tensor

from popskipjump import BoundaryAttack, HopSkipJump, InputError, Pool, PopSkipJump, UnknownNameError, evaluate
from popskipjump.noise import Flip
from popskipjump.oracles import Ticket


def refused(match: str, error: type[Exception] = InputError, **changes: Any) -> None:
    """`evaluate` raises an error that says what is wrong, and nothing was asked."""
    asked = Asked()
    arguments: dict[str, Any] = {"model": asked, "images": images_of(), "labels": zeros(), "iterations": 1} | changes
    with pytest.raises(error, match=match):
        evaluate(**arguments)
    assert asked.count == 0


def changed(row: int, value: float) -> torch.Tensor:
    images = images_of()
    images[row, 0, 1, 1] = value
    return images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(6), r"shape \(images, \.\.\.\)"),
        (torch.zeros(()), r"shape \(images, \.\.\.\)"),
        (torch.zeros(0, 6), "at least one image"),
        (torch.zeros(3, 0), "at least one image"),
        (np.zeros(4), "a single image needs a leading 1"),
        ([[0.1, 0.2], [0.3]], "one array of numbers"),
        (np.array([["a", "b"]]), "one array of numbers"),
        (None, "images must"),
        (torch.zeros(3, 6, dtype=torch.complex64), "real numbers"),
        (torch.zeros(3, 6, dtype=torch.bool), "real numbers"),
        (np.zeros((3, 6), dtype=bool), "real numbers"),
    ],
)
def test_images_of_a_wrong_shape_or_type_are_refused(images: Any, message: str) -> None:
    refused(message, images=images)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_pixels_that_are_not_finite_are_refused_with_their_rows(value: float) -> None:
    refused(r"1 of 3 images hold values that are not finite \(rows 1\)", images=changed(1, value))


@pytest.mark.parametrize("value", [-0.001, 1.001, 255.0])
def test_values_outside_the_bounds_are_refused_with_their_rows(value: float) -> None:
    refused(r"1 of 3 images leave the bounds \(0, 1\) \(rows 2\).*pass other `bounds`", images=changed(2, value))


def test_many_bad_rows_are_not_all_listed() -> None:
    refused(r"\(rows 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\)", images=torch.full((20, 4), 2.0), labels=zeros(20))


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, 0.0), (0.0, math.nan), (-math.inf, 1.0), (0.0,), 3, ("a", "b")])
def test_bounds_that_are_no_interval_are_refused(bounds: Any) -> None:
    refused("bounds must be", bounds=bounds)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0], "one integer for each of the 3 images"),
        ([0, 0, 0, 0], "one integer for each of the 3 images"),
        ([[0], [0], [0]], "one integer for each"),
        (0, "one integer for each"),
        ([0.0, 0.0, 0.0], "must be integers, not torch.float64"),
        (torch.zeros(3), "must be integers, not torch.float32"),
        ([False, False, False], "must be integers, not torch.bool"),
        ([0, -1, 0], "row 1 has -1"),
        (["a", "b", "c"], "one array of integers"),
        (None, "labels must"),
    ],
)
def test_labels_of_a_wrong_number_or_type_are_refused(labels: Any, message: str) -> None:
    refused(message, labels=labels)


@pytest.mark.parametrize(
    ("targets", "message"),
    [([1, 1], "targets must be one integer"), ([1.0] * 3, "targets must be integers"), ([1, -2, 1], "row 1 has -2")],
)
def test_targets_of_a_wrong_number_or_type_are_refused(targets: Any, message: str) -> None:
    refused(message, targets=targets)


def test_a_target_that_is_the_true_class_is_refused() -> None:
    refused(r"a target is the true class itself \(row 1; 1 in all\)", targets=[1, 0, 1])


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (torch.ones(2, 1, 2, 3), "starts must have the shape of the images"),
        (torch.ones(3, 6), "starts must have the shape of the images"),
        (changed(0, math.nan), "starts hold values that are not finite"),
        (changed(0, 2.0), "starts leave the bounds"),
        (Pool(torch.ones(4, 1, 3, 3), zeros(4)), r"pool images have the shape \(1, 3, 3\)"),
        (Pool(torch.full((4, 1, 2, 3), 2.0), zeros(4)), "pool images leave the bounds"),
        (Pool(torch.ones(4, 1, 2, 3), torch.zeros(4)), "pool labels must be integers"),
        (Pool(torch.ones(4, 1, 2, 3), zeros(4) - 1), "pool labels must be 0 or more"),
    ],
)
def test_starts_that_cannot_be_used_are_refused(starts: Any, message: str) -> None:
    refused(message, starts=starts)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("attack", "pjs", "unknown attack 'pjs': choose one of boundary, hsj, psj, psj-true-gradient"),
        ("noise", "flop:0.1", "unknown noise model 'flop:0.1'"),
        ("norm", "l1", "unknown norm 'l1': choose one of l2, linf"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(argument: str, value: str, message: str) -> None:
    refused(message, UnknownNameError, **{argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("attack", 3, "attack must be a name or a configuration"),
        ("noise", "flip", "needs a number"),
        ("noise", "flip:1.5", r"flip rate must be in \[0, 1\]"),
        ("noise", 0.1, "noise must be a spelling"),
        ("votes", 0, "votes must be a whole number"),
        ("votes", 2.5, "votes must be a whole number"),
        ("votes", True, "votes must be a whole number"),
        ("budget", 0, "budget must be at least 1"),
        ("budget", 10.5, "budget must be a whole number"),
        ("budget", "many", "budget must be a whole number"),
        ("iterations", -1, "iterations must be a whole number"),
        ("iterations", 1.5, "iterations must be a whole number"),
        ("iterations", "ten", "iterations must be a whole number"),
        ("iterations", math.nan, "iterations must be a whole number"),
        ("verdict", -1, "verdict must be a whole number"),
        ("verdict", 2.5, "verdict must be a whole number"),
        ("verdict", "all", "verdict must be a whole number"),
        ("image_ids", [1, 2], "image_ids must be one integer"),
        ("image_ids", [1, 2, -3], "row 2 has -3"),
    ],
)
def test_settings_out_of_range_are_refused(argument: str, value: Any, message: str) -> None:
    refused(message, **{argument: value})


@pytest.mark.parametrize("model", [None, 3, "resnet", [1, 2]])
def test_something_that_is_no_classifier_is_refused(model: int | list[int] | str | None) -> None:
    refused("pass a torch module, a function", model=model)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("flip:0.1", "must know the number of classes"),
        ("logit:1", "needs logits"),
        ("cropping:5", "crop size 5 exceeds"),
        ("dropout:0.5", "dropout"),
    ],
)
def test_noise_that_cannot_act_on_the_model_is_refused(noise: str, message: str) -> None:
    refused(message, noise=noise)


def test_noise_on_an_oracle_is_refused() -> None:
    class Oracle:
        def ask(self, points: Tensor, ticket: Ticket) -> None:
            raise AssertionError("asked")

    refused("an oracle has its own noise", model=Oracle(), noise=Flip(0.1))


@pytest.mark.parametrize("attack", ["psj-true-gradient", PopSkipJump(true_gradient=True)], ids=["name", "object"])
def test_the_true_gradient_of_a_function_is_refused(attack: Any) -> None:
    refused("the true gradient needs a white box", attack=attack)


@pytest.mark.parametrize("choice", [{"resolution": 1}, {"floors": (0.5,)}, {"slopes": 0}], ids=str)
def test_a_grid_without_meaning_is_refused(choice: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"grid|floors"):
        PopSkipJump(**choice)


@pytest.mark.parametrize("attack", [PopSkipJump, HopSkipJump, BoundaryAttack])
def test_a_whole_number_may_come_as_any_type(attack: Any) -> None:
    numbers: dict[str, Any] = {"iterations": np.int32(1), "votes": np.int64(1), "verdict": 5.0}
    budgets: list[Any] = [200, 200.0, np.int64(200)]
    for budget in budgets:
        report = evaluate(Asked(), images_of(), zeros(), attack(), budget=budget, **numbers)
        assert report.queries.max() <= 200
