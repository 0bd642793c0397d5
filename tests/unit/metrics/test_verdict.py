from __future__ import annotations

import math

import pytest
import torch

from popskipjump.errors import InputError
from popskipjump.metrics import verdict_of, wilson_interval

Z95 = 1.959963984540054


@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_ends_solve_wilsons_equation(count: int) -> None:
    successes = torch.arange(count + 1)
    share = successes.double() / count
    for end in wilson_interval(successes, count):
        torch.testing.assert_close((share - end) ** 2, Z95**2 * end * (1 - end) / count, rtol=1e-9, atol=1e-12)


def test_known_values_are_met() -> None:
    low, high = wilson_interval(torch.tensor([5]), 10)  # 0.5 +- 0.2634 (Brown, Cai and DasGupta, 2001)
    assert float(low) == pytest.approx(0.2366, abs=1e-4)
    assert float(high) == pytest.approx(0.7634, abs=1e-4)


def test_unanimous_answers_have_an_end_at_zero_or_one() -> None:
    low, high = wilson_interval(torch.tensor([0, 20]), 20)
    assert float(low[0]) == 0.0
    assert float(high[1]) == 1.0
    assert 0 < float(high[0]) < 0.2
    assert 0.8 < float(low[1]) < 1


def test_the_interval_covers_the_truth_about_as_often_as_promised() -> None:
    count = 40
    for truth in (0.1, 0.5, 0.8):
        k = torch.arange(count + 1)
        log_choose = math.lgamma(count + 1) - torch.lgamma(k + 1.0) - torch.lgamma(count - k + 1.0)
        weight = (log_choose + k * math.log(truth) + (count - k) * math.log1p(-truth)).exp()
        low, high = wilson_interval(k, count)
        assert float(weight[(low <= truth) & (truth <= high)].sum()) == pytest.approx(0.95, abs=0.025)


def test_more_confidence_is_a_wider_interval() -> None:
    narrow, wide = (wilson_interval(torch.tensor([3]), 10, confidence) for confidence in (0.5, 0.99))
    assert float(wide[0]) < float(narrow[0]) < 0.3 < float(narrow[1]) < float(wide[1])


def test_each_point_may_have_its_own_number_of_trials() -> None:
    low, high = wilson_interval(torch.tensor([5, 50]), torch.tensor([10, 100]))
    assert float(high[1] - low[1]) < float(high[0] - low[0])


def test_no_trial_says_nothing() -> None:
    verdict = verdict_of(torch.tensor([0, 3]), torch.tensor([0, 4]))
    assert [float(verdict.low[0]), float(verdict.high[0])] == [0.0, 1.0]
    assert verdict.probability[0].isnan()
    assert float(verdict.probability[1]) == 0.75


def test_a_verdict_holds_the_share_its_interval_and_the_queries() -> None:
    verdict = verdict_of(torch.tensor([0, 5, 10]), 10)
    assert verdict.probability.tolist() == [0.0, 0.5, 1.0]
    assert verdict.queries.tolist() == [10, 10, 10]
    assert ((verdict.low <= verdict.probability) & (verdict.probability <= verdict.high)).all()


@pytest.mark.parametrize(("successes", "trials"), [(-1, 10), (11, 10), (0, -1)])
def test_impossible_counts_are_an_error(successes: int, trials: int) -> None:
    with pytest.raises(InputError, match="between 0 and the number of trials"):
        wilson_interval(torch.tensor([successes]), trials)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan])
def test_a_confidence_out_of_range_is_an_error(confidence: float) -> None:
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        wilson_interval(torch.tensor([1]), 10, confidence)
