from __future__ import annotations

import math

import pytest
import torch

from popskipjump.sigmoid import answer_correlation, deterministic_cosine, expected_cosine, queries_for_cosine

LARGEST = math.sqrt(2 / math.pi)


def correlation(offset: float, slope: float, spread: float, lost: float = 0.0) -> float:
    first = torch.tensor(offset, dtype=torch.float64)
    return float(answer_correlation(first, torch.tensor(slope, dtype=torch.float64), spread, lost))


def by_quadrature(offset: float, slope: float, spread: float, lost: float = 0.0) -> float:
    """E[y u] with u standard normal and E[y | u] = (1 - lost) 2 clip(s (beta u - Delta), -1/2, 1/2)."""
    u = torch.linspace(-12, 12, 2_000_001, dtype=torch.float64)
    mean = (2 * slope * (spread * u - offset)).clamp(-1, 1)
    return float((1 - lost) * torch.trapezoid(mean * u * torch.exp(-u * u / 2), u)) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("slope", [0.1, 1.0, 8.0, 45.0, 300.0])
@pytest.mark.parametrize("offset", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_the_correlation_of_a_finite_slope_is_the_integral_over_the_clipped_line(
    offset: float, slope: float, lost: float
) -> None:
    assert correlation(offset, slope, 0.02, lost) == pytest.approx(by_quadrature(offset, slope, 0.02, lost), rel=1e-6)


@pytest.mark.parametrize("slope", [0.5, 20.0, math.inf])
@pytest.mark.parametrize("offset", [0.0, 0.02, -0.03])
@pytest.mark.parametrize("floors", [(0.0, 0.0), (0.15, 0.15), (0.01, 0.1)])
def test_the_correlation_is_met_by_drawn_answers(slope: float, offset: float, floors: tuple[float, float]) -> None:
    low, high = floors
    count, spread = 400_000, 0.02
    stream = torch.Generator().manual_seed(1)
    u = torch.randn(count, generator=stream, dtype=torch.float64)
    height = spread * u - offset
    rise = (height > 0).double() if math.isinf(slope) else (0.5 + slope * height).clamp(0, 1)
    probability = low + (1 - low - high) * rise
    answers = torch.where(torch.rand(count, generator=stream, dtype=torch.float64) < probability, 1.0, -1.0)
    products = answers * u
    error = float(products.std()) / math.sqrt(count)
    # The mean of u is 0, so that unequal floors only shift the answers' mean.
    assert abs(float(products.mean()) - correlation(offset, slope, spread, low + high)) < 4.5 * error


def test_an_offset_counts_in_spreads_and_not_in_inputs() -> None:
    stream = torch.Generator().manual_seed(2)
    u = torch.randn(4_000_000, generator=stream)
    drawn = float((torch.where(0.01 * u > 0.025, 1.0, -1.0) * u).double().mean())
    assert correlation(0.025, math.inf, 0.01) == pytest.approx(0.0351, abs=5e-5)
    assert drawn == pytest.approx(correlation(0.025, math.inf, 0.01), abs=4 / math.sqrt(4e6))
    printed = LARGEST * math.exp(-((0.01 * 0.025) ** 2) / 2)
    assert printed == pytest.approx(0.798, abs=5e-4)
    assert abs(drawn - printed) > 0.7


@pytest.mark.parametrize("slope", [0.01, 1.0, 49.9, 50.1, 3000.0, math.inf])
@pytest.mark.parametrize("scale", [0.001, 0.3, 7.0])
def test_the_correlation_depends_on_ratios_alone(slope: float, scale: float) -> None:
    expected = correlation(0.7, slope, 1.0, 0.1)
    assert correlation(0.7 * scale, slope / scale, scale, 0.1) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_the_formulas_for_steep_and_for_flat_slopes_meet(offset: float) -> None:
    edge = 50.0  # half = 1 / (2 s beta) = 0.01
    steep, flat = (correlation(offset, edge * (1 + side), 1.0) for side in (1e-9, -1e-9))
    assert steep != flat
    assert steep == pytest.approx(flat, rel=2e-8)


def test_a_step_is_the_limit_of_a_steep_slope() -> None:
    assert correlation(0.5, 1e9, 1.0) == pytest.approx(correlation(0.5, math.inf, 1.0), rel=1e-12)


@pytest.mark.parametrize("slope", [0.2, 60.0, math.inf])
def test_the_sign_of_an_offset_does_not_matter(slope: float) -> None:
    assert correlation(-0.8, slope, 1.0) == pytest.approx(correlation(0.8, slope, 1.0), rel=1e-12)


def test_the_correlation_is_largest_for_a_step_in_the_middle() -> None:
    offsets = torch.linspace(-3, 3, 41, dtype=torch.float64).unsqueeze(1)
    slopes = torch.logspace(-2, 3, 31, dtype=torch.float64)
    values = answer_correlation(offsets, slopes, 1.0)
    assert correlation(0.0, math.inf, 1.0) == pytest.approx(LARGEST)
    assert float(values.max()) <= LARGEST
    assert float(values.min()) >= 0


def test_the_correlation_rises_with_the_slope_at_the_centre() -> None:
    slopes = torch.logspace(-2, 3, 200, dtype=torch.float64)
    values = answer_correlation(torch.tensor(0.0, dtype=torch.float64), slopes, 1.0)
    assert bool((values.diff() > 0).all())


@pytest.mark.parametrize("dimension", [2, 100, 784, 150_528])
@pytest.mark.parametrize("cosine", [0.01, 0.17, 0.9, 0.999])
def test_the_sample_size_is_the_inverse_of_the_cosine(cosine: float, dimension: int) -> None:
    alpha = torch.tensor([0.01, 0.3, LARGEST], dtype=torch.float64)
    count = queries_for_cosine(cosine, dimension, alpha)
    torch.testing.assert_close(expected_cosine(count, dimension, alpha), torch.full_like(alpha, cosine))


@pytest.mark.parametrize("count", [1.0, 100.0, 1e6])
def test_the_cosine_is_the_inverse_of_the_sample_size(count: float) -> None:
    alpha = torch.tensor([0.01, 0.3, LARGEST], dtype=torch.float64)
    cosine = expected_cosine(count, 784, alpha)
    torch.testing.assert_close(queries_for_cosine(cosine, 784, alpha), torch.full_like(alpha, count))


def test_the_cosine_needs_the_squared_correlation() -> None:
    alpha = torch.tensor(correlation(1.0, math.inf, 1.0), dtype=torch.float64)
    assert float(expected_cosine(300, 400, alpha)) == pytest.approx(0.387, abs=5e-4)  # errata E5: 0.517 with alpha


@pytest.mark.parametrize(("offset", "count"), [(0.0, 2672), (1.0, 7263), (2.0, 145_882)])
def test_an_offset_makes_a_direction_dearer(offset: float, count: int) -> None:
    alpha = torch.tensor(correlation(offset, math.inf, 1.0), dtype=torch.float64)
    assert float(queries_for_cosine(0.9, 400, alpha)) == pytest.approx(count, abs=0.5)  # errata E20


def test_no_signal_needs_infinitely_many_queries() -> None:
    assert float(queries_for_cosine(0.5, 100, torch.tensor(0.0))) == math.inf


def test_no_signal_leaves_no_cosine() -> None:
    assert float(expected_cosine(100, 784, torch.tensor(0.0))) == 0.0


def test_the_deterministic_cosine_is_taken_at_an_offset_of_one_spread() -> None:
    assert deterministic_cosine(100, 784) == pytest.approx(0.170, abs=5e-4)  # errata E7: 0.274 without the offset


def test_one_dimension_has_a_finite_deterministic_cosine() -> None:
    assert 0 < deterministic_cosine(100, 1) < 1
