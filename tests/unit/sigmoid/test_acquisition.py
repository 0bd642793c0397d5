from __future__ import annotations

import pytest
import torch

from popskipjump.rng import Key, integers, uniform
from popskipjump.sigmoid import (
    Grid,
    SigmoidPosterior,
    entropy,
    exact_information,
    expected_ratio,
    expected_sample_size,
    information_by_table,
    mutual_information,
    noisy_sigmoid,
)

TWO_SIDED = ((0.0, 0.0), (0.01, 0.1), (0.03, 0.3), (0.1, 0.02))
GRIDS = {
    "101 symmetric": Grid(),
    "101 two-sided": Grid(floors=TWO_SIDED),
    "301 symmetric": Grid(positions=301),
    "301 two-sided": Grid(positions=301, floors=TWO_SIDED),
}
TINY = Grid(positions=7, slopes=2, slope_range=(0.0, 1.0), floors=((0.0, 0.0), (0.05, 0.2)))


def learned(grid: Grid, images: int, answers: int, seed: int = 0) -> SigmoidPosterior:
    """Beliefs after honest answers of random sigmoids of the grid, asked half at random and half at the best place."""
    belief = SigmoidPosterior.uniform(grid, images)
    key, rows = Key(seed), torch.arange(images)
    centre = uniform(key.child("centre").roots(rows), 1).squeeze(1).double()
    channel = integers(key.child("channel").roots(rows), 1, grid.channels).squeeze(1)
    for number in range(answers):
        value, total = mutual_information(belief)
        belief.rescale(total)
        place = integers(key.child("place", number).roots(rows), 1, len(grid.askable)).squeeze(1)
        place = value.argmax(dim=1) if number % 2 else place
        low, high = grid.floor[channel].unbind(dim=1)
        p = noisy_sigmoid(grid.askable[place], centre, 10 ** grid.log_slope[channel], low, high)
        yes = uniform(key.child("answer", number).roots(rows), 1).squeeze(1) > p
        belief.update(place.tolist(), yes.tolist())
    return belief


def by_hand(grid: Grid, weights: torch.Tensor) -> torch.Tensor:
    """Mutual information as the sum over both answers of p(y, w) log(p(y, w) / (p(y) p(w))) (errata E18)."""
    prior = weights.double() / weights.double().sum()
    low, high = grid.floor.unbind(dim=1)
    values = []
    for x in grid.askable:
        p = noisy_sigmoid(x, grid.position.unsqueeze(1), 10**grid.log_slope, low, high).clamp(1e-6, 1 - 1e-6)
        yes, no = ((prior * q * (q / (prior * q).sum()).log()).sum() for q in (p, 1 - p))
        values.append(yes + no)
    return torch.stack(values)


def test_the_exact_information_is_the_sum_over_both_answers() -> None:
    belief = learned(TINY, 3, 6)
    for image in range(3):
        torch.testing.assert_close(exact_information(belief)[image], by_hand(TINY, belief.weights[image]))


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("answers", [0, 3, 30, 100])
def test_the_fast_information_is_the_exact_one(grid: Grid, answers: int) -> None:
    belief = learned(grid, 6, answers)
    fast, exact = mutual_information(belief)[0], exact_information(belief)
    # The error of the low-rank tables grows as beliefs narrow: 7e-7 nats at first, 5e-5 after 100 answers.
    assert float((fast - exact).abs().max()) < (2e-5 if answers <= 30 else 2e-4)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("answers", [0, 3, 30, 300])
def test_the_chosen_position_loses_next_to_no_information(grid: Grid, answers: int) -> None:
    belief = learned(grid, 6, answers, seed=1)
    fast, exact = mutual_information(belief)[0], exact_information(belief)
    best = exact.amax(dim=1)
    loss = best - exact.gather(1, fast.argmax(dim=1, keepdim=True)).squeeze(1)
    assert float(loss.max()) <= 1e-3
    worth = best > 0.01  # below, the low-rank tables can choose a place that is 15% worse, at no cost to speak of
    assert not bool(worth.any()) or float((loss / best)[worth].max()) <= 1e-2


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_an_answer_never_takes_information_away(grid: Grid) -> None:
    for answers in (0, 10, 60):
        belief = learned(grid, 4, answers, seed=2)
        assert float(exact_information(belief).min()) >= 0
        assert float(mutual_information(belief)[0].min()) > -2e-4


def test_an_answer_tells_at_most_one_bit() -> None:
    assert float(mutual_information(SigmoidPosterior.uniform(Grid(), 1))[0].max()) < float(entropy(torch.tensor(0.5)))


def test_a_sure_belief_has_nothing_to_learn() -> None:
    weights = torch.zeros(1, 101, 64)
    weights[0, 40, 10] = 1.0
    assert float(exact_information(SigmoidPosterior(Grid(), weights)).abs().max()) < 1e-12
    assert float(mutual_information(SigmoidPosterior(Grid(), weights))[0].abs().max()) < 2e-3


def test_a_known_step_is_bisected() -> None:
    grid = Grid(slopes=1, slope_range=(4.0, 4.0), floors=((0.0, 0.0),))
    value, _ = mutual_information(SigmoidPosterior.uniform(grid, 1))
    assert float(grid.askable[int(value.argmax())]) == pytest.approx(0.5, abs=0.0051)


def test_the_total_is_the_weight_of_each_image() -> None:
    belief = SigmoidPosterior(Grid(), torch.full((3, 101, 64), 1.0) * torch.tensor([1.0, 0.5, 2.0**-30])[:, None, None])
    total = mutual_information(belief)[1]
    torch.testing.assert_close(total, belief.weights.sum(dim=(1, 2)))


def test_the_information_does_not_depend_on_the_scale_of_the_weights() -> None:
    belief = learned(Grid(), 3, 10)
    small = SigmoidPosterior(belief.grid, belief.weights * 2.0**-30)
    assert torch.equal(mutual_information(belief)[0], mutual_information(small)[0])


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("images", [1, 2, 3])
def test_an_images_information_does_not_depend_on_the_batch(grid: Grid, images: int) -> None:
    belief = learned(grid, 17, 8)
    whole, total = mutual_information(belief)
    for first in (0, 5, 17 - images):
        rows = torch.arange(first, first + images)
        part, part_total = mutual_information(belief.select(rows))
        assert torch.equal(part, whole[rows])
        assert torch.equal(part_total, total[rows])


@pytest.mark.parametrize("images", [1, 2, 3, 5, 13])
def test_the_information_from_the_table_is_exact_and_does_not_depend_on_the_batch(images: int) -> None:
    belief = learned(Grid(positions=35, slopes=8, floors=TWO_SIDED), 17, 8)
    whole, total = map(torch.from_numpy, information_by_table(belief))
    torch.testing.assert_close(whole.double(), exact_information(belief), atol=1e-5, rtol=1e-3)
    # 1,680 float32 numbers in the linear algebra library's order: each addition may lose half of 2^-23.
    torch.testing.assert_close(total.double(), belief.weights.double().sum(dim=(1, 2)), atol=0, rtol=1e-5)
    part, part_total = map(torch.from_numpy, information_by_table(belief.select(torch.arange(3, 3 + images))))
    assert torch.equal(part, whole[3 : 3 + images])
    assert torch.equal(part_total, total[3 : 3 + images])


def size_table(grid: Grid) -> torch.Tensor:
    """A sample size for every lag and channel: growing with the lag, different for each channel."""
    return (1 + 20 * grid.lag.abs().unsqueeze(1) ** 1.5 * (1 + torch.arange(grid.channels))).to(torch.float32)


def expected_size(grid: Grid, weights: torch.Tensor, table: torch.Tensor, centre: float) -> float:
    """Sum over the cells, with the table between the grid's positions taken linearly."""
    last = grid.positions - 1
    lower = min(int(centre * last), last - 1)
    share = centre * last - lower
    total = 0.0
    for j in range(grid.positions):
        for c in range(grid.channels):
            below, above = (float(table[last - i + j, c]) for i in (lower, lower + 1))
            total += float(weights[j, c]) * ((1 - share) * below + share * above)
    return total / float(weights.sum())


@pytest.mark.parametrize("centre", [0.0, 0.2, 0.5, 1.0])
def test_the_expected_size_is_the_sum_over_the_belief(centre: float) -> None:
    belief = learned(TINY, 2, 5)
    table = size_table(TINY)
    found = expected_ratio(belief, table, torch.full((2,), centre, dtype=torch.float64))
    by_sum = [expected_size(TINY, weights, table, centre) for weights in belief.weights]
    assert found.tolist() == pytest.approx(by_sum, rel=1e-5)


def brute_force(grid: Grid, weights: torch.Tensor, table: torch.Tensor) -> list[float]:
    """E over the answer of the size expected after it, with directions drawn at the mean centre."""
    values = []
    low, high = grid.floor.unbind(dim=1)
    prior = weights.double() / weights.double().sum()
    for x in grid.askable:
        p = noisy_sigmoid(x, grid.position.unsqueeze(1), 10**grid.log_slope, low, high).clamp(1e-6, 1 - 1e-6)
        value = 0.0
        for likelihood in (p, 1 - p):
            joint = prior * likelihood
            mass = float(joint.sum())
            centre = float((joint.sum(dim=1) * grid.position).sum()) / mass
            value += mass * expected_size(grid, joint, table, centre)
        values.append(value)
    return values


@pytest.mark.parametrize("answers", [0, 2, 8])
@pytest.mark.parametrize("scale", [1.0, 2.0**-60])
def test_the_size_expected_after_an_answer_is_that_of_brute_force(answers: int, scale: float) -> None:
    belief = learned(TINY, 2, answers, seed=3)
    belief.weights *= scale
    table = size_table(TINY)
    found = expected_sample_size(belief, table)
    for image in range(2):
        assert found[image].tolist() == pytest.approx(brute_force(TINY, belief.weights[image], table), rel=1e-4)
