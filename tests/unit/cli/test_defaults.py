"""A newcomer's first call: the default attack keeps its stated budget and finds points under every noise model."""

from __future__ import annotations

import pytest

import popskipjump as psj
from popskipjump.cli.commands.noises import NOISES
from popskipjump.evaluation.inputs import DEFAULT_ATTACK, budget_of


@pytest.mark.parametrize("noise", NOISES)
def test_the_default_ends_within_its_budget_with_confirmed_points(noise: str) -> None:
    budget = budget_of(DEFAULT_ATTACK, None, None)
    assert budget == 1000
    images, labels = psj.zoo.mnist_images(3)
    pool = psj.Pool(*psj.zoo.mnist_images(200))
    with psj.threads(1):
        report = psj.evaluate(psj.zoo.mnist_model(), images, labels, noise=noise, starts=pool)
    assert report.queries.max() <= budget  # some 0.1 s of processor time for each image: a minute is far away
    assert report.success.sum() >= 2  # a point that its noise leaves in doubt is marked, not returned as a success
