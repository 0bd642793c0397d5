from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attack_toys import Seen, begun_at, border_of, problem_of, unit
from present import present
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.directions.adaptive.count import GainOptimalCount
from popskipjump.attacks.directions.adaptive.dct import basis_of
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections, DirectionState, blocks
from popskipjump.attacks.directions.adaptive.spectrum_prior import SpectrumPrior
from popskipjump.errors import InputError
from popskipjump.oracles import Plane

D = 144
SHAPE = (1, 12, 12)
MANY = GainOptimalCount(fewest=400, most=400)


class Coins:
    """Answers without regard to the input."""

    def sample(self, model: Plane, points: Tensor, roots: Tensor) -> Tensor:
        return (roots >> 7) & 1


def setting(
    plane: Plane | None = None,
    *,
    count: int = 1,
    noise: Coins | None = None,
    original: float = 0.5,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> tuple[Problem, Border, Seen]:
    """Borders at a change of the first value alone."""
    seen = Seen(Plane(unit(D), original + 0.1) if plane is None else plane, noise)
    problem = problem_of(seen, torch.full((count, *SHAPE), original), bounds=bounds)
    border = border_of(problem, problem.original + 0.2 * unit(D), 0.5)
    return problem, border, seen


def estimated(
    direction: AdaptiveDirections, problem: Problem, border: Border, iteration: int = 1, compared: bool = True
) -> tuple[Tensor, DirectionState]:
    return direction(problem, border, iteration, direction.begin(problem, begun_at(border, compared)))


@pytest.mark.parametrize("height", [-9.0, 9.0])
@pytest.mark.parametrize("shape", [SHAPE, (7,)], ids=str)
def test_equal_answers_give_no_direction(height: float, shape: tuple[int, ...]) -> None:
    size = int(torch.tensor(shape).prod())
    problem = problem_of(Plane(unit(size), height), torch.full((2, *shape), 0.5))
    border = border_of(problem, problem.original + 0.2, 0.5)
    direction = AdaptiveDirections()
    state = direction.begin(problem, begun_at(border))
    for iteration in (1, 2):
        estimate, state = direction(problem, border, iteration, state)
        assert torch.equal(estimate, torch.zeros(2, size))


def test_the_estimate_points_along_the_normal_across_the_ray() -> None:
    normal = unit(D, 5) + unit(D, 50) + 3 * unit(D)  # its part along the ray is known already
    problem, border, _ = setting(Plane(normal, float(normal.sum() / 2 + 3 * 0.1)), bounds=(-9.0, 9.0))
    direction = AdaptiveDirections(local=False, learn_spectrum=False, count=GainOptimalCount(fewest=3000))
    estimate, _ = estimated(direction, problem, border)
    across = normal - 3 * unit(D)
    assert float(torch.cosine_similarity(estimate[0], across, dim=0)) > 0.9  # expected: 0.96


@pytest.mark.parametrize(("tangential", "norm"), [(True, "l2"), (False, "l2"), (True, "linf")])
def test_directions_lie_across_the_ray_where_a_norm_has_a_tangent(tangential: bool, norm: str) -> None:
    seen = Seen(Plane(unit(D), 0.6))
    problem = problem_of(seen, torch.full((1, *SHAPE), 0.5), bounds=(-9.0, 9.0), norm=norm)
    border = border_of(problem, problem.original + 0.2 * unit(D), 0.5)
    estimated(AdaptiveDirections(tangential=tangential, centring=0.0), problem, border)
    moved = seen.all_points() - border.point
    along = float(moved[:, 0].abs().max() / moved.abs().max())
    assert (along < 1e-4) is (tangential and norm == "l2")


def test_the_centre_moves_out_until_half_of_the_answers_are_adversarial() -> None:
    """The border is further out than the search believes: without a shift no answer would be adversarial."""
    asked = {}
    for centring in (0.0, 0.7):
        problem, border, seen = setting(Plane(unit(D), 0.603), bounds=(-9.0, 9.0))
        estimated(AdaptiveDirections(centring=centring, count=MANY), problem, border)
        asked[centring] = seen.all_points()[:, 0][-40:] - 0.6
    assert float(asked[0.0].abs().max()) < 1e-5
    assert float(asked[0.7].mean()) > 0.002


@pytest.mark.parametrize("original", [0.0, 0.5])
def test_evidence_of_coin_flips_has_the_variance_that_it_claims_where_values_are_clipped(original: float) -> None:
    """Otherwise the spectrum would be inferred from what the bounds cut off."""
    problem, border, _ = setting(noise=Coins(), count=12, original=original)
    direction = AdaptiveDirections(local=False, active_bounds=None, rivals=None, count=MANY)
    _, state = estimated(direction, problem, border)
    scores = present(state.evidence).signal ** 2 / basis_of(SHAPE).by_coefficient(present(state.evidence).noise)
    # 1,728 squares of mean 1: their mean is off by 0.2 with a probability of 1e-8. Without bounds in mind it is 0.35.
    assert float(scores.mean()) == pytest.approx(1.0, abs=0.2)


def test_directions_are_strong_where_the_input_was_changed() -> None:
    strengths = []
    for local in (True, False):
        problem, border, seen = setting(bounds=(-9.0, 9.0))
        estimated(AdaptiveDirections(local=local, count=MANY, tangential=False, centring=0.0), problem, border)
        moved = (seen.all_points() - border.point).reshape(-1, 12, 12).square().mean(dim=0).sqrt()
        strengths.append(float(moved[:3, :3].mean() / moved[-3:, -3:].mean()))
    assert strengths[0] > 1.5
    assert strengths[1] == pytest.approx(1.0, abs=0.15)


def like_the_first_change(iteration: int, compared: bool, width: float) -> float:
    """How much of the directions lies in the frequencies of a first change by checkers, before any answer."""
    basis = basis_of(SHAPE)
    seen = Seen(Plane(basis.corners[0], 1.0))
    problem = problem_of(seen, torch.full((1, *SHAPE), 0.5))
    wide = torch.full((1,), width, dtype=torch.float64)
    border = border_of(problem, 0.5 + 0.2 * basis.corners[:1], 0.5, width=wide)
    estimated(
        AdaptiveDirections(local=False, count=GainOptimalCount(most=400), far_mode=None),
        problem,
        border,
        iteration,
        compared,
    )
    points = seen.all_points()
    energy = basis.by_band(basis.to_coefficients(points - points.mean(dim=0)) ** 2).sum(dim=0)
    return float(energy[-1] / energy.sum())


def test_where_no_patterns_were_tried_the_first_change_is_trusted_less() -> None:
    tried, untried = (like_the_first_change(1, compared, width=0.0) for compared in (True, False))
    assert tried > 1.1 * untried


def test_where_the_border_is_gradual_the_first_change_counts_longer() -> None:
    sharp, gradual = (like_the_first_change(60, True, width) for width in (0.0, 0.3))
    assert gradual > 1.3 * sharp


def prior_of(width: float, iteration: int, norm: str = "l2", compared: bool = True, **options: Any) -> torch.Tensor:
    basis = basis_of(SHAPE)
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(1, *SHAPE), norm=norm)
    rule = SpectrumPrior(**options)
    state = rule.begin(problem, basis, basis.corners[:1], torch.tensor([compared]))
    return rule(problem, basis, state, torch.tensor([width], dtype=torch.float64), iteration).exp()


def test_the_prior_of_a_spectrum_fades_by_a_power_for_each_iteration() -> None:
    first, later = (prior_of(0.0, iteration, power=8.0, fading=0.5).log() for iteration in (1, 3))
    torch.testing.assert_close(torch.log_softmax(first / 4, dim=1), later)


def test_the_prior_of_a_spectrum_does_not_fade_on_a_gradual_border() -> None:
    first, later = (prior_of(1e9, iteration, fading=0.5) for iteration in (1, 30))
    torch.testing.assert_close(first, later)


@pytest.mark.parametrize(("compared", "trust"), [(True, 0.9), (False, 0.6)])
def test_the_prior_is_trusted_as_far_as_told(compared: bool, trust: float) -> None:
    chances = prior_of(0.0, 1, compared=compared, power=5000.0, trust=0.9, trust_without_patterns=0.6)
    assert float(chances.min()) == pytest.approx((1 - trust) / chances.shape[1], rel=1e-3)


def test_under_linf_all_spectra_are_equally_likely() -> None:
    chances = prior_of(0.0, 1, "linf")
    torch.testing.assert_close(chances, torch.full_like(chances, 1 / chances.shape[1]))


@pytest.mark.parametrize(("counts", "block"), [([0, 1, 40, 41, 100], 40), ([7, 7], 3), ([0], 5)])
def test_directions_are_divided_into_nearly_equal_blocks(counts: list[int], block: int) -> None:
    parts = torch.stack(list(blocks(torch.tensor(counts), block)))
    assert parts.sum(dim=0).tolist() == counts
    assert int(parts.max()) <= block
    for image, count in enumerate(counts):
        mine = parts[:, image][parts[:, image] > 0]
        assert len(mine) == -(-count // block)
        assert not len(mine) or int(mine.max() - mine.min()) <= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaptiveDirections(block=0),
        lambda: AdaptiveDirections(decay=2),
        lambda: AdaptiveDirections(centring=-0.1),
        lambda: AdaptiveDirections(least=0.0),
        lambda: SpectrumPrior(power=-1),
        lambda: SpectrumPrior(fading=1.5),
        lambda: SpectrumPrior(trust=-0.1),
        lambda: SpectrumPrior(trust_without_patterns=1.1),
    ],
)
def test_directions_that_cannot_work_are_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(InputError):
        make()
