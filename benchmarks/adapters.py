"""Time of an adapter against the bare call that its library's user would write, on the batches of a real attack.

    python benchmarks/adapters.py --images 10 --repeat 5 --out benchmarks/results/adapters.md

The points of one attack on the embedded images are kept, batch by batch. Adapter and bare model then answer the same
batches in turn, so that both see the same machine; the answers must be the same. The time is this process's (cpu): one
thread on a busy machine. A compiled JAX function is compiled for every size of batch before the clock starts, which
flatters the bare one: its user would have waited for a compilation at every new size.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
import torch
from common import Goal, command, correct_images, embedded_pool, header, markdown, save, seconds, spread

import popskipjump as psj
from popskipjump import adapters
from popskipjump.oracles import Classifier, Ticket

GOAL = Goal(1.1)
Bare = Callable[[np.ndarray], np.ndarray]


def weights() -> dict[str, np.ndarray]:
    """Those of the embedded net, for the same net in ONNX and JAX."""
    return {name: value.numpy() for name, value in psj.zoo.mnist_model().state_dict().items()}


def foolbox_model() -> tuple[Any, Bare]:
    import foolbox

    model = foolbox.PyTorchModel(psj.zoo.mnist_model().eval(), bounds=(0, 1), device="cpu")
    return model, lambda x: model(torch.from_numpy(x)).argmax(dim=1).numpy()


def torch_module() -> tuple[Any, Bare]:
    net = psj.zoo.mnist_model().eval()

    def bare(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            labels: np.ndarray = net(torch.from_numpy(x)).argmax(dim=1).numpy()
        return labels

    return net, bare


def art_torch() -> tuple[Any, Bare]:
    from art.estimators.classification import PyTorchClassifier

    net = psj.zoo.mnist_model().eval()
    estimator = PyTorchClassifier(net, torch.nn.CrossEntropyLoss(), (1, 28, 28), 10, device_type="cpu")
    return estimator, lambda x: estimator.predict(x, batch_size=len(x)).argmax(axis=1)


def art_black_box() -> tuple[Any, Bare]:
    from art.estimators.classification import BlackBoxClassifier

    _, labels = torch_module()
    eye = np.eye(10, dtype=np.float32)
    estimator = BlackBoxClassifier(lambda x: eye[labels(x)], (1, 28, 28), 10)
    return estimator, lambda x: estimator.predict(x, batch_size=len(x)).argmax(axis=1)


def onnx_session() -> tuple[Any, Bare]:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    pool: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "conv1.weight", "conv1.bias"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["b"], **pool),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "conv2.weight", "conv2.bias"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["e"], **pool),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("Gemm", ["g", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["i"]),
        helper.make_node("Gemm", ["i", "fc2.weight", "fc2.bias"], ["scores"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "mnist-cnn",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 1, 28, 28])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["rows", 10])],
        [numpy_helper.from_array(value, name) for name, value in weights().items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session, lambda x: session.run(["scores"], {"x": x})[0].argmax(axis=1)


def jax_function() -> tuple[Any, Bare]:
    import jax
    from jax import lax, nn

    w = weights()

    def block(x: Any, name: str) -> Any:
        made = lax.conv(x, jax.numpy.asarray(w[f"{name}.weight"]), (1, 1), "VALID") + w[f"{name}.bias"][:, None, None]
        return nn.relu(lax.reduce_window(made, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"))

    @jax.jit
    def scores(x: Any) -> Any:
        flat = block(block(x, "conv1"), "conv2").reshape(len(x), -1)
        return nn.relu(flat @ w["fc1.weight"].T + w["fc1.bias"]) @ w["fc2.weight"].T + w["fc2.bias"]

    return scores, lambda x: np.asarray(scores(x)).argmax(axis=1)


def sklearn_net() -> tuple[Any, Bare]:
    from sklearn.neural_network import MLPClassifier

    images, labels = psj.zoo.mnist_images(300)
    net = MLPClassifier((256,), max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, and need not
        net.fit(images.reshape(300, -1), np.array([f"digit {k}" for k in range(10)])[labels])
    places = {name: place for place, name in enumerate(net.classes_)}
    return net, lambda x: np.array([places[name] for name in net.predict(x.reshape(len(x), -1))])


def sklearn_forest() -> tuple[Any, Bare]:
    from sklearn.ensemble import RandomForestClassifier

    images, labels = psj.zoo.mnist_images(300)
    forest = RandomForestClassifier(50, random_state=0, n_jobs=1).fit(images.reshape(300, -1), labels)
    return forest, lambda x: forest.predict(x.reshape(len(x), -1))


CASES: dict[str, Callable[[], tuple[Any, Bare]]] = {
    "torch module": torch_module,
    "Foolbox PyTorchModel": foolbox_model,
    "ART PyTorchClassifier": art_torch,
    "ART BlackBoxClassifier": art_black_box,
    "ONNX Runtime session": onnx_session,
    "JAX function": jax_function,
    "scikit-learn net, classes with names": sklearn_net,
    "scikit-learn forest": sklearn_forest,
}


def batches(images: int, attack: str, budget: int) -> list[torch.Tensor]:
    """The points of every call of one attack, each `(M, 1, 28, 28)`."""
    kept: list[psj.Recorded] = []

    def keep(oracle: psj.Oracle) -> psj.Oracle:
        kept.append(psj.Recorded(oracle, keep_points=True))
        return kept[-1]

    data = correct_images(images)
    psj.evaluate(
        psj.zoo.mnist_model(), *data, attack, starts=embedded_pool(), budget=budget, hooks=psj.Hooks(wrap_oracle=keep)
    )
    return kept[0].calls()


def measure(name: str, calls: list[torch.Tensor], repeat: int) -> tuple[list[float], float]:
    """Ratios of the adapter's time to the bare one's, one for each repetition, and the bare time of a query in us."""
    model, bare = CASES[name]()
    oracle = Classifier(adapters.recognise(model))
    tickets = [Ticket(torch.zeros(len(call), dtype=torch.int64)) for call in calls]
    arrays = [call.numpy() for call in calls]
    differ = 0
    for call, array, ticket in zip(calls, arrays, tickets, strict=True):  # warm, and equal
        differ += int((oracle.ask(call, ticket).numpy() != bare(array)).sum())
    if differ > 1e-3 * sum(map(len, calls)):  # the last digits of a padded batch may differ
        raise SystemExit(f"{name}: the adapter gives {differ} other answers than the bare model")
    ratios, times = [], []
    for _ in range(repeat):
        adapted = plain = 0.0
        for number, (call, array, ticket) in enumerate(zip(calls, arrays, tickets, strict=True)):
            if number % 2:  # who comes second finds the batch in the cache
                adapted += seconds(partial(oracle.ask, call, ticket), "cpu")[0]
            plain += seconds(partial(bare, array), "cpu")[0]
            if number % 2 == 0:
                adapted += seconds(partial(oracle.ask, call, ticket), "cpu")[0]
        ratios.append(adapted / plain)
        times.append(plain)
    return ratios, 1e6 * float(np.median(times)) / sum(map(len, calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--attack", default="psj")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    calls = batches(options.images, options.attack, options.budget)
    rows = []
    for name in options.cases:
        ratios, bare = measure(name, calls, options.repeat)
        rows.append((name, f"{bare:.1f}", spread(ratios), GOAL.judge(float(np.median(ratios)))))
        print(*rows[-1], flush=True)
    sizes = [len(call) for call in calls]
    text = (
        f"{header('Adapters against bare models', command())}\n{len(calls):,} calls of {options.attack}, "
        f"{sum(sizes):,} queries, median {int(np.median(sizes))} rows a call. Medians of {options.repeat} repetitions "
        f"[smallest to largest]; cpu clock.\n\n"
    )
    save(options.out, text + markdown(("classifier", "bare us / query", "adapter / bare", "goal"), rows))


if __name__ == "__main__":
    main()
