from __future__ import annotations

import pytest
import torch

from popskipjump.rng import Key, integers
from popskipjump.sigmoid import Grid, SigmoidPosterior, noisy_sigmoid

SMALL = Grid(positions=5, slopes=2, slope_range=(0.0, 1.0), floors=((0.0, 0.0), (0.1, 0.2)))


def posterior(*weights: list[list[float]]) -> SigmoidPosterior:
    """One image for each table of weights (5 centres, 4 channels)."""
    return SigmoidPosterior(SMALL, torch.tensor(weights, dtype=torch.float32))


def column(*masses: float) -> list[list[float]]:
    """Weights with these masses at the five centres, spread unevenly over the channels."""
    return [[m * part for part in (0.1, 0.2, 0.3, 0.4)] for m in masses]


def questions(grid: Grid, images: int, count: int, seed: int) -> list[tuple[list[int], list[bool]]]:
    roots = Key(seed).roots(torch.arange(images))
    places = integers(roots, count, len(grid.askable))
    answers = integers(roots, count, 2, start=count) == 1
    return [(places[:, i].tolist(), answers[:, i].tolist()) for i in range(count)]


@pytest.mark.parametrize("grid", [SMALL, Grid(), Grid(positions=301, floors=((0.0, 0.0), (0.01, 0.1)))])
def test_an_update_is_bayes_rule(grid: Grid) -> None:
    belief = SigmoidPosterior.uniform(grid, 3)
    asked = questions(grid, 3, 25, seed=4)
    for places, answers in asked:
        belief.update(places, answers)
    low, high = grid.floor.unbind(dim=1)
    for image in range(3):
        log = torch.zeros(grid.positions, grid.channels, dtype=torch.float64)
        for places, answers in asked:
            x = grid.askable[places[image]]
            p = noisy_sigmoid(x, grid.position.unsqueeze(1), 10**grid.log_slope, low, high).clamp(1e-6, 1 - 1e-6)
            log += (1 - p if answers[image] else p).log()
        exact = (log - log.max()).exp()
        exact /= exact.sum()
        found = belief.weights[image].double()
        # 25 products of float32 likelihoods; the likeliest cells decide, so the error is judged against the largest.
        torch.testing.assert_close(found / found.sum(), exact, rtol=1e-4, atol=1e-7 * float(exact.max()))


def test_a_uniform_prior_believes_every_cell_alike() -> None:
    belief = SigmoidPosterior.uniform(SMALL, 2)
    assert len(belief) == 2
    assert belief.weights.unique().numel() == 1
    assert belief.centre_marginal().tolist() == [[0.2] * 5] * 2
    assert belief.channel_marginal().tolist() == [[0.25] * 4] * 2


def test_an_adversarial_answer_moves_the_centre_towards_the_original() -> None:
    belief = SigmoidPosterior.uniform(Grid(), 2)
    belief.update([50, 50], [True, False])
    adversarial, original = belief.mean().centre.tolist()
    assert original < 0.5 < adversarial


def test_the_mean_weighs_every_parameter_by_its_marginal() -> None:
    belief = posterior(column(0.0, 1.0, 0.0, 3.0, 0.0))
    mean = belief.mean()
    assert float(mean.centre) == pytest.approx(0.25 * 0.25 + 0.75 * 0.75)
    # channels: (s = 1, no floor), (10, no floor), (1, floors), (10, floors) with 0.1, 0.2, 0.3, 0.4
    assert float(mean.log_slope) == pytest.approx(0.2 + 0.4)
    assert float(mean.low) == pytest.approx(0.1 * 0.7)
    assert float(mean.high) == pytest.approx(0.2 * 0.7)
    assert float(mean.lost) == pytest.approx(0.3 * 0.7)
    assert float(mean.slope) == pytest.approx(10**0.6)


def test_the_mode_is_the_heaviest_cell() -> None:
    weights = [[0.1] * 4 for _ in range(5)]
    weights[3][2] = 0.11
    other = [[0.1] * 4 for _ in range(5)]
    other[1][1] = 0.2
    mode = posterior(weights, other).mode()
    assert mode.centre.tolist() == [0.75, 0.25]
    assert mode.log_slope.tolist() == [0.0, 1.0]
    assert mode.low.tolist() == [0.1, 0.0]
    assert mode.high.tolist() == [0.2, 0.0]


def test_the_mode_is_the_first_of_equals() -> None:
    assert float(posterior([[1.0] * 4] * 5).mode().centre) == 0.0


def test_the_mean_does_not_depend_on_the_scale_of_the_weights() -> None:
    one, half = posterior(column(1, 2, 3, 2, 1)), posterior(column(0.5, 1, 1.5, 1, 0.5))
    assert torch.equal(one.mean().centre, half.mean().centre)


@pytest.mark.parametrize(
    ("level", "place"),
    # Cells of width 1/4 around 0, 1/4, ..., 1; the masses below are 0, 0.1, 0.4, 0.5, 0.
    [(0.05, 0.25), (0.1, 0.375), (0.3, 0.5), (0.5, 0.625), (0.75, 0.75), (1.0, 0.875)],
)
def test_a_quantile_lies_between_grid_points(level: float, place: float) -> None:
    belief = posterior(column(0.0, 0.1, 0.4, 0.5, 0.0))
    assert float(belief.centre_quantile(level)) == pytest.approx(place, abs=1e-6)


def test_quantiles_stay_on_the_line() -> None:
    sure = posterior(column(1.0, 0, 0, 0, 0), column(0, 0, 0, 0, 1.0))
    for level in (0.001, 0.5, 0.999):
        quantile = sure.centre_quantile(level)
        assert float(quantile.min()) >= 0.0
        assert float(quantile.max()) <= 1.0


def test_quantiles_rise_with_the_level() -> None:
    belief = SigmoidPosterior.uniform(Grid(), 1)
    belief.update([30], [True])
    levels = [float(belief.centre_quantile(level)) for level in (0.05, 0.25, 0.5, 0.75, 0.95)]
    assert levels == sorted(levels)
    assert len(set(levels)) == 5


def test_the_deviation_is_that_of_the_centre() -> None:
    belief = posterior(column(1.0, 0, 0, 0, 1.0), column(0, 0, 1.0, 0, 0))
    assert belief.centre_deviation().tolist() == pytest.approx([0.5, 0.0])


def test_select_takes_the_chosen_images() -> None:
    belief = posterior(column(1, 0, 0, 0, 0), column(0, 0, 1, 0, 0), column(0, 0, 0, 0, 1))
    assert belief.select(torch.tensor([2, 0])).mean().centre.tolist() == [1.0, 0.0]
    assert belief.select(torch.tensor([False, True, False])).mean().centre.tolist() == [0.5]


def test_a_selection_is_a_copy() -> None:
    belief = SigmoidPosterior.uniform(SMALL, 2)
    belief.select(torch.tensor([0])).update([2], [True])
    assert belief.weights.unique().numel() == 1


def test_rescaling_changes_no_digit_of_what_is_believed() -> None:
    belief = SigmoidPosterior.uniform(SMALL, 2)
    for places, answers in questions(SMALL, 2, 60, seed=1):
        belief.update(places, answers)
    before = [*belief.mean(), *belief.mode(), *belief.centre_marginal(), *belief.channel_marginal()]
    total = belief.weights.sum(dim=(1, 2))
    assert float(total.max()) < 2.0**20
    belief.rescale(total)
    assert float(belief.weights.sum(dim=(1, 2)).min()) >= 2.0**58
    after = [*belief.mean(), *belief.mode(), *belief.centre_marginal(), *belief.channel_marginal()]
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old, new)


def test_weights_of_ordinary_size_are_not_rescaled() -> None:
    belief = posterior(column(*(2.0**60 * m for m in (1, 2, 3, 2, 1))))
    before = belief.weights.clone()
    belief.rescale(belief.weights.sum(dim=(1, 2)))
    assert torch.equal(belief.weights, before)


def test_only_the_small_of_a_batch_are_rescaled() -> None:
    belief = SigmoidPosterior(SMALL, torch.stack((torch.full((5, 4), 1e-15), torch.full((5, 4), 5e16))))
    belief.rescale(belief.weights.sum(dim=(1, 2)))
    assert torch.equal(belief.weights[1], torch.full((5, 4), 5e16))
    assert float(belief.weights[0].sum()) > 2.0**58


def test_no_weight_is_so_small_that_arithmetic_with_it_is_slow() -> None:
    belief = SigmoidPosterior.uniform(Grid(), 1)
    tiny = torch.finfo(torch.float32).tiny
    for places, answers in questions(Grid(), 1, 200, seed=1):
        belief.update(places, answers)
        belief.rescale(belief.weights.sum(dim=(1, 2)))
        assert not bool(((belief.weights > 0) & (belief.weights < tiny)).any())
    assert bool((belief.weights == 0).any())  # there were such weights


def test_a_belief_that_was_refuted_everywhere_starts_again() -> None:
    belief = SigmoidPosterior(SMALL, torch.zeros(1, 5, 4))
    belief.rescale(belief.weights.sum(dim=(1, 2)))
    assert torch.equal(belief.weights, SigmoidPosterior.uniform(SMALL, 1).weights)


def test_a_thousand_contradicting_answers_leave_finite_numbers() -> None:
    belief = SigmoidPosterior.uniform(Grid(), 1)
    for number in range(1000):
        belief.update([50], [number % 2 == 0])
        belief.rescale(belief.weights.sum(dim=(1, 2)))
    assert all(bool(torch.isfinite(value).all()) for value in belief.mean())
    # As many answers of either kind are likeliest where the sigmoid is 1/2.
    assert float(belief.mean().centre) == pytest.approx(float(belief.grid.askable[50]), abs=0.05)
