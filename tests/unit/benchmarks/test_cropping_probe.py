from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import popskipjump as psj
from popskipjump.noise import truth_of

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "cropping_probe.py"
if not PATH.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
spec = importlib.util.spec_from_file_location("cropping_probe", PATH)
assert spec is not None
assert spec.loader is not None
probe = importlib.util.module_from_spec(spec)
sys.modules["cropping_probe"] = probe
spec.loader.exec_module(probe)

LABELS = torch.zeros(6, dtype=torch.int64)


@pytest.fixture
def crops() -> Any:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 3))
    return probe.Crops(psj.TorchModel(module), 6)


def _points() -> torch.Tensor:
    return torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def test_the_share_of_adversarial_crops_is_that_of_the_noise_model(crops: Any) -> None:
    truth = truth_of(psj.noise.Cropping(6), crops.model, _points(), 1)
    assert truth.exact
    assert torch.allclose(crops.share(_points(), LABELS), 1 - truth.probabilities[:, 0].double(), atol=1e-6)


def test_half_of_the_crops_change_where_the_crossing_says(crops: Any) -> None:
    points = 4 * _points() - 2
    labels = truth_of(psj.noise.Cropping(6), crops.model, points, 1).probabilities.argmax(dim=1)
    inside = crops.half(points, labels) <= 0
    outer = crops.half(-points, labels) > 0
    rows = (inside & outer).nonzero().flatten()
    assert len(rows) > 0
    far, near = -points[rows].flatten(1), points[rows].flatten(1)
    place = crops.crossing(far, near, labels[rows], (1, 8, 8))
    for step, sign in ((-1e-3, 1), (1e-3, -1)):
        weight = (place + step).unsqueeze(1).float()
        sides = crops.half(torch.lerp(far, near, weight).reshape(-1, 1, 8, 8), labels[rows])
        assert bool((sides * sign > 0).all())


def test_the_normal_is_the_slope_of_the_middle_margin(crops: Any) -> None:
    points = _points()
    normal = crops.normal(points, LABELS)
    step = 1e-3 * normal / normal.norm(dim=1, keepdim=True)
    moved = (points.flatten(1) + step).reshape_as(points)
    grown = (crops.half(moved, LABELS) - crops.half(points, LABELS)) / 1e-3
    assert torch.allclose(grown, normal.norm(dim=1), rtol=0.02)
