"""The mistakes that newcomers make: each gets a message that says what, where, and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evaluation_toys import PLANE, Asked, images_of, zeros

import popskipjump as psj
from popskipjump import InputError, OracleError, Pool, PopSkipJump, Status, evaluate
from popskipjump.noise import Flip

LABELS = np.zeros(3, dtype=np.int64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.eye(4, dtype=int)[LABELS]}, r"one-hot, so pass `labels\.argmax\(1\)`"),
        ({"labels": LABELS[:, None]}, r"pass `labels\[:, 0\]`"),
        ({"images": images_of(1)[0], "labels": 0}, r"a single image as `images\[None\]`"),
        ({"images": torch.zeros(28, 28), "labels": [3]}, r"a single image as `images\[None\]`"),
        ({"labels": np.array(["cat", "dog", "cat"])}, "LabelEncoder"),
        ({"images": torch.full((3, 1, 2, 3), torch.nan)}, "not finite.*nan_to_num"),
        ({"images": images_of() * 255}, "8-bit pixels: pass `images / 255`"),
        ({"images": (images_of() * 255).to(torch.uint8)}, "8-bit pixels: pass `images / 255`"),
        ({"images": images_of() - 1}, "scale them, or pass other `bounds`"),
        ({"images": Pool(images_of(), zeros())}, "a Pool of images as `starts=`"),
        ({"noise": Flip}, r"noise is the class Flip: pass an object of it, such as Flip\(0\.1\)"),
        ({"attack": PopSkipJump}, r"attack is the class PopSkipJump: pass an object of it, PopSkipJump\(\)"),
        ({"model": torch.nn.Linear}, r"Linear is a class: pass an object of it"),
        ({"targets": LABELS}, "true class itself .row 0; 3 in all.*leave out `targets=`"),
        ({"images": LABELS, "labels": images_of()}, r"look exchanged.*evaluate\(model, images, labels\)"),
        ({"images": np.array([object()] * 3)}, "one array of numbers.*not ndarray: stack inputs of one size"),
        ({"starts": (images_of(), zeros())}, r"pass psj\.Pool\(images, labels\) as `starts=`"),
        ({"starts": Pool}, r"pass psj\.Pool\(images, labels\) as `starts=`"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_refused_with_the_way_out(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"model": PLANE, "images": images_of(), "labels": zeros(), "budget": 50}
    with pytest.raises(InputError, match=message):
        evaluate(**arguments | changes)


def test_a_pool_with_its_arguments_exchanged_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"Pool\(images, labels\), and these look exchanged"):
        Pool(zeros(), images_of())


def test_channels_last_is_named_where_a_convolution_fails() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 2))
    with pytest.raises(OracleError, match=r"shape \(inputs, 8, 8, 1\).*moveaxis\(images, -1, 1\)"):
        evaluate(net, torch.zeros(2, 8, 8, 1), [0, 0], budget=50)


def test_a_model_that_answers_in_names_is_told_what_to_return() -> None:
    with pytest.raises(OracleError, match=r"returned ndarray of <U3, not integers.*NamedFunction"):
        evaluate(Asked(lambda batch: np.array(["cat"] * len(batch))), images_of(), zeros(), budget=50)


def test_labels_that_count_from_one_are_suspected_where_all_are_wrong() -> None:
    report = evaluate(PLANE, images_of(), zeros() + 1, budget=50)
    assert "labels count from 0" in report.warnings[0]


def test_images_that_are_wrong_from_the_start_are_no_success_of_the_attack() -> None:
    found = evaluate(PLANE, images_of(), zeros() + 1, budget=50)
    assert "3 of 3 images confirmed adversarial, 3 of them misclassified from the start" in str(found)
    assert "3 of them misclassified from the start" in repr(found)


def test_a_budget_too_small_is_the_reason_that_is_given() -> None:
    assert set(evaluate(PLANE, images_of(), zeros(), budget=3).status) == {Status.BUDGET_TOO_SMALL}


def test_a_net_with_one_logit_is_said_to_have_two_classes() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 1))
    report = evaluate(net, images_of(), [7, 7, 7], budget=50)
    assert any("2 classes" in warning and "one number" in warning for warning in report.warnings)


def test_a_target_without_a_start_is_told_to_bring_one() -> None:
    never = Asked(lambda batch: (batch.reshape(len(batch), -1).sum(axis=1) > 3).astype(np.int64))
    report = evaluate(never, images_of(), zeros(), targets=[2, 2, 2], budget=400)
    assert set(report.status) <= {Status.NO_START, Status.BUDGET_TOO_SMALL}
    assert all("starts=" in state.value for state in report.status)


def test_a_double_model_is_asked_in_its_own_precision() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2)).double()
    report = evaluate(net, images_of(), zeros(), budget=50)
    assert Status.ORACLE_FAILED not in report.status


def test_a_report_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(psj.DataError, match=r"there is no .*gone\.npz"):
        psj.load(tmp_path / "gone.npz")


def test_a_model_that_answers_nothing_is_not_told_about_shapes() -> None:
    with pytest.raises(OracleError, match="returned NoneType, not integers") as caught:
        evaluate(lambda batch: None, images_of(), zeros(), budget=50)
    assert "given inputs of shape" not in str(caught.value)
