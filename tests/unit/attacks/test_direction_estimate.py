from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attack_toys import Seen, begun_at, border_of, problem_of, unit
from torch import Tensor

from popskipjump.attacks.directions import packing as module
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.monte_carlo import (
    DistanceSpread,
    LineSpread,
    MonteCarlo,
    TrueDirection,
    accumulate,
    combine,
)
from popskipjump.errors import InputError
from popskipjump.oracles import PlanarSigmoid, Plane
from popskipjump.rng import Key, normal
from popskipjump.sigmoid import answer_correlation, expected_cosine

WIDE = (-10.0, 10.0)  # no displacement is clipped


def lines(count: int, dimension: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Originals at 0, and outer ends at 1 on the first axis, where the plane at 1/2 lies across."""
    return torch.zeros(count, dimension), unit(dimension).expand(count, dimension).clone()


@pytest.mark.parametrize("sphere", [False, True], ids=["normal", "sphere"])
@pytest.mark.parametrize("baseline", [False, True], ids=["plain", "baseline"])
@pytest.mark.parametrize(
    ("slope", "floor", "offset"), [(math.inf, 0.0, 0.0), (math.inf, 0.0, 1.0), (math.inf, 0.2, 0.5), (2.0, 0.1, 0.0)]
)
def test_a_direction_estimate_reaches_the_expected_cosine(
    sphere: bool, baseline: bool, slope: float, floor: float, offset: float
) -> None:
    images, d, n, spread = 100, 60, 300, 0.01
    plane = Plane(unit(d), 0.5)
    original, outer = lines(images, d)
    problem = problem_of(plane, original, noise=PlanarSigmoid(plane, slope, floor), bounds=WIDE)
    border = border_of(problem, outer, 0.5 + offset * spread)
    direction = MonteCarlo(DirectionCount(base=n), LineSpread(spread), sphere=sphere, baseline=baseline)
    estimate, _ = direction(problem, border, 1, ())
    cosine = (estimate[:, 0] / estimate.norm(dim=1)).double()
    wide = torch.tensor([offset * spread, slope], dtype=torch.float64)
    # The answers' mean is predictable from the offset; taking it away removes part of the noise across the normal.
    mean = 0.0 if not baseline else (1 - 2 * floor) * math.erf(offset / math.sqrt(2))
    alpha = answer_correlation(wide[0], wide[1], spread, 2 * floor) / math.sqrt(1 - mean**2)
    expected = float(expected_cosine(n, d, alpha))
    # 1 / (d - 1): the formula's own error (tests/statistical), and that of a sphere for a normal distribution.
    assert float(cosine.mean()) == pytest.approx(expected, abs=4 * float(cosine.std()) / images**0.5 + 1 / (d - 1))
    assert problem.ledger.by_phase["direction"].tolist() == [n] * images


def test_the_sums_are_those_over_the_points_that_were_asked() -> None:
    d, counts = 7, [300, 0, 5, 256, 513]
    seen = Seen(Plane(unit(d), 0.5))
    original, outer = lines(len(counts), d)
    problem = problem_of(seen, original)  # in [0, 1]: half of each displacement is clipped
    border = border_of(problem, outer, 0.5)
    sums, answers = accumulate(problem, border, torch.full((5,), 0.2), torch.tensor(counts), 3, sphere=False)
    points, images = seen.all_points(), torch.cat(seen.images)
    assert float(points.min()) == 0.0
    for image, count in enumerate(counts):
        mine = points[images == image].double()
        y = seen.model.labels(mine.float()) * 2.0 - 1
        assert len(mine) == count
        torch.testing.assert_close(sums[image, 0].double(), (y.double()[:, None] * mine).sum(0), rtol=1e-5, atol=1e-3)
        torch.testing.assert_close(sums[image, 1].double(), mine.sum(0), rtol=1e-5, atol=1e-3)
        assert float(answers[image]) == float(y.sum())


def combined(y: torch.Tensor, q: torch.Tensor, x: torch.Tensor, baseline: bool) -> torch.Tensor:
    """`combine` for one image, from its answers `(n,)`, points `(n, d)` and border point `(d,)`."""
    sums = torch.stack(((y[:, None] * q).sum(0), q.sum(0))).unsqueeze(0)
    return combine(sums, y.sum().reshape(1), torch.tensor([float(len(y))]), x.unsqueeze(0), baseline).squeeze(0)


@pytest.fixture
def cloud() -> tuple[torch.Tensor, torch.Tensor]:
    """Forty points around (1, 1, 1), and that point."""
    return 1 + 0.1 * normal(Key(3).roots(torch.arange(40)), 3).double(), torch.ones(3, dtype=torch.float64)


def test_without_a_baseline_the_estimate_is_the_sum_of_answer_times_displacement(cloud: Any) -> None:
    q, x = cloud
    y = torch.where(q[:, 0] > 1.02, 1.0, -1.0).double()
    torch.testing.assert_close(combined(y, q, x, baseline=False), (y[:, None] * (q - x)).sum(0))


def test_a_baseline_is_the_mean_answer(cloud: Any) -> None:
    q, x = cloud
    y = torch.where(q[:, 0] > 1.02, 1.0, -1.0).double()
    assert abs(float(y.mean())) > 0.1
    torch.testing.assert_close(combined(y, q, x, baseline=True), ((y - y.mean())[:, None] * (q - x)).sum(0))


@pytest.mark.parametrize("answer", [1.0, -1.0])
def test_equal_answers_have_no_baseline(cloud: Any, answer: float) -> None:
    q, x = cloud
    y = torch.full((40,), answer, dtype=torch.float64)
    torch.testing.assert_close(combined(y, q, x, baseline=True), answer * (q - x).sum(0))


def test_no_answer_gives_no_direction() -> None:
    nothing = combine(torch.zeros(1, 2, 3), torch.zeros(1), torch.zeros(1), torch.ones(1, 3), baseline=True)
    assert nothing.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("capacity", [256, 300, 512, 1024, 10_000])
def test_chunks_hold_the_same_blocks_whatever_their_capacity(capacity: int) -> None:
    counts = [0, 1, 256, 257, 1000, 0, 40, 511]
    chunks = list(module.chunks_of(counts, 256, capacity))
    pieces = [piece for chunk in chunks for piece in chunk]
    assert pieces == [piece for chunk in module.chunks_of(counts, 256, 1 << 30) for piece in chunk]
    assert all(0 < sum(piece.size for piece in chunk) <= capacity for chunk in chunks)
    for image, count in enumerate(counts):
        mine = [piece for piece in pieces if piece.image == image]
        assert sum(piece.size for piece in mine) == count
        assert [piece.number for piece in mine] == list(range(len(mine)))
        assert all(piece.size == 256 for piece in mine[:-1])


@pytest.mark.parametrize("dimension", [3, 63, 784])
@pytest.mark.parametrize("chunk", [256, 700, 4096])
def test_the_sums_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch, dimension: int, chunk: int) -> None:
    plane = Plane(unit(dimension), 0.5)
    original, outer = lines(4, dimension)
    counts = torch.tensor([300, 17, 600, 256])

    def sums() -> tuple[Tensor, Tensor]:
        problem = problem_of(plane, original)
        spread = torch.full((4,), 0.2)
        return accumulate(problem, border_of(problem, outer, 0.5), spread, counts, 1, sphere=False)

    expected = sums()
    monkeypatch.setattr(module, "CHUNK", chunk)
    for one, other in zip(sums(), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dimension", [3, 63, 784])
def test_an_images_sums_do_not_depend_on_its_company(dimension: int) -> None:
    plane = Plane(unit(dimension), 0.5)
    counts = torch.tensor([300, 17, 600, 256])

    def sums(rows: list[int]) -> tuple[Tensor, Tensor]:
        original, outer = lines(len(rows), dimension)
        problem = problem_of(plane, original, ids=rows)
        spread = torch.full((len(rows),), 0.2)
        return accumulate(problem, border_of(problem, outer, 0.5), spread, counts[rows], 1, sphere=False)

    together, _ = sums([0, 1, 2, 3])
    for row in range(4):
        assert torch.equal(sums([row])[0][0], together[row])


def test_a_direction_leaves_the_budget_of_the_next_search() -> None:
    original, outer = lines(2, 5)
    problem = problem_of(Plane(unit(5), 0.5), original, budget=100)
    border = border_of(problem, outer, 0.5, searched=torch.tensor([30, 95]))
    MonteCarlo(DirectionCount(base=500), LineSpread(0.01))(problem, border, 1, ())
    assert problem.ledger.total.tolist() == [70, 5]


def test_the_number_of_directions_grows_with_the_root_of_the_iteration() -> None:
    count = DirectionCount(base=100)
    assert [count.noiseless(t) for t in (1, 4, 9)] == [100.0, 200.0, 300.0]
    assert count(torch.tensor([1.0, 2.5]), 4).tolist() == [200, 500]


def test_the_number_of_directions_has_a_factor_and_a_limit() -> None:
    count = DirectionCount(base=100, factor=3, limit=1000)
    assert count(torch.tensor([1e-9, 0.5, 1.0, 50.0], dtype=torch.float64), 1).tolist() == [1, 150, 300, 1000]
    assert count.noiseless(100) == 1000


@pytest.mark.parametrize("arguments", [{"base": 0}, {"factor": -1}, {"limit": 0}])
def test_a_number_of_directions_that_is_not_positive_is_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be positive"):
        DirectionCount(**arguments)


def test_the_spread_of_psj_is_a_part_of_the_search_line() -> None:
    original, outer = lines(1, 9)
    problem = problem_of(Plane(unit(9), 0.5), original)
    assert float(LineSpread(0.01)(problem, border_of(problem, 0.5 * outer, 0.2), 7)) == pytest.approx(0.005)


def test_the_spread_of_hsj_is_the_distance_over_d_to_the_three_halves() -> None:
    original, outer = lines(1, 9)
    problem = problem_of(Plane(unit(9), 0.5), original)
    assert float(DistanceSpread()(problem, border_of(problem, outer, 0.2), 2)) == pytest.approx(0.8 / 27)


def test_the_first_spread_of_hsj_is_a_tenth_of_the_range() -> None:
    original, outer = lines(1, 9)
    problem = problem_of(Plane(unit(9), 0.5), original, bounds=(-3.0, 5.0))
    assert float(DistanceSpread()(problem, border_of(problem, outer, 0.2), 1)) == pytest.approx(0.8 / 3)
    assert float(DistanceSpread(0.5, first=None)(problem, border_of(problem, outer, 0.2), 1)) == pytest.approx(0.4 / 3)


def test_the_true_direction_is_the_normal_of_the_plane() -> None:
    original, outer = lines(2, 5)
    plane = Plane(-2 * unit(5, 3), 0.5)
    problem = problem_of(plane, original, torch.tensor([0, 1]), white_box=plane)
    found, _ = TrueDirection()(problem, border_of(problem, outer, 0.5), 1, ())
    assert torch.equal(found, torch.stack((-unit(5, 3), unit(5, 3))))
    assert problem.ledger.total.tolist() == [0, 0]


def test_the_true_direction_needs_a_white_box() -> None:
    original, outer = lines(1, 5)
    problem = problem_of(Plane(unit(5), 0.5), original)
    border = border_of(problem, outer, 0.5)
    with pytest.raises(InputError, match="white box"):
        TrueDirection().begin(problem, begun_at(border))
    with pytest.raises(InputError, match="white box"):
        TrueDirection()(problem, border, 1, ())


@pytest.mark.parametrize("capacity", [256, 300, 512, 1024])
def test_a_block_is_divided_at_multiples_of_a_stretch_alone(capacity: int) -> None:
    counts = [0, 1, 256, 257, 1000, 0, 40, 511]
    chunks = list(module.chunks_of(counts, 256, capacity, 128))
    assert all(0 < sum(piece.size for piece in chunk) <= capacity for chunk in chunks)
    assert all(sum(piece.size for piece in chunk) > capacity - 128 for chunk in chunks[:-1])
    rows = [(p.image, 256 * p.number + p.first + i) for chunk in chunks for p in chunk for i in range(p.size)]
    assert rows == [(image, row) for image, count in enumerate(counts) for row in range(count)]
    assert all(piece.first % 128 == 0 for chunk in chunks for piece in chunk)


def test_hsj_directions_are_not_shorter_than_the_classifier_can_tell() -> None:
    problem = problem_of(Plane(unit(9), 0.5), torch.zeros(1, 9))
    border = border_of(problem, unit(9).unsqueeze(0), 0.2)
    spread = DistanceSpread(finest=0.02)(problem, border, 2)
    assert float(spread) == pytest.approx(9 * 0.02 / 3)
    assert float(DistanceSpread(finest=0.001)(problem, border, 2)) == pytest.approx(0.8 / 27)
