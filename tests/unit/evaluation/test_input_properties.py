"""Whatever images, labels and bounds are given, `evaluate` ends in a report or in an error in words."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from popskipjump import PopSkipJumpError, evaluate

EXAMPLES = int(os.environ.get("PSJ_EXAMPLES", "100"))  # more of them in the slow tests
QUICK = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
KINDS = ("float32", "float64", "float16", "uint8", "int64", "bool", "complex64", "object", "<U3")
VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.0, 2.0, 255.0, 1e30, -1e-30, float("nan"), float("inf")])
SHAPES = st.lists(st.integers(0, 3), max_size=4)
NUMBERS = st.one_of(st.none(), st.integers(-3, 30), st.floats(), st.just("many"), st.just(10**30))


def halves(batch: np.ndarray) -> np.ndarray:
    """Two classes by the mean of an input."""
    labels: np.ndarray = (batch.reshape(len(batch), -1).mean(axis=1) > 0.5).astype(np.int64)
    return labels


def ends(*arguments: Any, **options: Any) -> None:
    """An evaluation gives a report whose counts agree, or one of our errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = evaluate(*arguments, **options)
        except PopSkipJumpError:
            return
    assert len(report.status) == len(report.points) == len(report.queries)
    assert not any(status.name == "RUNNING" for status in report.status)
    assert np.isfinite(report.points).all()


def array_of(shape: list[int], kind: str, values: list[float]) -> np.ndarray:
    """An array of some values, repeated, in a type that may not hold them."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.resize(np.array(values), shape).astype(kind)


@QUICK
@given(
    SHAPES,
    st.sampled_from(KINDS),
    st.lists(VALUES, min_size=1, max_size=6),
    st.lists(st.integers(-1, 3), max_size=4),
    st.sampled_from(["int64", "float64", "uint8", "object", "<U3", "list"]),
)
def test_any_images_and_labels_end_in_a_report_or_in_words(
    shape: list[int], kind: str, values: list[float], labels: list[int], label_kind: str
) -> None:
    given_labels = labels if label_kind == "list" else np.array(labels).astype(label_kind)
    ends(halves, array_of(shape, kind, values), given_labels, "hsj", budget=20)


@QUICK
@given(st.tuples(st.floats(), st.floats()), st.lists(VALUES, min_size=1, max_size=6))
def test_any_bounds_end_in_a_report_or_in_words(bounds: tuple[float, float], values: list[float]) -> None:
    images = array_of([2, 3], "float32", values)
    ends(halves, images, [0, 1], "hsj", budget=20, bounds=bounds)


@QUICK
@given(
    budget=NUMBERS,
    votes=NUMBERS,
    seed=NUMBERS,
    stop=NUMBERS,
    attack=st.sampled_from(["psj", "qsj", "hsj", "boundary", "", "flip:0.1"]),
)
@example(budget=-1e300, votes=1, seed=0, stop=None, attack="psj")  # once a RuntimeError of torch
def test_any_numbers_end_in_a_report_or_in_words(budget: Any, votes: Any, seed: Any, stop: Any, attack: str) -> None:
    images = np.array([[0.2, 0.3], [0.9, 0.8]], dtype=np.float32)
    budget = 20 if budget is None else budget
    ends(halves, images, [0, 1], attack, budget=budget, votes=votes, seed=seed, stop_distance=stop)
