"""Our attacks as evasion attacks of ART."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from present import present

import popskipjump as psj
from popskipjump.errors import InputError
from popskipjump.rng import Key, uniform

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
pytest.importorskip("art", reason="the extra art is not installed", exc_type=ImportError)

from art.estimators.classification import BlackBoxClassifier  # noqa: E402

from popskipjump.integrations.art import PopSkipJump, QuickSkipJump  # noqa: E402

ATTACKS = {"psj": PopSkipJump, "qsj": QuickSkipJump}
every_attack = pytest.mark.parametrize("name", ATTACKS)
WEIGHTS = (uniform(Key(1).child("net").roots(torch.arange(3)), 16) - 0.5).numpy()


def classify(batch: np.ndarray) -> np.ndarray:
    result: np.ndarray = ((batch.reshape(len(batch), -1) - np.float32(0.5)) @ WEIGHTS.T).argmax(axis=1)
    return result


class Black:
    """A label-only classifier of ART that counts the rows it saw."""

    def __init__(self, clip: Any = (0.0, 1.0)) -> None:
        self.seen = 0
        self.estimator = BlackBoxClassifier(self.predict, (16,), 3, clip_values=clip)

    def predict(self, batch: np.ndarray) -> Any:
        self.seen += len(batch)
        return np.eye(3, dtype=np.float32)[classify(batch)]


def data() -> tuple[np.ndarray, np.ndarray]:
    images = uniform(Key(2).child("images").roots(torch.arange(4)), 16).numpy().astype(np.float32)
    return images, classify(images)


@every_attack
def test_generate_gives_what_evaluate_gives_and_counts_what_the_classifier_saw(name: str) -> None:
    images, labels = data()
    black = Black()
    attack = ATTACKS[name](black.estimator, max_iter=3, seed=4, verdict=10)
    found = attack.generate(images, labels)
    assert black.seen == present(attack.report).queries.sum()
    expected = psj.evaluate(classify, images, labels, name, iterations=3, seed=4, verdict=10)
    assert found.tobytes() == expected.points.tobytes()
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    "form",
    [lambda y: np.eye(3)[y], lambda y: y[:, None], lambda y: y.astype(np.float32), lambda y: None, list],
    ids=["one-hot", "column", "floats", "none", "list"],
)
def test_labels_may_have_every_form_of_art(form: Any) -> None:
    images, labels = data()
    plain = PopSkipJump(Black().estimator, max_iter=1).generate(images, labels)
    assert PopSkipJump(Black().estimator, max_iter=1).generate(images, form(labels)).tobytes() == plain.tobytes()


@every_attack
def test_a_targeted_attack_reaches_its_targets_from_given_points(name: str) -> None:
    images, labels = data()
    targets = (labels + 1) % 3
    pool = uniform(Key(7).root(), 16 * 200).reshape(200, 16).numpy().astype(np.float32)
    starts = np.stack([pool[classify(pool) == t][0] for t in targets])
    attack = ATTACKS[name](Black().estimator, targeted=True, max_iter=2)
    points = attack.generate(images, np.eye(3)[targets], x_adv_init=starts)
    assert (classify(points) == targets).sum() >= 3  # a point of PSJ is on the right side with 95% confidence
    assert present(present(attack.report).targets).tolist() == targets.tolist()


def test_a_targeted_attack_without_targets_is_refused() -> None:
    with pytest.raises(InputError, match="pass `y`"):
        PopSkipJump(Black().estimator, targeted=True).generate(data()[0])


def test_queries_are_limited() -> None:
    black = Black()
    attack = QuickSkipJump(black.estimator, max_queries=200)
    attack.generate(*data())
    assert present(attack.report).queries.max() <= 200
    assert black.seen == present(attack.report).queries.sum()


@pytest.mark.parametrize("clip", [(np.zeros(16), np.full(16, 0.9)), (0.0, 0.9)], ids=["arrays", "numbers"])
def test_clip_values_are_the_bounds(clip: Any) -> None:
    images, _ = data()
    points = PopSkipJump(Black(clip).estimator, max_iter=2).generate(images * 0.9, classify(images * 0.9))
    assert points.min() >= 0
    assert points.max() <= np.float32(0.9)


def test_without_clip_values_the_bounds_are_those_of_the_inputs() -> None:
    images, labels = data()
    points = PopSkipJump(Black(None).estimator, max_iter=2).generate(images, labels)
    assert images.min() <= points.min() <= points.max() <= images.max()


def test_parameters_are_set_and_shown_as_art_does() -> None:
    attack = PopSkipJump(Black().estimator, max_iter=2)
    attack.set_params(norm="inf", max_queries=500, targeted=False)
    assert "norm=inf" in repr(attack)
    attack.generate(*data())
    assert present(attack.report).norm.name == "linf"
    with pytest.raises(InputError, match="norm must be"):
        attack.set_params(norm=1)
    with pytest.raises(ValueError, match="cannot be set"):
        attack.set_params(steps=3)


def test_an_unknown_argument_is_refused() -> None:
    black = Black()
    with pytest.raises(InputError, match="does not take resume"):
        PopSkipJump(black.estimator).generate(*data(), resume=True)
    assert black.seen == 0


def test_a_mask_is_obeyed_or_refused_before_the_first_query() -> None:
    images, labels = data()
    black = Black()
    mask = np.arange(16) >= 4
    attack = PopSkipJump(black.estimator, max_iter=2)
    try:
        points = attack.generate(images, labels, mask=mask)
    except InputError as error:
        assert "masks are not supported" in str(error)  # noqa: PT017
        assert black.seen == 0
    else:
        assert (points[:, :4] == images[:, :4]).all()


def test_an_estimator_that_is_no_classifier_is_refused_by_art() -> None:
    from art.exceptions import EstimatorError

    with pytest.raises(EstimatorError):
        PopSkipJump(object())
