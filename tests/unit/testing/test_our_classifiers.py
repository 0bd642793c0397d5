"""Every adapter of the package keeps the contract that authors of others are given, and a broken one does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from popskipjump import adapters
from popskipjump.adapters import OnnxModel
from popskipjump.rng import Key, normal, uniform
from popskipjump.testing import ClassifierContract

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
WEIGHT = normal(Key(1).child("weight").roots(torch.arange(3)), 8).numpy()
ANIMALS = np.array(["cat", "dog", "eel"])


def scores(batch: np.ndarray) -> np.ndarray:
    return np.asarray((batch.reshape(len(batch), -1) - np.float32(0.5)) @ WEIGHT.T)


class Ours(ClassifierContract):
    def make_inputs(self) -> np.ndarray:
        return uniform(Key(2).child("inputs").roots(torch.arange(7)), 8).numpy()


class Counting:
    def __init__(self, function: Callable[..., Any] = lambda x: scores(x).argmax(axis=1)) -> None:
        self.function, self.seen = function, 0

    def __call__(self, batch: np.ndarray) -> Any:
        self.seen += len(batch)
        return self.function(batch)


class TestFunction(Ours):
    def make_model(self) -> Counting:
        return Counting()

    def rows_seen(self, model: Any) -> Any:
        return model.seen


class TestScores(TestFunction):
    def make_model(self) -> Counting:
        return Counting(scores)


class TestTorchModule(Ours):
    def make_model(self) -> nn.Module:
        net = nn.Linear(8, 3)
        net.load_state_dict({"weight": torch.from_numpy(WEIGHT), "bias": torch.from_numpy(-WEIGHT.sum(axis=1) / 2)})
        vars(net)["seen"] = 0
        net.register_forward_hook(lambda module, given, _: setattr(module, "seen", module.seen + len(given[0])))
        return net

    def rows_seen(self, model: Any) -> Any:
        return model.seen


class TestEstimator(Ours):
    def make_model(self) -> object:
        class Estimator(Counting):
            classes_ = ANIMALS

            def predict(self, rows: np.ndarray) -> Any:
                return self(rows)

        return Estimator(lambda x: ANIMALS[scores(x).argmax(axis=1)])

    def make_classes(self) -> np.ndarray:
        return ANIMALS

    def rows_seen(self, model: Any) -> Any:
        return model.seen


class TestScikitLearn(Ours):
    def make_model(self) -> Any:
        neighbors = pytest.importorskip("sklearn.neighbors")
        rows = uniform(Key(3).root(), 200 * 8).reshape(200, 8).numpy()
        return neighbors.KNeighborsClassifier(5).fit(rows, ANIMALS[scores(rows).argmax(axis=1)])

    def make_classes(self) -> np.ndarray:
        return ANIMALS


class TestJax(Ours):
    def make_model(self) -> Any:
        jax = pytest.importorskip("jax")
        return jax.jit(lambda x: (x - 0.5) @ WEIGHT.T)


class TestFoolbox(Ours):
    def make_model(self) -> Any:
        foolbox = pytest.importorskip("foolbox")
        function = Counting(scores)
        model = foolbox.NumPyModel(function, bounds=(0, 1))
        model.function = function
        return model

    def rows_seen(self, model: Any) -> Any:
        return model.function.seen


class TestFoolboxTorch(Ours):
    def make_model(self) -> Any:
        foolbox = pytest.importorskip("foolbox")
        return foolbox.PyTorchModel(TestTorchModule().make_model().eval(), bounds=(0, 1), device="cpu")


class TestArt(Ours):
    def make_model(self) -> Any:
        art = pytest.importorskip("art.estimators.classification", exc_type=ImportError)
        function = Counting(lambda x: np.eye(3, dtype=np.float32)[scores(x).argmax(axis=1)])
        return art.BlackBoxClassifier(function, (8,), 3)

    def rows_seen(self, model: Any) -> Any:
        return model.predict_fn.seen


class TestOnnx(Ours):
    def make_model(self) -> OnnxModel:
        class Value:
            def __init__(self, name: str, shape: Any) -> None:
                self.name, self.type, self.shape = name, "tensor(float)", shape

        class Session(Counting):
            """A session, as far as the adapter looks; the real one is tested in adapters."""

            def get_inputs(self) -> list[Any]:
                return [Value("x", [None, 8])]

            def get_outputs(self) -> list[Any]:
                return [Value("scores", [None, 3])]

            def run(self, names: Any, feed: dict[str, np.ndarray]) -> list[Any]:
                return [self(feed["x"])]

        return adapters.OnnxModel(Session(scores))

    def rows_seen(self, model: Any) -> Any:
        return model.session.seen


class Spoiling:
    """A model with one thing wrong; it has `labels`, so that it is taken as it is."""

    device, classes = torch.device("cpu"), 3

    def __init__(self, fault: str) -> None:
        self.fault, self.calls, self.seen = fault, 0, 0

    def labels(self, points: Tensor) -> Tensor:
        self.calls += 1
        self.seen += len(points) * (2 if self.fault == "twice" else 1)
        found = torch.from_numpy(scores(points.numpy()).argmax(axis=1))
        if self.fault == "changes":
            points *= 0.5
        elif self.fault == "batch":
            found = (found + len(points)) % 3
        elif self.fault == "floats":
            found = found.float()
        elif self.fault == "beyond":
            found = found + 1
        elif self.fault == "state":
            found = (found + self.calls % 2) % 3
        return found


FAULTS = [
    ("changes", "test_the_inputs_are_left_as_they_were"),
    ("batch", "test_a_label_does_not_depend_on_the_batch"),
    ("state", "test_a_label_does_not_depend_on_the_batch"),
    ("floats", "test_every_input_gets_one_label"),
    ("beyond", "test_every_input_gets_one_label"),
    ("twice", "test_an_evaluation_finishes_and_counts_what_was_seen"),
]


@pytest.mark.parametrize(("fault", "claim"), FAULTS)
def test_a_broken_classifier_breaks_the_contract(fault: Any, claim: str) -> None:
    contract = TestFunction()
    vars(contract)["make_model"] = lambda: Spoiling(fault)
    with pytest.raises(AssertionError):
        getattr(contract, claim)()
