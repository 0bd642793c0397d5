from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import popskipjump as psj
from popskipjump.questions import compare, save
from popskipjump.questions.compare import images_needed, verdict_of
from popskipjump.questions.intervals import Interval
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
