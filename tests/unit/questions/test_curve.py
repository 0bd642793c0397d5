from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import popskipjump as psj
from popskipjump.questions import curve_of, robust_accuracy, save
from popskipjump.questions.intervals import lower_limit, median_interval, upper_limit


def test_the_band_holds_the_whole_true_curve_as_often_as_it_says() -> None:
    # 95% nominal, 400 studies: a true coverage within 0.93 to 0.97 leaves 0.87 to 0.997 with probability < 1e-6.
    rng, held, studies = np.random.default_rng(1), 0, 400
    places = np.linspace(0, 6, 200)
    true = 0.9 * np.exp(-places)
    for study in range(studies):
        distances = np.where(rng.uniform(size=60) < 0.1, 0.0, rng.exponential(size=60))
        answer = robust_accuracy(distances, seed=study)
        place = np.searchsorted(answer.etas, places, side="right") - 1
        held += bool(((answer.low[place] <= true) & (true <= answer.high[place])).all())
    assert 0.89 < held / studies < 0.99


def test_accuracy_at_an_eta_is_the_share_of_images_that_are_further_away() -> None:
    answer = robust_accuracy([0.0, 0.5, 1.0, 2.0, np.inf], eta=(0.5, 1.5))
    assert [at.value for at in answer.at] == [0.6, 0.4]
    assert [s.value for s in answer.success] == pytest.approx([0.4, 0.6])
    assert answer.median.value == 1.0
    assert all(at.low <= at.value <= at.high for at in answer.at)


def test_noisy_answers_lie_between_fooled_and_right() -> None:
    answer = robust_accuracy([1.0, 1.0], p_true_clean=[0.9, 0.9], p_true_adversarial=[0.2, 0.4], eta=(0.5, 1.0))
    assert [at.value for at in answer.at] == pytest.approx([0.9, 0.3])


def test_an_interval_of_a_median_covers_it() -> None:
    # Exact by the sign test: 1,000 studies at 95% cover in at least 91% with probability 1 - 1e-7.
    rng = np.random.default_rng(2)
    intervals = [median_interval(rng.exponential(size=25)) for _ in range(1000)]
    assert np.mean([i.low <= np.log(2) <= i.high for i in intervals]) > 0.91


def test_few_images_leave_the_median_open() -> None:
    assert median_interval([1.0, 2.0, 3.0]).high == np.inf


def test_exact_limits_of_a_probability_agree_with_their_closed_forms() -> None:
    # k = n: p^n = alpha; k = 0: (1 - p)^n = alpha; and a table value for 5 of 20 (Clopper and Pearson).
    assert lower_limit(50, 50, 0.01) == pytest.approx(0.01 ** (1 / 50))
    assert upper_limit(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))
    assert lower_limit(5, 20, 0.025) == pytest.approx(0.0866, abs=1e-4)
    assert upper_limit(5, 20, 0.025) == pytest.approx(0.4910, abs=1e-4)


def test_a_report_has_a_curve(tmp_path: Path) -> None:
    plane = psj.Plane(torch.ones(8), 4.0)
    images = torch.linspace(0.1, 0.4, 5).unsqueeze(1).expand(5, 8)
    report = psj.evaluate(plane, images, torch.zeros(5, dtype=torch.int64), "qsj", budget=200)
    answer = curve_of(report, eta=(0.5,))
    paths = save(answer, tmp_path)
    content = json.loads(paths[0].read_text(encoding="utf-8"))
    assert content["answer"]["at"][0]["value"] == pytest.approx(float((report.distances > 0.5).mean()), abs=0.1)
    assert "<svg" in paths[1].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("distances", "change", "words"),
    [
        ([1.0], {}, "at least 2 images"),
        ([1.0, -1.0], {}, "negative or not numbers"),
        ([1.0, np.nan], {}, "negative or not numbers"),
        ([1.0, 2.0], {"eta": (-1.0,)}, "eta must be a size of at least 0"),
        ([1.0, 2.0], {"confidence": 1.5}, "confidence must be"),
        ([1.0, 2.0], {"p_true_clean": [2.0, 0.0]}, "must hold probabilities"),
    ],
)
def test_bad_input_is_refused_in_words(distances: list[float], change: dict[str, object], words: str) -> None:
    with pytest.raises(psj.InputError, match=words):
        robust_accuracy(distances, **change)  # type: ignore[arg-type]
