"""Inputs of 3 x 224 x 224: memory and time stay within what a laptop has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import popskipjump
from popskipjump import BoundaryAttack, Plane, evaluate
from popskipjump.geometry import inner, l2_size
from popskipjump.rng import Key, normal, uniform

SCRIPT = """
import json, resource, sys, time
import torch
torch.set_num_threads(1)
from popskipjump import BoundaryAttack, Classifier, PlanarSigmoid, Plane, evaluate
from popskipjump.rng import Key, normal, uniform

d = 3 * 224 * 224
plane = Plane(normal(Key(0).root(), d).squeeze(0), 0.0)
images = uniform(Key(1).roots(torch.arange(2)), d).reshape(2, 3, 224, 224)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
attack = BoundaryAttack(proposals=20) if sys.argv[1] == "boundary" else sys.argv[1]
began = time.process_time()
report = evaluate(
    plane, images, plane.labels(images), attack, "flip:0.05", iterations=2, norm=sys.argv[2], verdict=5
)
print(json.dumps({
    "seconds": time.process_time() - began,
    "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    "first": report.trace.distance[0].tolist(),
    "distances": report.distances.tolist(),
    "range": [float(report.points.min()), float(report.points.max())],
    "status": [s.name for s in report.status],
}))
"""


@pytest.mark.parametrize("attack", ["psj", "hsj", "boundary", "psj-true-gradient"])
@pytest.mark.parametrize("norm", ["l2", pytest.param("linf", marks=pytest.mark.slow)])
def test_an_image_of_150_528_values_takes_little_memory_and_time(attack: str, norm: str) -> None:
    source = Path(popskipjump.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, attack, norm], env=environment, capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    assert found["status"] == ["FINISHED"] * 2
    assert found["range"][0] >= 0
    assert found["range"][1] <= 1
    assert found["megabytes"] < 1500
    assert found["seconds"] < 60
    assert 0 < min(found["distances"]) < float("inf")
    if attack.startswith("psj"):  # the others are no match for flips
        assert all(last < first for last, first in zip(found["distances"], found["first"], strict=True))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_several_threads_do_not_tell_a_batch_from_single_images() -> None:
    d = 3 * 128 * 128  # beyond 32,768 values torch lets its threads share the sum of a row that is alone
    images = uniform(Key(1).roots(torch.arange(4)), d)
    plane = Plane(normal(Key(0).root(), d).squeeze(0), 0.0)
    together = plane.height(images), l2_size(images), inner(images, images.flip(0))
    for row in range(4):
        one = images[row : row + 1]
        alone = plane.height(one), l2_size(one), inner(one, images.flip(0)[row : row + 1])
        for single, whole in zip(alone, together, strict=True):
            assert torch.equal(single[0], whole[row])


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("attack", ["hsj", BoundaryAttack(proposals=4)], ids=["hsj", "boundary"])
def test_an_attack_with_several_threads_does_not_tell_a_batch_from_single_images(attack: str) -> None:
    d = 3 * 128 * 128
    images = uniform(Key(1).roots(torch.arange(2)), d)
    plane = Plane(normal(Key(0).root(), d).squeeze(0), 0.0)

    def run(rows: Any) -> tuple[Tensor, Tensor]:
        report = evaluate(
            plane, images[rows], plane.labels(images[rows]), attack, iterations=1, verdict=0, image_ids=rows
        )
        return torch.from_numpy(report.points), report.trace.distance

    points, distance = run([0, 1])
    for row in (0, 1):
        alone, alone_distance = run([row])
        assert torch.equal(alone[0], points[row])
        assert torch.equal(alone_distance[:, 0], distance[:, row])
