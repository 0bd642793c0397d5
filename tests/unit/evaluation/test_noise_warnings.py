from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch

import popskipjump as psj
from popskipjump.metrics import Seen, noise_warnings
from popskipjump.rng import Key, uniform
from popskipjump.runs.keep import evaluate_in

IMAGES = 0.1 + 0.3 * uniform(Key(5).roots(torch.arange(8)), 8)  # class 0
LABELS = [0] * 8
NOISY = "the classifier is noisy"
CONTRADICTING = "equal inputs always got equal answers, and yet"


def _plain(batch: np.ndarray) -> np.ndarray:
    labels: np.ndarray = (batch.reshape(len(batch), -1).sum(axis=1) > 4.0).astype(np.int64)
    return labels


class Flipping:
    """20% of the answers are wrong."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(7)

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        labels: np.ndarray = np.where(self._rng.uniform(size=len(batch)) < 0.2, 1 - _plain(batch), _plain(batch))
        return labels


def _cached(batch: np.ndarray) -> np.ndarray:
    """20% of the inputs get a wrong answer, always."""
    draws = [blake2b(point.tobytes(), digest_size=1).digest()[0] for point in batch]
    labels: np.ndarray = np.where(np.array(draws) < 0.2 * 256, 1 - _plain(batch), _plain(batch))
    return labels


def _rejecting(batch: np.ndarray) -> np.ndarray:
    if (batch.reshape(len(batch), -1).max(axis=1) > 0.95).any():
        raise ValueError("this input looks suspicious")
    return _plain(batch)


def test_a_quiet_classifier_gives_no_warning() -> None:
    for attack in ("qsj", "hsj"):
        assert psj.evaluate(_plain, IMAGES, LABELS, attack, budget=300).warnings == []


def test_a_classifier_that_is_noisy_itself_is_called_noisy_with_its_fitted_floors() -> None:
    report = psj.evaluate(Flipping(), IMAGES, LABELS, budget=400)
    (warning,) = [text for text in report.warnings if NOISY in text]
    assert "wrong far from a sharp border" in warning
    assert NOISY in str(report)


def test_noise_that_the_caller_put_on_is_no_news_unless_the_attack_believes_single_answers() -> None:
    def warned(attack: str) -> bool:
        report = psj.evaluate(psj.Plane(torch.ones(8), 4.0), IMAGES, LABELS, attack, "flip:0.2", budget=400)
        return any(NOISY in text and "cannot be trusted" in text for text in report.warnings)

    assert not warned("qsj")
    assert warned("hsj")


def test_remembered_noise_is_suspected() -> None:
    report = psj.evaluate(_cached, IMAGES, LABELS, budget=400)
    assert any(CONTRADICTING in text and "a cache" in text for text in report.warnings)
    assert not any(NOISY in text for text in report.warnings)


def test_rejected_inputs_are_counted_with_the_reason() -> None:
    with pytest.raises(psj.OracleError) as caught:
        psj.evaluate(_rejecting, IMAGES, LABELS, starts=torch.ones_like(IMAGES), budget=100)
    report = caught.value.report
    assert isinstance(report, psj.Report)
    assert any("did not answer (ValueError: this input looks suspicious)" in text for text in report.warnings)


def test_a_kept_run_warns_too(tmp_path: Path) -> None:
    report = evaluate_in(tmp_path / "run", Flipping(), IMAGES, LABELS, budget=400, name="flipping", digest="1")
    assert any(NOISY in text for text in report.warnings)


def _seen(**change: object) -> Seen:
    count = 8
    plain = {
        "yes": np.full(count, 8.0),
        "asked": np.full(count, 8.0),
        "walked": np.ones(count),
        "distances": np.ones(count),
        "probe_asked": np.zeros((count, 0)),
        "probe_yes": np.zeros((count, 0)),
        "floors": np.full(count, np.nan),
        "gradual": np.full(count, np.nan),
        "failed": 0,
        "message": "",
    }
    return Seen(**(plain | change))  # type: ignore[arg-type]


def test_most_points_moved_outward_by_much_are_called_a_change_in_time() -> None:
    yes, far = np.full(8, 7.0), np.full(8, 1.5)
    assert any(
        "may change while it is asked" in text for text in noise_warnings(_seen(yes=yes, distances=far), True, True)
    )
    few = np.where(np.arange(8) < 3, 1.5, 1.0)
    assert noise_warnings(_seen(yes=yes, distances=few), True, True) == []


def test_a_line_with_one_change_has_no_contradiction() -> None:
    asked = np.full((8, 6), 2)
    step, islands = np.array([2, 2, 2, 0, 0, 0]), np.array([2, 0, 2, 0, 2, 0])
    assert noise_warnings(_seen(probe_asked=asked, probe_yes=np.tile(step, (8, 1))), True, False) == []
    (warning,) = noise_warnings(_seen(probe_asked=asked, probe_yes=np.tile(islands, (8, 1))), True, False)
    assert CONTRADICTING in warning
