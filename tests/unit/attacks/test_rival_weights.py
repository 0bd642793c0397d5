from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from popskipjump import InputError, Plane, evaluate
from popskipjump.attacks import QuickSkipJump
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.attacks.directions.adaptive.rival_weights import SLOTS, RivalWeights
from popskipjump.rng import Key, normal

RIVAL = 3


def seen(*counts: int) -> torch.Tensor:
    table = torch.zeros(1, SLOTS)
    table[0, : len(counts)] = torch.tensor(counts, dtype=torch.float32)
    return table


def test_a_single_rival_leaves_all_weights_alone() -> None:
    assert torch.equal(RivalWeights().weights(seen(0, 0, 50)), torch.ones(1, SLOTS))


def test_before_any_answer_all_weights_are_one() -> None:
    assert torch.equal(RivalWeights().weights(torch.zeros(2, SLOTS)), torch.ones(2, SLOTS))


def test_a_few_stray_answers_change_nothing() -> None:
    assert torch.equal(RivalWeights().weights(seen(90, 5, 5)), torch.ones(1, SLOTS))


def test_where_many_classes_answer_each_counts_by_its_share() -> None:
    weights = RivalWeights(power=1.0).weights(seen(40_000, 20_000, 20_000, 10_000, 10_000))
    assert weights[0, :6].tolist() == pytest.approx([1.0, 0.5, 0.5, 0.25, 0.25, 0.0], rel=1e-3)


def test_a_handful_of_answers_decides_less_than_many() -> None:
    few, many = (RivalWeights().weights(seen(2 * n, n, n))[0, 1] for n in (2, 200))
    assert float(many) < float(few) < 1


def test_without_power_nothing_is_weighed() -> None:
    assert torch.equal(RivalWeights(power=0.0).weights(seen(1, 1, 1, 1)), torch.ones(1, SLOTS))


@pytest.mark.parametrize("wrong", [{"power": -1.0}, {"few": 0.5, "many": 0.5}, {"many": 1.5}])
def test_weights_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="few below many"):
        RivalWeights(**wrong)


class ManyClasses:
    """A plane between class 0 and class 3; one answer in three is another class, on both sides alike."""

    classes = 10
    device = torch.device("cpu")

    def __init__(self, plane: Plane) -> None:
        self.plane, self.generator = plane, np.random.default_rng(0)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        right = RIVAL * self.plane.labels(torch.from_numpy(points)).numpy()
        other = self.generator.integers(4, 10, len(points))
        return np.where(self.generator.random(len(points)) < 1 / 3, other, right)


@pytest.mark.slow
def test_chance_answers_of_other_classes_are_told_from_the_rival() -> None:
    unit = normal(Key(4).root(), 100)[0]
    plane = Plane(unit / unit.norm(), float((unit / unit.norm()).sum() / 2) + 0.3)
    images = torch.full((8, 100), 0.5)
    starts = (0.5 + 0.5 * unit.sign() * (torch.arange(100) % 4 > 0)).expand(8, 100)
    reached = {}
    for name, rivals in {"with": RivalWeights(), "without": None}.items():
        attack = QuickSkipJump(direction=AdaptiveDirections(rivals=rivals))
        labels = torch.zeros(8, dtype=torch.int64)
        report = evaluate(ManyClasses(plane), images, labels, attack, starts=starts, budget=1500, verdict=0)
        distance = plane.distance(torch.as_tensor(report.points), "l2").double().numpy()  # what is left to the plane
        change = torch.as_tensor(report.points) - images
        cosine = (change @ plane.normal) / change.norm(dim=1)
        assert np.isfinite(distance).all()
        reached[name] = float(cosine.median())
    assert reached["with"] > reached["without"]
    assert reached["with"] > 0.8
