from __future__ import annotations

import numpy as np
import pytest
import torch
from noise_toys import roots
from torch import Tensor, nn

from popskipjump.errors import InputError, OracleError
from popskipjump.noise import LogitSampling
from popskipjump.oracles import FunctionModel, Plane, TorchModel


class Given(nn.Module):
    """Logits that do not depend on the input."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.row = torch.tensor(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.row.expand(len(x), -1)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_the_truth_is_the_softmax_of_the_tempered_logits(temperature: float) -> None:
    truth = LogitSampling(temperature).truth(TorchModel(Given(1.0, 2.0, -1.0)), torch.zeros(1, 1))
    expected = torch.softmax(torch.tensor([[1.0, 2.0, -1.0]]) / temperature, dim=1)
    torch.testing.assert_close(truth.probabilities, expected)


def test_an_impossible_class_is_never_drawn() -> None:
    model = TorchModel(Given(-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf))
    answers = LogitSampling(1.0).sample(model, torch.zeros(5000, 1), roots(5000))
    assert set(answers.tolist()) == {1, 3}


@pytest.mark.parametrize("temperature", [0.0, 1e-45, 1e-60, 1e-30])
def test_a_vanishing_temperature_is_the_argmax(temperature: float) -> None:
    noise, model = LogitSampling(temperature), TorchModel(Given(1.0, 1.001, -50.0))
    assert (noise.sample(model, torch.zeros(100, 1), roots(100)) == 1).all()
    assert torch.equal(noise.truth(model, torch.zeros(1, 1)).probabilities, torch.tensor([[0.0, 1.0, 0.0]]))


def test_large_logits_do_not_overflow() -> None:
    truth = LogitSampling(0.001).truth(TorchModel(Given(3e38, 2e38, -3e38)), torch.zeros(1, 1))
    assert torch.equal(truth.probabilities, torch.tensor([[1.0, 0.0, 0.0]]))


def test_log_probabilities_serve_as_logits() -> None:
    plane = Plane(torch.tensor([1.0]))
    assert LogitSampling(1.0).sample(plane, torch.tensor([[1.0], [-1.0]]), roots(2)).tolist() == [1, 0]


@pytest.mark.parametrize(
    "model", [FunctionModel(lambda x: np.zeros(len(x), int)), TorchModel(nn.Identity(), output="labels")]
)
def test_a_model_of_labels_only_is_an_error(model: TorchModel) -> None:
    with pytest.raises(InputError, match="needs logits"):
        LogitSampling(1.0).check(model, (1,))
    with pytest.raises(InputError, match="needs logits"):
        LogitSampling(1.0).sample(model, torch.zeros(1, 1), roots(1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_numbers_are_an_error(bad: float) -> None:
    with pytest.raises(OracleError, match="3 of 3 inputs"):
        LogitSampling(1.0).sample(TorchModel(Given(0.0, bad)), torch.zeros(3, 1), roots(3))


@pytest.mark.parametrize("temperature", [-1.0, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_an_error(temperature: float) -> None:
    with pytest.raises(InputError, match="temperature must be finite and at least 0"):
        LogitSampling(temperature)


def test_no_graph_is_kept() -> None:
    model = TorchModel(nn.Linear(2, 3))
    assert not LogitSampling(1.0).truth(model, torch.zeros(1, 2)).probabilities.requires_grad
