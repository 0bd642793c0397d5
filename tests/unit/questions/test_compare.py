from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import popskipjump as psj
from popskipjump.questions import compare, save
from popskipjump.questions.comparison import detectable, images_needed, median_of, moves_of, verdict_of
from popskipjump.questions.intervals import NORMAL, Interval
from popskipjump.rng import Key, uniform

NEAR, FAR = psj.Plane(torch.ones(8), 4.0), psj.Plane(torch.ones(8), 6.0)
IMAGES = 0.1 + 0.3 * uniform(Key(3).roots(torch.arange(8)), 8)  # class 0 of both planes
LABELS = torch.zeros(8, dtype=torch.int64)


def test_two_copies_of_a_classifier_have_no_extra_robustness() -> None:
    answer = compare(NEAR, NEAR, IMAGES, LABELS, budget=200, scale=1.0)
    assert answer.verdict == "no extra robustness"
    assert not answer.border_moved
    assert answer.ratio.low <= 1 <= answer.ratio.high


def test_noise_that_hides_the_border_is_no_extra_robustness_and_costs_queries() -> None:
    answer = compare(NEAR, NEAR, IMAGES, LABELS, defended_noise="flip:0.1", budget=400, scale=2.0)
    assert answer.verdict == "no extra robustness"
    assert not answer.border_moved
    assert answer.multiplier.value > 1
    assert "the noise multiplies the queries needed by" in str(answer)


def test_a_border_further_away_is_more_robust_and_moved() -> None:
    answer = compare(NEAR, FAR, IMAGES, LABELS, budget=200, scale=1.0)
    assert answer.verdict == "more robust"
    assert answer.border_moved
    true = FAR.distance(IMAGES) / NEAR.distance(IMAGES)
    np.testing.assert_allclose(np.median(answer.ratios), float(true.median()), rtol=0.25)
    assert compare(FAR, NEAR, IMAGES, LABELS, budget=200, scale=1.0).verdict == "less robust"


def test_a_border_that_turned_but_is_as_far_away_has_moved_and_is_not_more_robust() -> None:
    first, second = torch.ones(8), torch.ones(8)
    first[:4], second[4:] = 2.0, 2.0
    images = 0.1 + 0.3 * uniform(Key(3).roots(torch.arange(8)), 8)
    images = images[:, [0, 1, 2, 3, 0, 1, 2, 3]]  # both planes are equally far from every image
    answer = compare(psj.Plane(first, 6.0), psj.Plane(second, 6.0), images, LABELS, budget=300, scale=1.0)
    assert answer.border_moved
    assert answer.verdict == "the border moved"
    assert str(answer).startswith("The border moved: on the same rays the two borders differ by a factor of")


def test_distances_are_measured_in_the_norm_that_is_asked_for() -> None:
    answer = compare(NEAR, FAR, IMAGES, LABELS, budget=300, scale=1.0, norm="linf")
    assert answer.norm == "linf"
    true = (4.0 - IMAGES.sum(dim=1)) / 8  # the nearest point of a plane of equal weights, by its largest change
    assert np.median(answer.base / true.numpy()) == pytest.approx(1.0, abs=0.25)


def test_measurement_errors_alone_give_no_move() -> None:
    rng = np.random.default_rng(3)
    first, second = np.exp(0.2 * rng.normal(size=(2, 4000)))
    moves = moves_of(first, second)
    assert abs(float(np.median(moves)) - 1) < 0.02  # 5 standard errors of the median are 0.02
    assert np.median(np.maximum(second, 1 / second)) > 1.1  # what a ratio turned upwards would say
    assert moves_of(np.array([2.0, 0.5]), np.array([2.0, 0.5])).tolist() == [2.0, 2.0]


def test_the_stated_number_of_images_decides_with_the_stated_power() -> None:
    rng, spread = np.random.default_rng(4), 0.3
    some = np.exp(spread * np.array([NORMAL.inv_cdf((k + 0.5) / 41) for k in range(41)]))
    count = images_needed(some, Interval(1.3, 1.0, 1.6), 0.1, 0.95)
    assert count is not None
    decided = 0
    for study in range(60):
        ratios = 1.3 * np.exp(spread * rng.normal(size=count))
        decided += verdict_of(median_of(ratios, Key(study), 0.95), 0.1) == "more robust"
    assert 40 <= decided <= 57  # 80% of 60 are 48, give or take 3
    assert 1.1 < detectable(some, 0.1, 0.95) < 2.5


def test_the_same_seed_gives_the_same_comparison() -> None:
    first, second = (compare(NEAR, FAR, IMAGES, LABELS, budget=100, scale=1.0, seed=3) for _ in range(2))
    assert first.ratios.tolist() == second.ratios.tolist()
    assert first.ratio == second.ratio


def test_images_that_are_wrong_to_begin_with_are_left_out_and_counted() -> None:
    labels = LABELS.clone()
    labels[0] = 1
    answer = compare(NEAR, NEAR, IMAGES, labels, budget=100, scale=1.0)
    assert np.isnan(answer.ratios[0])
    assert "7 of 8 images were measured" in str(answer)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Interval(1.5, 1.2, 1.9), "more robust"),
        (Interval(0.7, 0.5, 0.8), "less robust"),
        (Interval(1.02, 0.97, 1.08), "no extra robustness"),
        (Interval(1.1, 0.9, 1.3), "undecided"),
        (Interval(float("nan"), 0.0, float("inf")), "undecided"),
    ],
)
def test_the_verdict_follows_from_the_interval_and_the_margin(ratio: Interval, verdict: str) -> None:
    assert verdict_of(ratio, margin=0.1) == verdict


def test_more_spread_needs_more_images() -> None:
    logs = np.linspace(-1, 1, 20)
    narrow, wide = (images_needed(np.exp(s * logs), Interval(1.0, 0.8, 1.2), 0.1, 0.95) for s in (0.5, 1.0))
    assert narrow is not None
    assert wide is not None
    assert wide > 3 * narrow


def _of_other_shape(batch: np.ndarray) -> np.ndarray:
    return np.zeros(len(batch), dtype=np.int64) + int(batch.reshape(len(batch), 3, 5).shape[1] < 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"defended": _of_other_shape}, "the defended classifier does not take these images of shape .8,."),
        ({"images": IMAGES[:3], "labels": LABELS[:3]}, "at least 6 images"),
        ({"margin": 0.0}, "margin must be a positive number"),
        ({"scale": -1.0}, "scale must be a positive number"),
        ({"budget": 0}, "budget must be a whole number"),
        ({"confidence": 2}, "confidence must be"),
    ],
)
def test_bad_input_is_refused_in_words(change: dict[str, object], words: str) -> None:
    arguments = {"base": NEAR, "defended": FAR, "images": IMAGES, "labels": LABELS, **change}
    with pytest.raises(psj.InputError, match=words):
        compare(**arguments)  # type: ignore[arg-type]


def test_the_files_hold_the_verdict_and_every_ratio(tmp_path: Path) -> None:
    paths = save(compare(NEAR, FAR, IMAGES, LABELS, budget=100, scale=1.0), tmp_path)
    content = json.loads(paths[0].read_text(encoding="utf-8"))
    assert content["answer"]["verdict"] == "more robust"
    assert len(content["answer"]["ratios"]) == 8
    assert "<svg" in paths[1].read_text(encoding="utf-8")
