from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from noise_zoo import KINDS, Case, classifiers

import popskipjump as psj
from popskipjump.questions import check, save
from popskipjump.questions.probe.islands import remembered

HELD_BACK = range(7000, 7020)  # never looked at while `check` was written
BUDGET = 500


def _checked(case: Case) -> Any:
    return check(case.model, case.images, case.labels, budget=BUDGET)


@cache
def _answer(name: str) -> Any:
    return _checked(next(classifiers([100 + KINDS.index(name)])))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("deterministic", "deterministic"),
        ("cached flips", "cached"),
        ("flips", "constant"),
        ("logit sampling", "growing"),
        ("drifting border", "drifting"),
        ("rejections", "rejecting"),
    ],
)
def test_a_kind_of_noise_is_named_within_the_budget(name: str, kind: str) -> None:
    answer = _answer(name)
    assert answer.kind == kind
    assert answer.queries.max() <= BUDGET
    assert answer.hop_skip_jump == (kind == "deterministic")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_19_of_20_unseen_classifiers_are_named_and_90_percent_of_the_intervals_cover_the_truth() -> None:
    named = covered = intervals = 0
    for case in classifiers(HELD_BACK):
        answer = _checked(case)
        named += answer.kind == case.kind
        assert answer.queries.max() <= BUDGET
        if answer.kind in ("constant", "growing"):
            intervals += 1
            covered += answer.noise_at_images.low <= case.noise_at_images <= answer.noise_at_images.high
        if answer.kind == "growing":
            for row, end in enumerate(answer.line):
                if end is not None:
                    intervals += 1
                    covered += answer.width_low[row] <= case.width(row, torch.from_numpy(end)) <= answer.width_high[row]
    assert named >= 19
    assert intervals >= 20
    assert covered >= 0.9 * intervals


def test_a_deterministic_classifier_comes_with_the_chance_of_having_missed_noise() -> None:
    answer = _answer("deterministic")
    pairs = answer.evidence.repeats.pairs
    assert answer.missed == pytest.approx(0.99**pairs)
    assert answer.missed < 0.01
    assert any("would have been missed with probability" in finding.saw for finding in answer.findings)


def test_every_finding_says_what_was_seen_what_it_means_and_what_to_do() -> None:
    for finding in _answer("flips").findings:
        assert finding.saw
        assert finding.means
        assert finding.do


def test_remembered_answers_are_called_hopeless_for_votes() -> None:
    words = str(_answer("cached flips"))
    assert "no number of votes helps" in words


@pytest.mark.parametrize("stripes", [1.5, 3.0, 7.0, 20.0])
def test_thin_regions_of_a_class_are_not_taken_for_remembered_noise(stripes: float) -> None:
    def striped(batch: np.ndarray) -> np.ndarray:
        return np.asarray(np.floor(stripes * batch.reshape(len(batch), -1).sum(axis=1)).astype(np.int64) % 2)

    images = np.random.default_rng(3).uniform(0.1, 0.9, size=(6, 8)).astype(np.float32)
    answer = check(striped, images, striped(images))
    assert answer.kind == "deterministic"
    assert answer.evidence.islands == 0


def test_the_surroundings_of_an_input_tell_a_region_from_remembered_noise() -> None:
    region = [True, True, False, True, True, True]  # ends once on the left
    assert not remembered(np.array(region))
    assert not remembered(np.array([True] * 6))
    assert not remembered(np.array([False, False, False, True, False, False]))  # the border is close on one side
    assert remembered(np.array([False] * 6))
    assert remembered(np.array([True, False, True, True, True, True]))  # differs, and further away agrees once more


def test_the_reason_of_a_rejection_is_shown() -> None:
    assert "this input is not accepted" in str(_answer("rejections"))


def test_more_noise_is_predicted_to_need_more_queries() -> None:
    model = psj.Plane(torch.ones(8), 4.0)
    images = torch.tensor([[0.2] * 8, [0.8] * 8])
    multipliers = [
        check(model, images, [0, 1], noise=noise).forecasts[0].multiplier.value
        for noise in (None, "flip:0.1", "flip:0.3")
    ]
    assert multipliers[0] == pytest.approx(1, abs=0.05)
    assert multipliers[0] < multipliers[1] < multipliers[2]


def test_a_nearer_distance_is_predicted_to_need_more_queries() -> None:
    images, labels = torch.tensor([[0.2] * 8, [0.8] * 8]), [0, 1]
    plane = psj.Plane(torch.ones(8), 4.0)
    checked = [check(plane, images, labels, noise="flip:0.3", distance=far) for far in (0.8, 0.3, 0.02)]
    low, high, out_of_reach = (answer.forecasts[0].queries for answer in checked)
    assert low.value < high.value
    assert out_of_reach.high == np.inf
    assert "For the L2 distance 0.8 qsj is predicted" in str(checked[0])


def test_a_prediction_is_held_against_a_run() -> None:
    images, labels = 0.1 + 0.3 * torch.rand(6, 30, generator=torch.Generator().manual_seed(2)), [0] * 6
    plane = psj.Plane(torch.ones(30), 15.0)
    counts: list[int] = []
    answer = check(
        plane, images, labels, noise="flip:0.05", run=600, run_attacks=("qsj", "psj"), on_queries=counts.append
    )
    assert [trial.attack for trial in answer.trials] == ["qsj", "psj"]
    assert answer.trials[0].median <= 600
    assert all((trial.distances > plane.distance(images).numpy() * 0.99).all() for trial in answer.trials)
    assert sum(counts) == answer.queries.sum() + sum(trial.queries for trial in answer.trials)
    assert "A run of 600 queries got there for" in str(answer)


def test_a_classifier_of_one_answer_is_said_to_show_no_border() -> None:
    answer = check(lambda batch: np.zeros(len(batch), dtype=np.int64), torch.full((2, 8), 0.3), [0, 0])
    assert answer.kind == "deterministic"
    assert any(finding.name == "no other class found" for finding in answer.findings)


def test_a_classifier_that_never_answers_is_an_error_that_says_why() -> None:
    def silent(batch: np.ndarray) -> np.ndarray:
        raise RuntimeError("no such service")

    with pytest.raises(psj.OracleError, match="no such service"):
        check(silent, torch.full((1, 8), 0.3), [0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": 10}, "budget must be a whole number of at least"),
        ({"confidence": 0}, "confidence must be a number strictly between"),
        ({"labels": [0]}, "labels must be one integer for each"),
        ({"distance": 0}, "distance must be a positive number"),
        ({"run": -1}, "run must be a whole number"),
        ({"run": 10, "run_attacks": "qsj"}, "run_attacks must be a list"),
        ({"noise": "fog:1"}, "unknown noise"),
    ],
)
def test_bad_input_is_refused_in_words(change: dict[str, object], words: str) -> None:
    arguments = {"labels": [0, 1], **change}
    with pytest.raises(psj.InputError, match=words):
        check(psj.Plane(torch.ones(8), 4.0), torch.full((2, 8), 0.3), **arguments)  # type: ignore[arg-type]


def test_the_files_hold_the_kind_and_the_findings(tmp_path: Path) -> None:
    paths = save(_answer("flips"), tmp_path)
    content = json.loads(paths[0].read_text(encoding="utf-8"))
    assert content["answer"]["kind"] == "constant"
    assert "what to do" in paths[1].read_text(encoding="utf-8")
