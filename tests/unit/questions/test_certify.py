from __future__ import annotations

import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch

import popskipjump as psj
from popskipjump.questions import certified_radius, certify, save
from popskipjump.rng import Key, uniform

PLANE = psj.Plane(torch.ones(8), 4.0)  # class 1 where the mean exceeds 1/2
PHI = NormalDist().cdf


def _images(count: int = 4) -> torch.Tensor:
    """Images of class 0, 0.1 to 0.4 bright: `(B, 8)`."""
    return 0.1 + 0.3 * uniform(Key(3).roots(torch.arange(count)), 8)


def _zeros(count: int = 4) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int64)


def test_the_certified_radius_is_at_most_the_true_one_in_999_of_1000_simulated_cases_and_within_10_percent() -> None:
    # A linear classifier: at distance r from the border P(label) = Phi(r / sigma), and r is the true radius.
    # Error rate of this test: each radius is wrong with probability 0.0001; 11 of 10,000 or more happen in 1e-8.
    rng = np.random.default_rng(5)
    sigma, samples = 0.5, 5000
    true = sigma * rng.uniform(0.6, 2.0, size=10_000)
    counts = rng.binomial(samples, [PHI(r / sigma) for r in true])
    radius, _ = certified_radius(counts, samples, sigma, alpha=1e-4)
    assert (radius <= true).mean() >= 0.999
    assert np.median(radius / true) > 0.9
    assert (radius / true).min() > 0.75


def test_a_linear_classifier_is_certified_below_its_closed_form_and_attacked_above_it() -> None:
    answer = certify(PLANE, _images(), _zeros(), sigma=0.3, samples=2000, budget=600, seed=1)
    true = PLANE.distance(_images()).numpy()
    assert answer.correct.all()
    assert (answer.radius <= true).all()
    assert (answer.radius > 0.7 * true).all()
    assert (answer.found[np.isfinite(answer.found)] >= true[np.isfinite(answer.found)] - 1e-4).all()
    assert np.isfinite(answer.found).sum() >= 3
    assert answer.crossed == []


def test_the_same_seed_gives_the_same_certificates() -> None:
    first, second = (certify(PLANE, _images(2), _zeros(2), 0.3, samples=200, attack=None, seed=7) for _ in range(2))
    assert first.radius.tolist() == second.radius.tolist()


def test_an_image_on_the_border_is_abstained_from() -> None:
    answer = certify(PLANE, torch.full((1, 8), 0.5), _zeros(1), sigma=0.3, samples=200, attack=None)
    assert answer.prediction.tolist() == [-1]
    assert answer.radius.tolist() == [0.0]


class _Noisy:
    """The plane, asked with Gaussian noise of its own."""

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma
        self._rng = np.random.default_rng(11)

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        height = batch.reshape(len(batch), -1).sum(axis=1) - 4
        return np.asarray((height + self.sigma * np.sqrt(8) * self._rng.normal(size=len(batch)) > 0).astype(np.int64))


def test_a_declared_sigma_that_is_true_is_accepted() -> None:
    answer = certify(_Noisy(0.3), _images(), _zeros(), sigma=0.3, declared=True, budget=600)
    assert (answer.radius <= PLANE.distance(_images()).numpy()).all()
    assert (answer.radius > 0).all()


def test_a_declared_sigma_that_was_not_tested_is_said_to_be_so() -> None:
    without = certify(_Noisy(0.3), _images(), _zeros(), sigma=0.3, declared=True, samples=50, attack=None)
    assert not without.tested
    assert "NOT tested" in str(without)
    assert certify(_Noisy(0.3), _images(), _zeros(), sigma=0.3, declared=True, samples=50, budget=200).tested


@pytest.mark.parametrize("true", [0.0, 0.1])
def test_a_declared_sigma_that_the_answers_contradict_is_refused_with_a_way_out(true: float) -> None:
    with pytest.raises(psj.AssumptionError, match=r"contradict sigma = 0.3.*leave `declared` out"):
        certify(_Noisy(true), _images(), _zeros(), sigma=0.3, declared=True, budget=600)


class _Moving:
    """A plane whose border moves near once it has been asked often enough."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.left -= len(batch)
        return np.asarray(
            (batch.reshape(len(batch), -1).sum(axis=1) > (4.0 if self.left > 0 else 2.1)).astype(np.int64)
        )


def test_a_crossing_is_reported_as_a_bug_or_a_broken_assumption() -> None:
    answer = certify(_Moving(after=501), torch.full((1, 8), 0.2), _zeros(1), 0.3, samples=400, budget=400)
    assert answer.crossed == [0]
    assert answer.found[0] < answer.radius[0]
    assert "BROKEN" in str(answer)
    assert "bug of popskipjump" in str(answer)


def test_a_classifier_that_never_answers_is_an_error_that_says_why() -> None:
    def silent(batch: np.ndarray) -> np.ndarray:
        raise RuntimeError("no such service")

    with pytest.raises(psj.OracleError, match="no such service"):
        certify(silent, _images(1), _zeros(1), 0.3, samples=20, selection=10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sigma": 0.0}, "sigma must be a positive number"),
        ({"sigma": float("nan")}, "sigma must be a positive number"),
        ({"sigma": "0.1"}, "sigma must be a positive number"),
        ({"sigma": 0.1, "samples": 0}, "samples must be a whole number"),
        ({"sigma": 0.1, "confidence": 1.0}, "confidence must be a number strictly between 0 and 1"),
        ({"sigma": 0.1, "labels": [0]}, "labels must be one integer for each of the 4 images"),
    ],
)
def test_bad_input_is_refused_in_words(change: dict[str, object], words: str) -> None:
    arguments = {"labels": _zeros(), **change}
    with pytest.raises(psj.InputError, match=words):
        certify(PLANE, _images(), **arguments)  # type: ignore[arg-type]


def test_the_files_hold_every_image_and_a_page_without_scripts(tmp_path: Path) -> None:
    answer = certify(PLANE, _images(2), _zeros(2), 0.3, samples=200, budget=200)
    paths = save(answer, tmp_path)
    content = json.loads(paths[0].read_text(encoding="utf-8"))
    assert len(content["answer"]["radius"]) == 2
    assert content["question"] == "certify"
    page = paths[1].read_text(encoding="utf-8")
    assert "<svg" in page
    assert "<script" not in page
    assert "Content-Security-Policy" in page
