from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from popskipjump.rng import Key, as_uniform, below, bits, integers, normal, signs, uniform

MANY = 200_000


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator of Steele, Lea and Flood, step by step in Python's own integers."""
    word = (1 << 64) - 1
    state, out = seed & word, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & word
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        out.append(z ^ (z >> 31))
    return out


def roots(count: int = MANY, seed: int = 0) -> torch.Tensor:
    return Key(seed).roots(torch.arange(count))


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_bits_are_splitmix64(seed: int) -> None:
    expected = [value - (1 << 64) if value >> 63 else value for value in splitmix64(seed, 20)]
    assert bits(torch.tensor([seed]), 20)[0].tolist() == expected


def test_splitmix64_of_1234567_is_the_published_sequence() -> None:
    assert splitmix64(1234567, 2) == [6457827717110365317, 3203168211198807973]


@pytest.mark.parametrize("draw", [bits, uniform, normal, signs, lambda r, w: integers(r, w, 7)])
def test_a_stream_does_not_depend_on_its_batch(draw: Callable[..., Tensor]) -> None:
    whole = draw(roots(50), 33)
    order = torch.arange(50).flip(0)
    assert torch.equal(draw(roots(50)[order], 33), whole[order])
    assert torch.equal(draw(roots(50)[17:18], 33), whole[17:18])
    assert torch.equal(draw(roots(50).reshape(5, 10), 33), whole.reshape(5, 10, 33))


@pytest.mark.parametrize("draw", [bits, uniform, lambda r, w, start: integers(r, w, 7, start)])
def test_a_start_continues_the_stream(draw: Callable[..., Tensor]) -> None:
    whole = draw(roots(9), 20, 0)
    assert torch.equal(torch.cat((draw(roots(9), 8, 0), draw(roots(9), 12, 8)), dim=1), whole)


@pytest.mark.parametrize("draw", [bits, signs, uniform])
def test_a_wider_draw_begins_alike(draw: Callable[..., Tensor]) -> None:
    assert torch.equal(draw(roots(9), 50)[:, :20], draw(roots(9), 20))


def test_drawing_does_not_change_the_roots() -> None:
    before = roots(9)
    same = before.clone()
    for draw in (bits, uniform, normal, signs):
        draw(same, 5)
    integers(same, 5, 3)
    assert torch.equal(same, before)


def test_drawing_does_not_touch_the_global_generator() -> None:
    state = torch.random.get_rng_state()
    normal(roots(9), 5)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_every_bit_is_a_fair_coin() -> None:
    words = bits(roots(20_000), 1)
    ones = torch.stack([(words >> place & 1).double().mean() for place in range(64)])
    assert float((ones - 0.5).abs().max()) < 5 * 0.5 / math.sqrt(20_000)


def test_neighbouring_bits_are_independent() -> None:
    coins = (bits(roots(20_000), 1) >> torch.arange(64) & 1).double()
    correlation = torch.corrcoef(coins.T) - torch.eye(64)
    assert float(correlation.abs().max()) < 5.5 / math.sqrt(20_000)  # the largest of 2016


def test_neighbouring_streams_are_independent() -> None:
    numbers = uniform(roots(20_001), 1).double().squeeze(-1)
    assert abs(float(torch.corrcoef(torch.stack((numbers[1:], numbers[:-1])))[0, 1])) < 5 / math.sqrt(20_000)


def test_uniform_numbers_have_the_moments_of_the_uniform() -> None:
    numbers = uniform(roots(), 1).double()
    assert abs(float(numbers.mean()) - 1 / 2) < 5 * math.sqrt(1 / 12 / MANY)
    assert abs(float((numbers**2).mean()) - 1 / 3) < 5 * math.sqrt(4 / 45 / MANY)


def test_uniform_numbers_fill_their_interval_evenly() -> None:
    counts = torch.histc(uniform(roots(), 1), bins=100, min=0, max=1).double()
    chi_square = float(((counts - MANY / 100) ** 2 / (MANY / 100)).sum())
    assert abs(chi_square - 99) < 5 * math.sqrt(2 * 99)


def test_uniform_numbers_stay_inside_the_open_interval_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([0, -1])  # all bits 0, all bits 1
    monkeypatch.setattr("popskipjump.rng.bits", lambda *_: ends.clone())
    low, high = uniform(ends, 1).tolist()
    assert 0 < low < 1e-6
    assert 1 - 1e-6 < high < 1


@pytest.mark.parametrize("below", [1, 2, 7, 10, 100])
def test_integers_are_uniform(below: int) -> None:
    drawn = integers(roots(), 1, below)
    counts = torch.bincount(drawn.flatten(), minlength=below).double()
    assert len(counts) == below
    chi_square = float(((counts - MANY / below) ** 2 / (MANY / below)).sum())
    assert abs(chi_square - (below - 1)) <= 5 * math.sqrt(2 * (below - 1))


def test_integers_reach_close_to_a_large_bound() -> None:
    drawn = integers(roots(), 1, 2**31 - 1)
    assert int(drawn.min()) >= 0
    assert 2**31 - 1 - 2**31 * 20 / MANY < int(drawn.max()) < 2**31 - 1


def test_normal_numbers_have_the_moments_of_the_normal() -> None:
    numbers = normal(roots(MANY // 4), 4).double()
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(float((numbers**power).mean()) - moment) < 5 * math.sqrt(variance / MANY)


def test_normal_numbers_have_the_tails_of_the_normal() -> None:
    numbers = normal(roots(MANY // 4), 4)
    for edge in (1.0, 2.0, 3.0):
        share = math.erfc(edge / math.sqrt(2))
        assert abs(float((numbers.abs() > edge).double().mean()) - share) < 5 * math.sqrt(share / MANY)


@pytest.mark.parametrize("width", [1, 2, 5, 6])
def test_normal_numbers_of_one_stream_are_uncorrelated(width: int) -> None:
    numbers = normal(roots(50_000), width).double()
    assert numbers.shape == (50_000, width)
    covariance = torch.cov(numbers.T).reshape(width, width) - torch.eye(width)
    assert float(covariance.abs().max()) < 5 * math.sqrt(2 / 50_000)


def test_normal_numbers_are_finite_at_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([[0], [-1]])
    monkeypatch.setattr("popskipjump.rng.bits", lambda *_: ends.clone())
    assert normal(ends[:, 0], 2).isfinite().all()


@pytest.mark.parametrize("width", [1, 31, 32, 33, 100])
def test_signs_are_plus_and_minus_one(width: int) -> None:
    drawn = signs(roots(1000), width)
    assert drawn.shape == (1000, width)
    assert set(drawn.unique().tolist()) == {-1.0, 1.0}


def test_signs_are_fair_and_independent() -> None:
    drawn = signs(roots(20_000), 70).double()
    assert abs(float(drawn.mean())) < 5 / math.sqrt(drawn.numel())
    correlation = torch.corrcoef(drawn.T) - torch.eye(70)
    assert float(correlation.abs().max()) < 5.5 / math.sqrt(20_000)


def test_a_key_is_its_seed_and_path() -> None:
    assert Key(3).child("a", 1) == Key(3).child("a").child(1)
    assert Key(3).child("a").value == Key(3).child("a").value


def test_different_addresses_have_different_streams() -> None:
    keys = [Key(0), Key(1), Key(-1), Key(0).child("a"), Key(0).child("b"), Key(0).child(1), Key(0).child("1")]
    keys += [Key(0).child("a", "b"), Key(0).child("b", "a"), Key(1).child("a"), Key(0).child("ab")]
    assert len({key.value for key in keys}) == len(keys)


def test_a_value_is_the_same_in_every_session() -> None:
    assert Key(0).child("noise").value == -3982862591583828244


def test_roots_tell_their_counters_apart() -> None:
    first, second = torch.meshgrid(torch.arange(100), torch.arange(100), indexing="ij")
    assert len(Key(0).roots(first, second).unique()) == 10_000
    assert len(torch.cat((Key(0).roots(first, second), Key(1).roots(first, second))).unique()) == 20_000


def test_a_root_depends_on_its_own_counters_only() -> None:
    image, serial = torch.tensor([3, 5, 5]), torch.tensor([0, 7, 8])
    assert torch.equal(Key(2).roots(image, serial)[1:2], Key(2).roots(image[1:2], serial[1:2]))


def test_the_root_of_a_key_is_its_value() -> None:
    assert Key(5).root().tolist() == [Key(5).value]


@pytest.mark.parametrize("probability", [0.0, 1e-8, 0.1, 1 / 3, 0.5, 0.999999, 1.0])
def test_below_is_the_comparison_of_uniform_numbers(probability: float) -> None:
    raw = bits(Key(5).root(), 4096)
    assert torch.equal(below(raw, probability), as_uniform(raw) < probability)


@pytest.mark.parametrize("start", [0, 3])
def test_a_lone_number_is_the_one_among_many(start: int) -> None:
    image, serial = torch.tensor([0, 7, 2**62, 5]), torch.tensor([1, 0, 3, 2**40])
    many = Key(11).roots(image, serial)
    for row in range(4):
        alone = Key(11).roots(image[row : row + 1], serial[row : row + 1])
        assert torch.equal(alone, many[row : row + 1])
        assert torch.equal(bits(alone, 1, start), bits(many, 1, start)[row : row + 1])
    assert torch.equal(Key(11).roots(image[1], serial[1]), many[1])
