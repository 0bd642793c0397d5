"""One problem through every adapter: the same distances, and as many queries as the other side saw."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from adapter_toys import Counting, Linear, data, onnx_session
from torch import Tensor, nn

import popskipjump as psj

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Problem(NamedTuple):
    weight: np.ndarray  # (K, d)
    bias: np.ndarray  # (K,)
    images: np.ndarray  # (B, d)
    labels: np.ndarray  # (B,)
    options: dict[str, Any]


@functools.cache
def problem(name: str) -> Problem:
    if name == "linear":
        net = Linear()
        weight, bias = (p.detach().numpy() for p in net.layer.parameters())
        return Problem(weight, bias, *data(6), {"iterations": 4, "verdict": 10})
    images, labels = psj.zoo.mnist_images(400)
    flat = images.reshape(len(images), -1)
    means = np.stack([flat[labels == k].mean(axis=0) for k in range(10)])
    weight, bias = (2 * means).astype(np.float32), (-(means**2).sum(axis=1)).astype(np.float32)  # the nearest mean
    right = np.flatnonzero((flat @ weight.T + bias).argmax(axis=1) == labels)[:4]
    starts = psj.Pool(images[300:].reshape(100, -1), labels[300:])
    return Problem(weight, bias, flat[right], labels[right], {"iterations": 2, "verdict": 10, "starts": starts})


Made = tuple[Any, Callable[[], int] | None]  # a classifier, and how many rows it was asked


class Net(nn.Module):
    def __init__(self, case: Problem) -> None:
        super().__init__()
        self.layer = nn.Linear(case.weight.shape[1], len(case.weight))
        with torch.no_grad():
            self.layer.weight.copy_(torch.from_numpy(case.weight))
            self.layer.bias.copy_(torch.from_numpy(case.bias))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        result: Tensor = self.layer(x)
        return result


def in_torch(case: Problem) -> Made:
    net = Net(case)
    return net, lambda: net.seen


def in_function(case: Problem) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[], int]]:
    net = Net(case)

    def predict(batch: np.ndarray) -> Any:
        with torch.no_grad():
            return net(torch.from_numpy(batch)).argmax(dim=1).numpy()

    return predict, lambda: net.seen


def in_estimator(case: Problem) -> Made:
    predict, seen = in_function(case)

    class Estimator:
        classes_ = np.arange(len(case.weight))

        def predict(self, batch: np.ndarray) -> np.ndarray:
            return predict(batch)

    return Estimator(), seen


def in_foolbox(case: Problem) -> Made:
    foolbox = pytest.importorskip("foolbox")
    net = Net(case).eval()
    return foolbox.PyTorchModel(net, bounds=(0, 1), device="cpu"), lambda: net.seen


def in_art(case: Problem) -> Made:
    art = pytest.importorskip("art.estimators.classification", exc_type=ImportError)
    net = Net(case)
    estimator = art.PyTorchClassifier(
        net, nn.CrossEntropyLoss(), case.images.shape[1:], len(case.weight), device_type="cpu"
    )
    return estimator, lambda: net.seen


def in_black_box(case: Problem) -> Made:
    art = pytest.importorskip("art.estimators.classification", exc_type=ImportError)
    predict, seen = in_function(case)
    eye = np.eye(len(case.weight), dtype=np.float32)
    return art.BlackBoxClassifier(lambda x: eye[predict(x)], case.images.shape[1:], len(case.weight)), seen


def in_sklearn(case: Problem) -> Made:
    linear: Any = pytest.importorskip("sklearn.linear_model")

    class Regression(linear.LogisticRegression):  # type: ignore[misc]  # an extra without types
        seen = 0

        def predict(self, rows: np.ndarray) -> Any:
            self.seen += len(rows)
            return super().predict(rows)

    model = Regression()
    model.coef_, model.intercept_ = case.weight.astype(np.float64), case.bias.astype(np.float64)
    model.classes_, model.n_features_in_ = np.arange(len(case.weight)), case.weight.shape[1]
    return model, lambda: model.seen


def in_onnx(case: Problem) -> Made:
    pytest.importorskip("onnx")
    runtime: Any = pytest.importorskip("onnxruntime")

    class Session(runtime.InferenceSession):  # type: ignore[misc]  # an extra without types
        seen = 0

        def run(self, names: Any, feed: dict[str, np.ndarray], *rest: Any) -> Any:
            self.seen += len(next(iter(feed.values())))
            return super().run(names, feed, *rest)

    session = onnx_session(case.weight, case.bias, kind=Session)
    return session, lambda: session.seen


def in_jax(case: Problem) -> Made:
    jax = pytest.importorskip("jax")
    return jax.jit(lambda x: x @ case.weight.T + case.bias), None  # a compiled function cannot count


def in_numpy(case: Problem) -> Made:
    function = Counting(lambda x: x @ case.weight.T + case.bias)
    return function, lambda: function.seen


SAME: dict[str, Callable[[Problem], Made]] = {  # the arithmetic is torch's
    "function": in_function,
    "estimator": in_estimator,
    "foolbox": in_foolbox,
    "art": in_art,
    "art black box": in_black_box,
}
OWN: dict[str, Callable[[Problem], Made]] = {
    "sklearn": in_sklearn,
    "onnx": in_onnx,
    "jax": in_jax,
    "numpy scores": in_numpy,
}
every_problem = pytest.mark.parametrize("name", ["linear", "mnist"])


def report_of(case: Problem, make: Callable[[Problem], Made], attack: str = "psj") -> tuple[psj.Report, int | None]:
    """A report, and what the other side had seen when the last query was answered (the white box asks later)."""
    model, seen = make(case)
    at_the_end = [0]
    report = psj.evaluate(
        model,
        case.images,
        case.labels,
        attack,
        hooks=psj.Hooks(on_queries=lambda _: at_the_end.append(seen() if seen else 0)),
        **case.options,
    )
    return report, at_the_end[-1] if seen else None


@functools.cache
def reference(name: str) -> tuple[psj.Report, int | None]:
    return report_of(problem(name), in_torch)


@every_problem
def test_the_reference_counts_what_it_saw_and_is_near_the_border(name: str) -> None:
    report, seen = reference(name)
    case = problem(name)
    assert seen == report.queries.sum()
    assert {status.name for status in report.status} == {"FINISHED"}
    gaps = case.weight[case.labels][:, None] - case.weight[None]
    height = np.einsum("bkd,bd->bk", gaps, case.images) + case.bias[case.labels][:, None] - case.bias[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        nearest = np.nanmin(np.where(height == 0, np.nan, height) / np.linalg.norm(gaps, axis=2), axis=1)
    assert (report.border_distances >= nearest * 0.99).all()  # the bounds may keep the nearest point out of reach


@every_problem
@pytest.mark.parametrize("adapter", SAME)
def test_the_same_arithmetic_gives_the_same_points_to_the_bit(name: str, adapter: str) -> None:
    expected, _ = reference(name)
    report, seen = report_of(problem(name), SAME[adapter])
    assert seen == report.queries.sum()
    assert report.points.tobytes() == expected.points.tobytes()
    assert report.queries.tolist() == expected.queries.tolist()


@every_problem
@pytest.mark.parametrize("adapter", OWN)
def test_other_arithmetic_gives_the_same_distances_up_to_chance(name: str, adapter: str) -> None:
    expected, _ = reference(name)
    report, seen = report_of(problem(name), OWN[adapter])
    assert seen is None or seen == report.queries.sum()
    # Last digits decide single answers next to the border; a run from another seed moves a distance by some 5%.
    assert abs(np.log(report.distances / expected.distances).mean()) < 0.1
    np.testing.assert_allclose(report.distances, expected.distances, rtol=0.35)
