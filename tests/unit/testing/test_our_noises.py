"""Every noise model of the package keeps the contract that authors of others are given, and a broken one does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import popskipjump as psj
from popskipjump.noise import Cropping, Dropout, Ensemble, Flip, LabelDistribution, LogitSampling, Smoothing
from popskipjump.oracles import BaseModel, PlanarSigmoid, Plane, TorchModel
from popskipjump.rng import Key, normal, uniform
from popskipjump.testing import NoiseContract


class OurNoise(NoiseContract):
    def make_model(self) -> TorchModel:
        net = nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 4))
        with torch.no_grad():
            for index, parameter in enumerate(net.parameters()):
                drawn = normal(Key(1).child(index).root(), parameter.numel()).reshape(parameter.shape)
                parameter.copy_(drawn / max(1, parameter[0].numel()) ** 0.5)
        return psj.TorchModel(net)

    def make_points(self) -> Tensor:
        return uniform(Key(2).child("points").roots(torch.arange(5)), 36).reshape(5, 1, 6, 6)


class TestFlip(OurNoise):
    def make_noise(self) -> Flip:
        return Flip(0.3)


class TestLogitSampling(OurNoise):
    def make_noise(self) -> LogitSampling:
        return LogitSampling(0.7)


class TestDropout(OurNoise):
    def make_noise(self) -> Dropout:
        return Dropout(0.4)


class TestSmoothing(OurNoise):
    def make_noise(self) -> Smoothing:
        return Smoothing(0.7)


class TestCropping(OurNoise):
    def make_noise(self) -> Cropping:
        return Cropping(3)


class TestEnsemble(OurNoise):
    def make_noise(self) -> Ensemble:
        return Ensemble([self.make_model(), lambda x: np.full(len(x), 2)])


class TestPlanarSigmoid(NoiseContract):
    """The noise of `popskipjump.PlanarSigmoid`, which has no truth of its own."""

    plane = psj.Plane(torch.tensor([1.0, 0.0]))

    def make_noise(self) -> PlanarSigmoid:
        return psj.PlanarSigmoid(self.plane, slope=1.0, floor=0.1)

    def make_model(self) -> Plane:
        return self.plane

    def make_points(self) -> Tensor:
        return torch.tensor([[-0.4, 0.0], [-0.1, 0.3], [0.0, 0.0], [0.2, 1.0], [0.5, 0.0]])


@dataclasses.dataclass
class Broken:
    """Flips of class 0 and 1 with one thing wrong."""

    fault: str
    last: int = 0

    def sample(self, model: BaseModel, points: Tensor, roots: Tensor) -> Tensor:
        if self.fault == "state":
            self.last += 1
            roots = roots + self.last
        if self.fault == "batch" and len(roots):
            roots = roots + len(roots)
        if self.fault == "global":
            torch.rand(1)
        if self.fault == "points":
            points += 1
        labels = (uniform(roots, 1).squeeze(-1) < 0.3).to(torch.int64)
        return torch.zeros_like(labels) if self.fault == "certain" else labels

    def truth(self, model: BaseModel, points: Tensor, draws: int = 1, key: Key | None = None) -> LabelDistribution:
        # says that class 0 is certain
        return Flip(0.0).truth(psj.FunctionModel(lambda x: np.zeros(len(x), int), classes=2), points)


FAULTS = [
    ("state", "test_the_same_stream_gives_the_same_answer"),
    ("batch", "test_an_answer_does_not_depend_on_its_batch"),
    ("batch", "test_chunks_of_any_size_answer_alike"),
    ("global", "test_points_and_the_global_generator_are_left_alone"),
    ("points", "test_points_and_the_global_generator_are_left_alone"),
    ("certain", "test_equal_inputs_get_different_answers"),
    ("truth", "test_answers_are_as_frequent_as_the_truth_says"),
]


@pytest.mark.parametrize(("fault", "claim"), FAULTS)
def test_a_broken_noise_breaks_the_contract(fault: Any, claim: str) -> None:
    contract = TestPlanarSigmoid()
    vars(contract)["make_noise"] = lambda: Broken(fault)
    with torch.random.fork_rng(), pytest.raises(AssertionError):
        getattr(contract, claim)()
