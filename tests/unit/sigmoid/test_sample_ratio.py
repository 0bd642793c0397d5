from __future__ import annotations

import math

import pytest
import torch

from popskipjump.sigmoid import Grid, answer_correlation, floor_cost, ratio_table
from popskipjump.sigmoid.sample_ratio import ratio_at, ratio_of, signal_table

SMALL = Grid(positions=21)


def test_the_sample_ratio_is_one_at_an_offset_of_one_spread() -> None:
    one = torch.tensor(0.01, dtype=torch.float64)
    assert float(ratio_at(one, torch.tensor(math.inf), 0.01, torch.tensor(0.0))) == pytest.approx(1.0)


def test_the_sample_ratio_is_the_inverse_square_of_the_correlation() -> None:
    alpha = torch.tensor([0.1, 0.2], dtype=torch.float64)
    one, two = ratio_of(alpha).tolist()
    assert one == pytest.approx(4 * two)


def test_the_sample_ratio_is_bounded() -> None:
    assert float(ratio_of(torch.tensor(0.0, dtype=torch.float64))) == 1e4


def test_the_tables_hold_every_lag_and_channel() -> None:
    signal, ratio = signal_table(SMALL, 0.05), ratio_table(SMALL, 0.05)
    for row, channel in ((0, 0), (20, 5), (23, 63)):
        lost = SMALL.floor[channel].sum()
        expected = answer_correlation(SMALL.lag[row], 10 ** SMALL.log_slope[channel], 0.05, lost)
        assert float(signal[row, channel]) == pytest.approx(float(expected), rel=1e-5, abs=1e-12)
        assert float(ratio[row, channel]) == pytest.approx(float(ratio_of(expected)), rel=1e-4)


def test_lost_contrast_costs_what_the_variance_of_the_answers_says() -> None:
    lost = torch.tensor([0.0, 0.1, 0.3])
    expected = []
    for c in lost.tolist():
        q = 1 / 8 + c * 7 / 8
        expected.append(q * (1 - q) / (7 / 64) / (1 - c) ** 2)
    assert floor_cost(lost).tolist() == pytest.approx(expected, rel=1e-5)
    assert float(floor_cost(lost)[0]) == 1.0
