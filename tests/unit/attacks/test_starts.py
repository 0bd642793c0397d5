from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_toys import problem_of, unit
from present import present
from torch import Tensor

from popskipjump.attacks import FromPool, Pool, Problem, find_starts, from_noise, majority_adversarial
from popskipjump.attacks.starts.propose import KNOWN
from popskipjump.errors import InputError
from popskipjump.oracles import Plane, Ticket
from popskipjump.rng import Key, uniform


class Script:
    """Answers each image from its own list of labels, by the number of the query."""

    def __init__(self, *answers: list[int]) -> None:
        self.answers = answers

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        pairs = zip(ticket.image.tolist(), present(ticket.serial).tolist(), strict=True)
        return torch.tensor([self.answers[image][serial] for image, serial in pairs])


class ByBrightness:
    """Class 0, 1, 2 or 3 by the mean pixel."""

    classes = 4
    device = torch.device("cpu")

    def labels(self, points: Tensor) -> Tensor:
        return (points.flatten(1).mean(dim=1) * 4).to(torch.int64).clamp(max=3)


@pytest.mark.parametrize(
    ("answers", "votes", "verdict", "asked"),
    [
        ([1, 1, 1], 5, True, 3),
        ([0, 0, 0], 5, False, 3),
        ([1, 0, 1, 0, 1], 5, True, 5),
        ([0, 1, 0, 1, 0], 5, False, 5),
        ([1], 1, True, 1),
        ([1, 0, 1, 0], 4, False, 4),  # a tie is no majority
        ([0, 0], 4, False, 2),
    ],
)
def test_a_majority_of_votes_decides_and_no_vote_is_wasted(
    answers: list[int], votes: int, verdict: bool, asked: int
) -> None:
    problem = problem_of(Script(answers), torch.zeros(1, 2))
    found = majority_adversarial(problem, torch.zeros(1, 2), torch.arange(1), votes, "check")
    assert found.tolist() == [verdict]
    assert problem.ledger.by_phase["check"].tolist() == [asked]


def test_each_image_has_its_own_majority() -> None:
    problem = problem_of(Script([1, 1, 1], [0, 0, 0], [1, 0, 0, 1, 1]), torch.zeros(3, 2))
    assert majority_adversarial(problem, torch.zeros(3, 2), torch.arange(3), 5, "check").tolist() == [True, False, True]


def test_fewer_votes_are_counted_where_the_budget_ends() -> None:
    problem = problem_of(Script([1, 1]), torch.zeros(1, 2), budget=2)
    assert majority_adversarial(problem, torch.zeros(1, 2), torch.arange(1), 5, "check").tolist() == [True]
    assert majority_adversarial(problem, torch.zeros(1, 2), torch.arange(1), 5, "check").tolist() == [False]
    assert problem.ledger.total.tolist() == [2]


def test_asking_about_points_does_not_change_them() -> None:
    problem = problem_of(ByBrightness(), torch.zeros(1, 2))
    points = torch.full((1, 2), 3.0)
    majority_adversarial(problem, points, torch.arange(1), 3, "check")
    assert points.tolist() == [[3.0, 3.0]]


def pool_of(count: int = 24) -> Pool:
    """Plain pictures of all brightnesses with their classes."""
    images = torch.linspace(0.01, 0.99, count).reshape(-1, 1).expand(count, 6).reshape(count, 1, 2, 3)
    return Pool(images, ByBrightness().labels(images))


def start(problem: Problem, propose: Any, tries: int = 25, votes: int = 3) -> tuple[Tensor, Tensor]:
    rows = torch.arange(len(problem.original))
    return find_starts(problem, rows, propose, tries, votes)


def test_an_image_starts_from_the_pool_in_another_class() -> None:
    truth = torch.tensor([0, 1, 2, 3])
    problem = problem_of(ByBrightness(), torch.full((4, 1, 2, 3), 0.5), truth)
    points, found = start(problem, FromPool(problem, pool_of(), truth, None))
    assert found.all()
    assert bool((ByBrightness().labels(points) != truth).all())
    assert problem.ledger.by_phase["start"].tolist() == [2] * 4


def test_an_image_starts_from_the_pool_in_its_target_class() -> None:
    truth, targets = torch.tensor([0, 0, 0]), torch.tensor([1, 2, 3])
    problem = problem_of(ByBrightness(), torch.zeros(3, 1, 2, 3), truth, targets=targets)
    points, found = start(problem, FromPool(problem, pool_of(), truth, targets))
    assert found.all()
    assert torch.equal(ByBrightness().labels(points), targets)


def test_every_fitting_image_of_the_pool_is_tried_once_before_one_comes_again() -> None:
    truth = torch.tensor([0])
    problem = problem_of(ByBrightness(), torch.zeros(1, 1, 2, 3), truth)
    propose = FromPool(problem, pool_of(), truth, None)
    tried = [float(propose(torch.arange(1), attempt)[0, 0]) for attempt in range(18)]
    assert len(set(tried)) == 18
    assert min(tried) >= 0.25


def test_images_begin_at_different_places_of_the_pool() -> None:
    truth = torch.zeros(40, dtype=torch.int64)
    problem = problem_of(ByBrightness(), torch.zeros(40, 1, 2, 3), truth)
    first = FromPool(problem, pool_of(), truth, None)(torch.arange(40), 0)[:, 0]
    assert first.unique().numel() > 8


def test_the_nearest_images_of_another_class_come_first_if_wanted() -> None:
    images = torch.tensor([0.1, 0.9, 0.3, 0.5]).reshape(4, 1, 1, 1).expand(4, 1, 2, 2)
    problem = problem_of(ByBrightness(), torch.full((1, 1, 2, 2), 0.2))
    propose = FromPool(problem, Pool(images, torch.tensor([0, 3, 1, 2])), torch.zeros(1, dtype=torch.int64), None, True)
    proposed = [float(propose(torch.tensor([0]), attempt)[0, 0]) for attempt in range(4)]
    assert proposed == pytest.approx([0.3, 0.5, 0.9, 0.3])
    further = [float(propose.further(torch.tensor([0]), number)[0, 0]) for number in range(5)]
    assert further == pytest.approx([0.3, 0.5, 0.9, 0.2, 0.2])  # without more images the original, which none tries


def test_the_nearest_images_are_proposed_beyond_those_whose_order_is_remembered() -> None:
    images = torch.linspace(0.1, 0.9, KNOWN + 5).reshape(-1, 1).expand(-1, 4)
    problem = problem_of(ByBrightness(), torch.zeros(1, 4))
    pool = Pool(images, torch.ones(KNOWN + 5, dtype=torch.int64))
    propose = FromPool(problem, pool, torch.zeros(1, dtype=torch.int64), None, True)
    proposed = [float(propose(torch.arange(1), attempt)[0, 0]) for attempt in range(KNOWN + 5)]
    assert proposed == pytest.approx(images[:, 0].tolist())


def test_a_pool_without_a_fitting_image_gives_no_start() -> None:
    truth = torch.tensor([0])
    pool = Pool(torch.full((3, 1, 2, 3), 0.1), torch.zeros(3, dtype=torch.int64))
    problem = problem_of(ByBrightness(), torch.zeros(1, 1, 2, 3), truth)
    _, found = start(problem, FromPool(problem, pool, truth, None))
    assert found.tolist() == [False]


def test_a_pool_whose_labels_lie_is_voted_down() -> None:
    truth = torch.tensor([0])
    images = torch.cat((torch.full((5, 6), 0.1), torch.full((1, 6), 0.9)))
    problem = problem_of(ByBrightness(), torch.zeros(1, 6), truth)
    points, found = start(problem, FromPool(problem, Pool(images, torch.full((6,), 3)), truth, None))
    assert found.tolist() == [True]
    assert float(points[0, 0]) == pytest.approx(0.9)


@pytest.mark.parametrize("labels", [2, 4])
def test_a_pool_needs_a_label_for_each_image(labels: int) -> None:
    with pytest.raises(InputError, match="one label for each image"):
        Pool(torch.zeros(3, 2), torch.zeros(labels, dtype=torch.int64))


def test_an_empty_pool_is_an_error() -> None:
    with pytest.raises(InputError, match="a pool needs"):
        Pool(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 5.0)])
def test_proposals_from_noise_stay_within_the_bounds(bounds: tuple[float, float]) -> None:
    low, high = bounds
    original = low + (high - low) * uniform(Key(0).roots(torch.arange(5)), 12)
    problem = problem_of(Plane(unit(12)), original, bounds=bounds)
    propose = from_noise(problem)
    for attempt in range(25):
        points = propose(torch.arange(5), attempt)
        assert float(points.min()) >= low - 1e-6
        assert float(points.max()) <= high + 1e-6


def test_the_negative_a_grey_a_black_and_a_white_picture_are_among_the_first_proposals() -> None:
    original = torch.tensor([[0.2, 0.6]])
    problem = problem_of(Plane(unit(2)), original)
    shown = [from_noise(problem)(torch.arange(1), attempt)[0].tolist() for attempt in range(6)]
    for picture in ([0.8, 0.4], [0.5, 0.5], [0.0, 0.0], [1.0, 1.0]):
        assert any(points == pytest.approx(picture) for points in shown)


def test_later_proposals_differ() -> None:
    problem = problem_of(Plane(unit(12)), torch.full((1, 12), 0.5))
    later = torch.cat([from_noise(problem)(torch.arange(1), attempt) for attempt in range(6, 25)])
    assert later.unique(dim=0).shape[0] == 19


def test_a_start_is_found_in_noise() -> None:
    truth = torch.tensor([0, 3])
    original = torch.stack((torch.full((6,), 0.05), torch.full((6,), 0.95)))
    problem = problem_of(ByBrightness(), original, truth)
    points, found = start(problem, from_noise(problem))
    assert found.all()
    assert bool((ByBrightness().labels(points) != truth).all())


def test_a_proposal_depends_on_the_image_and_not_on_its_row() -> None:
    original = uniform(Key(1).roots(torch.arange(3)), 8)
    three = problem_of(Plane(unit(8)), original, ids=[10, 11, 12])
    alone = problem_of(Plane(unit(8)), original[2:], ids=[12])
    for attempt in (0, 5, 9):
        together = from_noise(three)(torch.arange(3), attempt)[2]
        assert torch.equal(together, from_noise(alone)(torch.arange(1), attempt)[0])


def test_where_nothing_is_found_the_original_is_returned() -> None:
    original = torch.full((1, 4), 0.3)
    problem = problem_of(Script([0] * 100), original)
    points, found = start(problem, from_noise(problem), tries=10, votes=3)
    assert found.tolist() == [False]
    assert torch.equal(points, original)
    assert problem.ledger.total.tolist() == [20]


def test_no_start_is_looked_for_beyond_the_budget() -> None:
    problem = problem_of(Script([0] * 100), torch.zeros(1, 4), budget=7)
    _, found = start(problem, from_noise(problem))
    assert found.tolist() == [False]
    assert problem.ledger.total.tolist() == [7]


def test_a_guess_that_won_a_few_votes_by_chance_is_found_out() -> None:
    won_by_chance, right = [1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]
    problem = problem_of(Script(won_by_chance + right), torch.zeros(1, 4))
    rows = torch.arange(1)
    points, found = find_starts(problem, rows, from_noise(problem), 25, 3, confirm_votes=9)
    assert found.tolist() == [True]
    assert torch.equal(points, from_noise(problem)(rows, 1))  # the second guess
    assert problem.ledger.total.tolist() == [14]


def test_the_nearest_image_is_found_where_all_values_are_large() -> None:
    """Between 1,000 and 1,001 a sum of squares in float32 is coarser than the distances."""
    noise = uniform(Key(5).roots(torch.arange(41)), 60)
    original, images = 1000 + noise[:1], 1000 + noise[1:]
    problem = problem_of(Plane(unit(60), 0.0), original, bounds=(1000.0, 1001.0))
    pool = Pool(images, torch.ones(40, dtype=torch.int64))
    propose = FromPool(problem, pool, torch.zeros(1, dtype=torch.int64), None, nearest=True)
    by_distance = (images - original).norm(dim=1).argsort()
    for attempt in range(5):
        assert torch.equal(propose(torch.tensor([0]), attempt)[0], images[by_distance[attempt]])
