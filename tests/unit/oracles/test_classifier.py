from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from listening import listening
from torch import Tensor, nn

from popskipjump.errors import InputError, OracleError
from popskipjump.oracles import Classifier, FunctionModel, PlanarSigmoid, Plane, Ticket, TorchModel
from popskipjump.oracles.classifier import checked_labels, chunk_rows
from popskipjump.rng import Key, uniform


def linear(weights: list[list[float]]) -> nn.Module:
    layer = nn.Linear(len(weights[0]), len(weights), bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights))
    return layer


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", "<i8"]
)
def test_labels_of_any_integer_type_become_int64(dtype: str) -> None:
    labels = checked_labels(np.array([1, 2], dtype=dtype), 2)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [1, 2]


def test_a_list_of_labels_is_accepted() -> None:
    assert checked_labels([3, 4], 2).tolist() == [3, 4]


def test_a_read_only_array_is_copied() -> None:
    array = np.array([1, 2])
    array.flags.writeable = False
    assert checked_labels(array, 2).tolist() == [1, 2]


@pytest.mark.parametrize("answer", [np.zeros((2, 1), int), np.zeros(3, int), torch.zeros(2, 2, dtype=torch.int64), []])
def test_a_wrong_number_of_labels_is_an_error(answer: Any) -> None:
    with pytest.raises(OracleError, match="asked for 2 labels and returned an array of shape"):
        checked_labels(answer, 2)


@pytest.mark.parametrize(
    "answer", [np.array([0.0, 1.0]), torch.tensor([0.5, 1.0]), np.array([True, False]), np.array([1j, 0])]
)
def test_labels_that_are_no_integers_are_an_error(answer: Any) -> None:
    with pytest.raises(OracleError, match="they must be integers"):
        checked_labels(answer, 2)


@pytest.mark.parametrize("answer", [None, "ab", ["cat", "dog"], [[1], [2, 3]], object()])
def test_something_that_is_no_array_is_an_error(answer: Any) -> None:
    with pytest.raises(OracleError, match="not integers: return the number of each class"):
        checked_labels(answer, 2)


def test_a_negative_label_is_an_error() -> None:
    with pytest.raises(OracleError, match="the label -1"):
        checked_labels(np.array([0, -1]), 2)


def test_no_labels_for_no_inputs_are_fine() -> None:
    assert checked_labels(np.zeros(0, int), 0).shape == (0,)


def test_chunks_shrink_with_the_size_of_an_input() -> None:
    assert chunk_rows(784) == 2048
    assert chunk_rows(150_528) == (16 << 20) // (4 * 150_528)
    assert chunk_rows(10**9) == 1


def test_a_module_answers_with_its_largest_logit() -> None:
    model = TorchModel(linear([[1.0, 0.0], [0.0, 1.0]]))
    assert model.labels(torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist() == [0, 1]
    assert model.classes == 2


def test_a_module_is_put_into_evaluation_mode() -> None:
    assert not TorchModel(nn.Sequential(nn.Dropout())).module.training


def test_a_module_of_labels_answers_with_them() -> None:
    class Labels(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x[:, 0] > 0).to(torch.int32)

    model = TorchModel(Labels(), output="labels")
    assert model.labels(torch.tensor([[1.0], [-1.0]])).tolist() == [1, 0]
    with pytest.raises(InputError, match="labels only"):
        model.logits(torch.zeros(1, 1))


def test_logits_of_a_wrong_shape_are_an_error() -> None:
    with pytest.raises(OracleError, match=r"given 2 inputs and returned \(6,\)"):
        TorchModel(nn.Flatten(0)).labels(torch.zeros(2, 3))


def test_a_module_that_returns_no_tensor_is_an_error() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[str, Tensor]:
            return "logits", x

    with pytest.raises(OracleError, match="returned tuple"):
        TorchModel(Pair()).labels(torch.zeros(2, 3))


def test_an_unknown_output_is_an_error() -> None:
    with pytest.raises(InputError, match="output must be"):
        TorchModel(nn.Identity(), output="probabilities")


def test_log_probabilities_are_normalised() -> None:
    log_probs = TorchModel(linear([[1.0], [3.0], [-1.0]])).log_probs(torch.ones(2, 1))
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(2))


def test_the_margin_gradient_points_to_the_best_rival() -> None:
    model = TorchModel(linear([[1.0, 0.0], [0.0, 2.0], [0.0, 0.5]]))
    gradient = model.margin_gradient(torch.tensor([[1.0, 0.1]]), torch.tensor([0]))
    assert gradient.tolist() == [[-1.0, 2.0]]


def test_the_margin_gradient_points_to_the_target() -> None:
    model = TorchModel(linear([[1.0, 0.0], [0.0, 2.0], [0.0, 0.5]]))
    gradient = model.margin_gradient(torch.tensor([[1.0, 0.1]]), torch.tensor([0]), torch.tensor([2]))
    assert gradient.tolist() == [[-1.0, 0.5]]


def test_the_margin_gradient_works_under_no_grad_and_leaves_no_graph() -> None:
    model, points = TorchModel(linear([[1.0], [0.0]])), torch.ones(1, 1)
    with torch.no_grad():
        assert not model.margin_gradient(points, torch.tensor([0])).requires_grad
    assert not points.requires_grad


def test_a_function_is_given_a_float32_batch_of_its_own() -> None:
    def spoil(batch: np.ndarray) -> np.ndarray:
        assert batch.dtype == np.float32
        assert batch.shape == (3, 2, 2)
        batch[:] = -1
        return np.arange(3)

    points = torch.ones(3, 2, 2)
    assert FunctionModel(spoil).labels(points).tolist() == [0, 1, 2]
    assert (points == 1).all()


@pytest.mark.parametrize("max_rows", [1, 3, 10, 100])
def test_chunks_do_not_change_answers(max_rows: int) -> None:
    plane = Plane(torch.tensor([1.0, -1.0]))
    noise = PlanarSigmoid(plane, slope=1.0)
    points = uniform(Key(0).roots(torch.arange(10)), 2)
    ticket = Ticket(torch.arange(10), torch.arange(10) * 3)
    expected = Classifier(plane, noise, seed=1).ask(points, ticket)
    assert torch.equal(Classifier(plane, noise, seed=1, max_rows=max_rows).ask(points, ticket), expected)
    noiseless = Classifier(plane, max_rows=max_rows).ask(points, Ticket(torch.arange(10)))
    assert torch.equal(noiseless, plane.labels(points))


def test_no_chunk_exceeds_the_limit() -> None:
    sizes: list[int] = []
    model = listening(lambda batch: sizes.append(len(batch)))
    Classifier(model, max_rows=4).ask(torch.zeros(10, 2), Ticket(torch.zeros(10, dtype=torch.int64)))
    assert sizes == [4, 4, 2]


def test_an_answer_depends_on_seed_image_and_serial() -> None:
    plane = Plane(torch.tensor([1.0]))
    noise = PlanarSigmoid(plane, floor=0.4, slope=0.001)
    points, index = torch.zeros(400, 1), torch.arange(400)

    def ask(seed: int, image: Tensor, serial: Tensor) -> Tensor:
        return Classifier(plane, noise, seed).ask(points, Ticket(image, serial))

    base = ask(0, index, index)
    assert torch.equal(ask(0, index, index), base)
    for other in (ask(1, index, index), ask(0, index + 1, index), ask(0, index, index + 1)):
        assert abs(float((other == base).float().mean()) - 0.5) < 5 * 0.5 / 20


def test_a_noisy_classifier_without_serial_numbers_is_an_error() -> None:
    plane = Plane(torch.tensor([1.0]))
    with pytest.raises(InputError, match="through a ledger"):
        Classifier(plane, PlanarSigmoid(plane)).ask(torch.zeros(1, 1), Ticket(torch.zeros(1, dtype=torch.int64)))


def test_an_empty_batch_gets_no_labels() -> None:
    oracle = Classifier(TorchModel(linear([[1.0], [0.0]])))
    assert oracle.ask(torch.zeros(0, 1), Ticket(torch.zeros(0, dtype=torch.int64))).shape == (0,)
