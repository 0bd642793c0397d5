from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from popskipjump.attacks.directions.pool import BLOCK, DirectionPool, block_rows
from popskipjump.rng import Key

D = 64


def pool_of(
    dimension: int = D, ids: Sequence[int] = tuple(range(8)), seed: int = 0, sphere: bool = False
) -> DirectionPool:
    return DirectionPool(Key(seed), dimension, torch.tensor(ids), torch.device("cpu"), sphere)


def directions(pool: DirectionPool, row: int, iteration: int, number: int) -> torch.Tensor:
    blocks, signs = pool.draw(torch.tensor([row]), iteration, torch.tensor([number]))
    return blocks[0] * signs[0]


def rounds_of(pool: DirectionPool) -> int:
    """After how many blocks an image sees the same rows again."""
    first = directions(pool, 0, 1, 0).abs()
    return next(number for number in range(1, 100) if torch.equal(directions(pool, 0, 1, number).abs(), first))


@pytest.fixture(scope="module")
def sample() -> torch.Tensor:
    """All of four pools, as the first blocks of an image see them: (8192, 64)."""
    pools = [pool_of(seed=seed) for seed in range(4)]
    return torch.cat([directions(pool, 0, 1, number) for pool in pools for number in range(rounds_of(pool))]).double()


def test_every_coordinate_has_the_moments_of_the_normal(sample: Tensor) -> None:
    n = len(sample)
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        found = (sample**power).mean(dim=0)  # (64,)
        assert float((found - moment).abs().max()) < 4.5 * math.sqrt(variance / n)  # the largest of 64
        assert float(found.mean()) == pytest.approx(moment, abs=4.5 * math.sqrt(variance / n / D))


def test_coordinates_are_uncorrelated(sample: Tensor) -> None:
    correlation = sample.T @ sample / len(sample)
    off = correlation - torch.diag(correlation.diag())
    assert float(off.abs().max()) < 5 / math.sqrt(len(sample))  # the largest of 2016


@pytest.mark.parametrize("number", [0, 7])
def test_rows_within_a_block_are_uncorrelated(number: int) -> None:
    d = 2048
    block = directions(pool_of(d), 3, 2, number).double()
    gram = block @ block.T / d
    off = gram[~torch.eye(len(block), dtype=torch.bool)]
    assert float(off.abs().max()) < 5.5 / math.sqrt(d)  # the largest of 32640
    assert float(off.std()) == pytest.approx(1 / math.sqrt(d), rel=0.05)


def test_rows_that_come_round_again_are_uncorrelated_with_what_they_were() -> None:
    pool = pool_of(2048)
    rounds = rounds_of(pool)
    first, second = (directions(pool, 0, 1, number).double() for number in (0, rounds))
    assert torch.equal(first.abs(), second.abs())
    along = (first * second).mean(dim=1)
    assert float(along.abs().max()) < 5 * math.sqrt(3 / 2048)  # E[x^4] = 3


def test_an_address_gives_the_same_rows_whatever_else_is_drawn() -> None:
    pool = pool_of()
    alone = directions(pool, 5, 3, 2)
    blocks, signs = pool.draw(torch.tensor([0, 5, 5, 7]), 3, torch.tensor([2, 1, 2, 0]))
    assert torch.equal(blocks[2] * signs[2], alone)
    assert torch.equal(directions(pool_of(), 5, 3, 2), alone)


def test_an_image_is_known_by_its_id_and_not_by_its_row() -> None:
    assert torch.equal(directions(pool_of(ids=(30, 10, 20)), 2, 1, 0), directions(pool_of(ids=(20,)), 0, 1, 0))


def test_every_part_of_the_address_matters() -> None:
    pool = pool_of()
    drawn = [directions(pool, *address) for address in ((0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1))]
    drawn.append(directions(pool_of(seed=1), 0, 1, 0))
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            assert not torch.equal(one, other)


def test_directions_on_the_sphere_have_the_length_of_a_typical_normal_one() -> None:
    lengths = directions(pool_of(sphere=True), 0, 1, 0).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full((BLOCK,), math.sqrt(D)))


@pytest.mark.parametrize(("dimension", "rows"), [(2, 256), (784, 256), (16_384, 256), (150_528, 27), (10**8, 1)])
def test_a_block_is_smaller_where_inputs_are_large(dimension: int, rows: int) -> None:
    assert block_rows(dimension) == rows


def test_a_pool_of_large_inputs_stays_small() -> None:
    rows = block_rows(150_528)
    blocks = rounds_of(pool_of(150_528))
    assert blocks >= 2
    assert blocks * rows * 150_528 * 4 <= 33 << 20
