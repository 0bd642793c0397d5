"""What torch modules return, and how `evaluate` reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from adapter_toys import CLASSES, Linear, data, scores
from present import present
from torch import Tensor, nn

import popskipjump as psj
from popskipjump.errors import InputError, OracleError

QUICK: dict[str, Any] = {"iterations": 2, "verdict": 5}


class Wrapped(nn.Module):
    """The linear toy, its logits in a container."""

    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.wrap = Linear(), wrap

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.wrap(self.inner(x))
        return result


class Output:
    def __init__(self, logits: Tensor) -> None:
        self.loss, self.logits = None, logits


CONTAINERS = {
    "an object with logits": Output,
    "a tuple": lambda logits: (logits, logits.sum()),
    "a list": lambda logits: [logits],
    "a dict with logits": lambda logits: {"features": logits.sum(), "logits": logits},
    "a dict of one": lambda logits: {"out": logits},
    "a tuple in a dict": lambda logits: {"logits": (logits,)},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_logits_in_a_container_give_the_same_report_as_plain_ones(name: str) -> None:
    images, labels = data()
    plain = psj.evaluate(Linear(), images, labels, **QUICK)
    found = psj.evaluate(Wrapped(CONTAINERS[name]), images, labels, **QUICK)
    assert found.distances.tolist() == plain.distances.tolist()
    assert present(found.border_distances).tolist() == present(plain.border_distances).tolist()


@pytest.mark.parametrize("answer", [lambda x: "text", lambda x: {"a": x, "b": x}, lambda x: (), lambda x: {}])
def test_a_container_without_logits_is_an_error(answer: Callable[..., Any]) -> None:
    with pytest.raises(OracleError, match="it must return logits"):
        psj.TorchModel(Wrapped(answer)).labels(torch.zeros(2, 12))


class OneNumber(nn.Module):
    """A binary net: class 1 where the first two values sum to more than 1."""

    def __init__(self, end: nn.Module, flat: bool) -> None:
        super().__init__()
        self.end, self.flat = end, flat

    def forward(self, x: Tensor) -> Tensor:
        z = 9 * (x.flatten(1)[:, :2].sum(dim=1, keepdim=True) - 1)
        result: Tensor = self.end(z[:, 0] if self.flat else z)
        return result


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("end", [nn.Identity(), nn.Sigmoid()])
def test_a_binary_net_with_one_number_is_asked_on_the_right_side(end: nn.Module, flat: bool) -> None:
    model = psj.TorchModel(OneNumber(end, flat))
    points = torch.tensor([[0.1, 0.2], [0.9, 0.3], [0.45, 0.54], [0.55, 0.46]])
    assert model.labels(points).tolist() == [0, 1, 0, 1]
    assert model.classes == 2
    probability = torch.sigmoid(9 * (points.sum(dim=1) - 1))
    torch.testing.assert_close(model.log_probs(points).exp()[:, 1], probability)
    gradient = model.margin_gradient(points, torch.tensor([0, 1, 0, 1]))
    assert (gradient * torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]) > 0).all()


def test_a_binary_net_gets_the_known_distance() -> None:
    images = np.array([[0.2, 0.3], [0.8, 0.7]], dtype=np.float32)
    report = psj.evaluate(OneNumber(nn.Sigmoid(), True), images, [0, 1], iterations=8)
    np.testing.assert_allclose(present(report.border_distances), np.array([0.5, 0.5]) / 2**0.5, rtol=0.1)


def test_one_number_between_0_and_1_without_a_sigmoid_layer_is_warned_of() -> None:
    class Functional(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sigmoid(x[:, 0])

    with pytest.warns(UserWarning, match='output="probability"'):
        assert psj.TorchModel(Functional()).labels(torch.tensor([[-1.0]])).tolist() == [1]
    assert psj.TorchModel(Functional(), output="probability").labels(torch.tensor([[-1.0]])).tolist() == [0]


def test_a_hugging_face_model_is_understood() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=8,
        patch_size=4,
        num_channels=1,
        num_labels=3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.ViTForImageClassification(config).eval()
        images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        logits = model(images).logits
        model.classifier.bias -= logits.mean(dim=0)  # the classes meet among the images
        labels = model(images).logits.argmax(dim=1)
    report = psj.evaluate(model, images, labels, iterations=1, verdict=5)
    assert report.border_distances is not None
    assert {status.name for status in report.status} <= {"FINISHED", "NO_START"}
    assert any(status.name == "FINISHED" for status in report.status)


def test_a_function_may_return_scores() -> None:
    images, labels = data()
    by_label = psj.evaluate(lambda x: scores(x).argmax(axis=1), images, labels, **QUICK)
    for function in (scores, lambda x: torch.from_numpy(scores(x)), lambda x: scores(x).astype(np.float64)):
        assert psj.evaluate(function, images, labels, **QUICK).distances.tolist() == by_label.distances.tolist()


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_function_may_return_its_scores_in_a_container(name: str) -> None:
    images, labels = data()
    by_label = psj.evaluate(lambda x: scores(x).argmax(axis=1), images, labels, **QUICK)
    wrap: Callable[[Tensor], Any] = CONTAINERS[name]
    found = psj.evaluate(lambda x: wrap(torch.from_numpy(scores(x))), images, labels, **QUICK)
    assert found.distances.tolist() == by_label.distances.tolist()


@pytest.mark.parametrize(
    "form",
    [
        lambda y: y,
        lambda y: y[:, None],
        list,
        lambda y: y > 0,
        lambda y: torch.from_numpy(y > 0)[:, None],
        lambda y: (y,),
    ],
    ids=["integers", "a column", "a list", "truth values", "a column of truth values", "a tuple"],
)
def test_a_function_may_return_labels_in_every_usual_form(form: Callable[[np.ndarray], Any]) -> None:
    images = np.full((2, 3), 0.3, dtype=np.float32)

    def sides(batch: np.ndarray) -> Any:
        return (batch.sum(axis=1) > 1).astype(int)

    plain = psj.evaluate(sides, images, [0, 0], **QUICK)
    assert (
        psj.evaluate(lambda x: form(sides(x)), images, [0, 0], **QUICK).distances.tolist() == plain.distances.tolist()
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: scores(x)[:, 0], r"scores of class 1, return on which side"),
        (lambda x: scores(x)[:, :1], "a logit or a probability"),
        (lambda x: scores(x) * np.nan, "not numbers"),
        (lambda x: scores(x)[1:], "returned scores of shape"),
        (lambda x: np.zeros((len(x), CLASSES), int), "asked for"),
    ],
)
def test_scores_that_cannot_be_read_are_an_error(answer: Callable[..., Any], message: str) -> None:
    with pytest.raises(OracleError, match=message):
        psj.evaluate(answer, *data(), **QUICK)


def test_a_class_instead_of_an_object_is_refused() -> None:
    with pytest.raises(InputError, match=r"Linear is a class: pass an object of it, Linear\(\.\.\.\)"):
        psj.evaluate(Linear, *data())
