"""Work on speed must not move the distances."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from quality import CASES, IMAGES, log_distances, standard_error

REFERENCE = json.loads((Path(__file__).parent / "quality.json").read_text())


def before(case: str) -> np.ndarray:
    """`(seeds, images)`."""
    return np.array(REFERENCE["cases"][case]["log_distances"])


@pytest.mark.parametrize("case", CASES)
def test_the_reference_would_see_a_change_of_an_eighth(case: str) -> None:
    found = before(case)
    assert found.shape == (len(REFERENCE["seeds"]), IMAGES)
    assert np.isnan(found).sum() <= 1
    assert 3 * math.hypot(standard_error(found, 1), standard_error(found, len(found))) < 1 / 8


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_border_distances_are_those_of_before_the_work_on_speed(case: str) -> None:
    found = before(case)
    now = np.array(log_distances(case, REFERENCE["seeds"][0]))
    error = math.hypot(standard_error(found, 1), standard_error(found, len(found)))
    change = now - found.mean(axis=0)
    assert np.isnan(change).sum() <= 3
    assert abs(float(np.nanmean(change))) < 3 * error
