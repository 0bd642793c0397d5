"""ONNX Runtime, JAX, Foolbox and ART: each object is recognised, asked rightly, and refused with a way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from adapter_toys import CLASSES, FEATURES, Linear, data, onnx_session, scores, weights
from present import present

import popskipjump as psj
from popskipjump import adapters
from popskipjump.adapters.jax import padded_size
from popskipjump.errors import InputError, MissingExtraError

QUICK: dict[str, Any] = {"iterations": 2, "verdict": 5}
BIAS = -weights().sum(axis=1) / 2
POINTS = torch.from_numpy(data(23)[0])
EXPECTED = data(23)[1].tolist()


def ort() -> Any:
    pytest.importorskip("onnx")
    return pytest.importorskip("onnxruntime")


# ONNX Runtime.


@pytest.mark.parametrize("ending", ["", "labels"])
@pytest.mark.parametrize("rows", ["rows", 1, 5])
def test_a_session_answers_as_its_model_whatever_the_size_of_its_batch(rows: int | str, ending: str) -> None:
    ort()
    model = adapters.recognise(onnx_session(weights(), BIAS, rows, ending))
    assert type(model) is adapters.OnnxModel
    for count in (1, 4, 5, 23):
        assert model.labels(POINTS[:count]).tolist() == EXPECTED[:count]
    assert model.labels(POINTS[:0]).tolist() == []


def test_the_classes_of_a_session_are_read_from_its_output() -> None:
    ort()
    assert adapters.recognise(onnx_session(weights(), BIAS)).classes == CLASSES
    report = psj.evaluate(onnx_session(weights(), BIAS), *data(), noise="flip:0.1", **QUICK)
    assert np.isfinite(report.distances).all()


def test_inputs_that_do_not_fit_a_session_are_refused() -> None:
    ort()
    with pytest.raises(InputError, match=r"takes inputs of the shape \(12,\), and these have \(3, 4\)"):
        psj.evaluate(onnx_session(weights(), BIAS), data()[0].reshape(4, 3, 4), data()[1])


def test_an_unknown_output_of_a_session_is_refused() -> None:
    ort()
    with pytest.raises(InputError, match="no output 'other', but scores"):
        adapters.OnnxModel(onnx_session(weights(), BIAS), output="other")


class Declared:
    """What a session says of one of its values."""

    def __init__(self, name: str, kind: str, shape: list[int | None] | list[None]) -> None:
        self.name, self.type, self.shape = name, kind, shape


class Texts:
    """A session, as far as the adapter looks, whose output are texts."""

    inputs = (Declared("x", "tensor(float)", [None, FEATURES]),)

    def get_inputs(self) -> list[Any]:
        return list(self.inputs)

    def get_outputs(self) -> list[Any]:
        return [Declared("label", "tensor(string)", [None])]

    def run(self, names: Any, feed: dict[str, np.ndarray]) -> list[Any]:
        return [np.array(["cat", "dog", "eel"], dtype=object)[scores(feed["x"]).argmax(axis=1)]]


def test_a_session_that_answers_with_texts_needs_its_classes() -> None:
    with pytest.raises(InputError, match=r"answers with texts.*classes=\["):
        adapters.OnnxModel(Texts())
    images, places = data()
    model = adapters.OnnxModel(Texts(), classes=["dog", "cat", "eel"])
    report = psj.evaluate(model, images, np.array(["cat", "dog", "eel"])[places], **QUICK)
    assert report.labels.tolist() == np.array([1, 0, 2])[places].tolist()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((Declared("x", "tensor(float)", [None]), Declared("y", "tensor(float)", [None])), "has 2 inputs"),
        ((Declared("x", "tensor(string)", [None]),), "not numbers"),
    ],
)
def test_a_session_with_other_inputs_is_refused(inputs: Any, message: str) -> None:
    session = Texts()
    session.inputs = inputs
    with pytest.raises(InputError, match=message):
        adapters.OnnxModel(session, classes=["a", "b"])


class Several(Texts):
    """A session with the outputs and the type of input that it is told; all outputs hold scores but those named."""

    def __init__(self, outputs: dict[str, Any], kind: str = "tensor(float)") -> None:
        self.outputs, self.inputs, self.seen = outputs, (Declared("x", kind, [None, FEATURES]),), np.zeros(0)

    def get_outputs(self) -> list[Any]:
        return [Declared(name, "tensor(float)", [None, None]) for name in self.outputs]

    def run(self, names: Any, feed: dict[str, np.ndarray]) -> list[Any]:
        self.seen = feed["x"]
        return [self.outputs[names[0]](feed["x"])]


def features(batch: np.ndarray) -> np.ndarray:
    return batch[:, ::-1]


def test_of_several_outputs_the_one_with_a_usual_name_is_read() -> None:
    model = adapters.recognise(adapters.OnnxModel(Several({"features": features, "net/logits": scores})))
    assert model.labels(POINTS).tolist() == EXPECTED
    with pytest.raises(InputError, match=r"has the outputs features, 12: say which .*output='features'"):
        adapters.OnnxModel(Several({"features": features, "12": scores}))
    chosen = adapters.OnnxModel(Several({"features": features, "12": scores}), output="12")
    assert chosen.labels(POINTS).tolist() == EXPECTED


def test_probabilities_by_class_are_scores() -> None:
    model = adapters.OnnxModel(Several({"p": lambda x: [dict(enumerate(row)) for row in scores(x).tolist()]}))
    assert model.labels(POINTS).tolist() == EXPECTED


def test_a_session_of_integers_is_asked_about_whole_numbers_alone() -> None:
    session = Several({"scores": lambda x: scores(x.astype(np.float32) / 255)}, "tensor(uint8)")
    model = adapters.OnnxModel(session)
    images, labels = data()
    whole = np.round(images * 255)
    space = psj.Space(np.zeros(FEATURES), 255, integer=range(FEATURES))
    report = psj.evaluate(model, whole, scores(whole / 255).argmax(axis=1), "qsj", space=space, budget=100)
    assert session.seen.dtype == np.uint8
    assert np.isfinite(report.distances).all()
    with pytest.raises(psj.OracleError, match=r"not whole: say which features are, as in space=Space\("):
        psj.evaluate(model, images, labels)


def test_an_onnx_file_is_told_to_become_a_session() -> None:
    ort()
    import onnx

    with pytest.raises(InputError, match=r"ModelProto is no classifier.*InferenceSession\("):
        psj.evaluate(onnx.ModelProto(), *data())


# JAX.


@pytest.fixture
def jnp() -> Any:
    return pytest.importorskip("jax.numpy")


@pytest.mark.parametrize("ending", ["scores", "labels"])
def test_a_compiled_jax_function_answers_as_its_model(jnp: ModuleType, ending: str) -> None:
    import jax

    def linear(x: Any) -> Any:
        out = (x - 0.5) @ weights().T
        return out if ending == "scores" else out.argmax(axis=1)

    model = adapters.recognise(jax.jit(linear))
    assert type(model) is adapters.JaxModel
    for count in (1, 2, 23):
        assert model.labels(POINTS[:count]).tolist() == EXPECTED[:count]


@pytest.mark.parametrize("wrap", [lambda x: {"logits": x, "features": x.sum()}, lambda x: (x, x.sum())])
def test_the_scores_of_a_compiled_function_may_be_in_a_container(jnp: ModuleType, wrap: Any) -> None:
    import jax

    model = adapters.recognise(jax.jit(lambda x: wrap((x - 0.5) @ weights().T)))
    for count in (1, 2, 23):
        assert model.labels(POINTS[:count]).tolist() == EXPECTED[:count]


def test_a_compiled_function_is_compiled_for_few_sizes(jnp: ModuleType) -> None:
    import jax

    traced = []

    @jax.jit
    def linear(x: Any) -> Any:
        traced.append(len(x))  # runs only where JAX compiles
        return (x - 0.5) @ weights().T

    psj.evaluate(linear, *data(), iterations=4)
    sizes = {padded_size(count) for count in range(1, 2049)}
    assert set(traced) <= sizes
    assert len(traced) == len(set(traced))
    assert len(sizes) < 45


def test_a_padded_size_is_at_least_as_large_and_a_quarter_larger_at_most() -> None:
    for count in range(1, 5000):
        assert count <= padded_size(count) <= 1.25 * count


def test_a_plain_function_of_jax_is_counted_exactly(jnp: ModuleType) -> None:
    seen = []

    def linear(x: Any) -> Any:
        seen.append(len(x))
        return jnp.argmax((jnp.asarray(x) - 0.5) @ weights().T, axis=1)

    images, labels = data(2)
    report = psj.evaluate(linear, jnp.asarray(images), jnp.asarray(labels), budget=60)
    assert sum(seen) == report.queries.sum()


# Foolbox.


@pytest.fixture
def fb() -> Any:
    return pytest.importorskip("foolbox")


def test_a_torch_model_of_foolbox_is_a_white_box_with_its_preprocessing(fb: ModuleType) -> None:
    net = Linear().eval()
    inner = fb.PyTorchModel(net, bounds=(0, 1), device="cpu")
    wide = inner.transform_bounds((0, 255))
    images, labels = data()
    plain = psj.evaluate(Linear(), images, labels, **QUICK)
    found = psj.evaluate(inner, images, labels, **QUICK)
    assert found.points.tobytes() == plain.points.tobytes()
    assert present(found.border_distances).tolist() == present(plain.border_distances).tolist()
    large = psj.evaluate(wide, images * 255, labels, bounds=wide.bounds, **QUICK)
    np.testing.assert_allclose(present(large.border_distances), 255 * present(plain.border_distances), rtol=0.2)


def test_the_bounds_of_a_model_of_foolbox_are_those_of_its_inputs(fb: ModuleType) -> None:
    wide = fb.PyTorchModel(Linear().eval(), bounds=(0, 1), device="cpu").transform_bounds((-1, 3))
    images, labels = data()
    declared = psj.evaluate(wide, images * 4 - 1, labels, **QUICK)
    said = psj.evaluate(wide, images * 4 - 1, labels, bounds=(-1, 3), **QUICK)
    assert declared.points.tobytes() == said.points.tobytes()
    assert (declared.bounds.low, declared.bounds.high) == (-1, 3)


def test_models_of_foolbox_in_other_frameworks_answer_alike(fb: ModuleType) -> None:
    models = [
        fb.NumPyModel(scores, bounds=(0, 1)),
        fb.NumPyModel(scores, bounds=(0, 1)).transform_bounds((0, 1)),
        fb.models.ThresholdingWrapper(fb.PyTorchModel(Linear().eval(), bounds=(0, 1), device="cpu"), 0.5),
    ]
    for model in models[:2]:
        assert adapters.recognise(model).labels(POINTS).tolist() == EXPECTED
    binary = (POINTS >= 0.5).float()
    assert adapters.recognise(models[2]).labels(POINTS).tolist() == scores(binary.numpy()).argmax(axis=1).tolist()


def test_a_jax_model_of_foolbox_is_asked_in_jax_arrays(fb: ModuleType, jnp: ModuleType) -> None:
    seen = []

    def linear(x: Any) -> Any:
        seen.append(type(x).__module__.partition(".")[0])
        return (x - 0.5) @ weights().T

    model = adapters.recognise(fb.JAXModel(linear, bounds=(0, 1)))
    assert model.labels(POINTS).tolist() == EXPECTED
    assert set(seen) <= {"jax", "jaxlib"}


def test_an_attack_of_foolbox_in_place_of_a_model_is_refused(fb: ModuleType) -> None:
    with pytest.raises(InputError, match="pass the model that it attacks"):
        psj.evaluate(fb.attacks.HopSkipJumpAttack(), *data())


# ART.


@pytest.fixture
def art() -> Any:
    return pytest.importorskip("art.estimators.classification", exc_type=ImportError)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_classifiers_of_art_answer_as_their_models(art: ModuleType) -> None:
    net = Linear().eval()
    black = art.BlackBoxClassifier(
        lambda x: np.eye(CLASSES, dtype=np.float32)[scores(x).argmax(axis=1)], (FEATURES,), CLASSES
    )
    white = art.PyTorchClassifier(net, torch.nn.CrossEntropyLoss(), (FEATURES,), CLASSES, device_type="cpu")
    for estimator in (black, white):
        model = adapters.recognise(estimator)
        assert type(model) is adapters.ArtModel
        assert model.classes == CLASSES
        assert model.labels(POINTS).tolist() == EXPECTED


def test_the_clip_values_of_an_estimator_of_art_are_the_bounds(art: ModuleType) -> None:
    high = np.linspace(1, 2, FEATURES)
    black = art.BlackBoxClassifier(
        lambda x: np.eye(CLASSES)[scores(x).argmax(axis=1)],
        (FEATURES,),
        CLASSES,
        clip_values=(np.zeros(FEATURES), high),
    )
    report = psj.evaluate(black, *data(), **QUICK)
    said = psj.evaluate(black, *data(), bounds=(np.zeros(FEATURES), high), **QUICK)
    assert report.points.tobytes() == said.points.tobytes()
    assert "ranges of the features" in str(report)


def test_inputs_that_do_not_fit_an_estimator_of_art_are_refused(art: ModuleType) -> None:
    black = art.BlackBoxClassifier(lambda x: pytest.fail("asked"), (FEATURES,), CLASSES)
    with pytest.raises(InputError, match=r"inputs of the shape \(12,\), and these have \(5,\)"):
        psj.evaluate(black, np.zeros((2, 5), np.float32), [0, 0])


# What is left.


class Service:
    def predict(self, rows: np.ndarray) -> np.ndarray:
        return rows


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Service(), r"Service is no classifier that can be asked: pass model\.predict"),
        ({"weight": torch.zeros(2)}, "holds weights alone"),
        (Path("net.onnx"), "load what it names"),
        (torch.zeros(3), "the order is"),
        (3.5, "pass a torch module, a function"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_nearest_thing_that_can(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        psj.evaluate(model, *data())


def test_a_booster_is_told_to_become_a_classifier() -> None:
    xgboost = pytest.importorskip("xgboost")
    with pytest.raises(InputError, match="pass the XGBClassifier or LGBMClassifier"):
        psj.evaluate(xgboost.Booster(), *data())


def test_a_model_that_is_recognised_is_left_alone_the_second_time() -> None:
    model = adapters.recognise(Linear())
    assert adapters.recognise(model) is model


def test_the_members_of_an_ensemble_are_recognised_too() -> None:
    class Estimator:
        classes_ = np.arange(CLASSES)

        def predict(self, rows: np.ndarray) -> Any:
            return scores(rows).argmax(axis=1)

    ensemble = psj.noise.Ensemble([Estimator(), Linear()])
    report = psj.evaluate(Linear(), *data(), noise=ensemble, **QUICK)
    assert np.isfinite(report.distances).all()


OTHERS = "foolbox art sklearn onnx onnxruntime jax xgboost lightgbm transformers pandas eagerpy"
LAZY = f"""
import sys
import numpy as np
import popskipjump as psj
from popskipjump import adapters
class Estimator:
    classes_ = np.array(["a", "b"])
    def predict(self, rows):
        return self.classes_[(rows.sum(axis=1) > 1).astype(int)]
psj.evaluate(Estimator(), np.full((1, 2), 0.2, dtype=np.float32), ["a"], iterations=1)
print([name for name in {OTHERS.split()!r} if name in sys.modules])
"""


def test_no_optional_package_is_imported_to_recognise_a_model() -> None:
    source = Path(psj.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", LAZY],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("home", "package", "extra"),
    [("foolbox.attacks", "foolbox", "foolbox"), ("art", "art", "art")],
)
def test_without_its_package_an_integration_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, home: str, package: str, extra: str
) -> None:
    import importlib

    name = f"popskipjump.integrations.{home}"
    for module in [name, *(m for m in sys.modules if m == package or m.startswith(f"{package}."))]:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails as if it were not there
    with pytest.raises(MissingExtraError, match=rf"popskipjump\[{extra}\]"):
        importlib.import_module(name)
