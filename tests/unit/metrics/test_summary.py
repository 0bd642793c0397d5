from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from popskipjump.errors import InputError
from popskipjump.metrics import Summary, paper_unit, summarise


def test_a_summary_is_the_median_with_the_40th_and_60th_percentile() -> None:
    assert summarise(torch.arange(11.0)) == Summary(median=5.0, low=4.0, high=6.0, count=11)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 200])
def test_percentiles_agree_with_numpy(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    summary = summarise(values)
    assert [summary.low, summary.median, summary.high] == pytest.approx(np.percentile(values, [40, 50, 60]).tolist())
    assert summary.count == count


def test_infinite_values_count() -> None:
    found = summarise([1.0, 2.0, 3.0, math.inf, math.inf])
    assert found == Summary(3.0, found.low, math.inf, 5)
    assert found.low == pytest.approx(2.6)


def test_infinite_values_alone_give_no_nan() -> None:
    assert summarise([math.inf] * 4) == Summary(math.inf, math.inf, math.inf, 4)


def test_query_counts_can_be_summed_up() -> None:
    assert summarise(torch.tensor([3, 5])).median == 4.0


def test_a_value_that_is_no_number_is_an_error() -> None:
    with pytest.raises(InputError, match=r"1 of 2 values are not numbers \(nan\)"):
        summarise([1.0, math.nan])


def test_nothing_to_sum_up_is_an_error() -> None:
    with pytest.raises(InputError, match="no value"):
        summarise([])


def test_the_papers_unit_is_the_squared_distance_over_the_dimension() -> None:
    assert paper_unit(2.8, 784) == pytest.approx(0.01)
    torch.testing.assert_close(paper_unit(torch.tensor([2.8, math.inf]), 784), torch.tensor([0.01, math.inf]))


def test_a_dimension_below_one_is_an_error() -> None:
    with pytest.raises(InputError, match="dimension"):
        paper_unit(1.0, 0)
