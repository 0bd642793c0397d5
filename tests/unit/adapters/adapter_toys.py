"""One linear problem in the shapes of every library; whoever answers counts the rows that it saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump.rng import Key, normal, uniform

FEATURES, CLASSES = 12, 3


def weights() -> np.ndarray:
    """`(CLASSES, FEATURES)` float32, multiples of 1/64: every product with a float32 input below is near exact."""
    drawn = normal(Key(3).child("weights").roots(torch.arange(CLASSES)), FEATURES)
    return (drawn * 64).round().div(64).numpy()


def data(count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Inputs `(count, FEATURES)` float32 in [0, 1], and their classes."""
    inputs = uniform(Key(5).child("inputs").roots(torch.arange(count)), FEATURES).numpy().astype(np.float32)
    return inputs, scores(inputs).argmax(axis=1)


def scores(batch: np.ndarray) -> np.ndarray:
    """Linear scores `(M, CLASSES)`, row by row, all classes equal in the middle of the cube."""
    result: np.ndarray = (batch.reshape(len(batch), -1) - np.float32(0.5)) @ weights().T
    return result


class Linear(nn.Module):
    """The same scores from torch; `seen` counts the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        with torch.no_grad():
            self.layer.weight.copy_(torch.from_numpy(weights()))
            self.layer.bias.copy_(-self.layer.weight.sum(dim=1) / 2)
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        result: Tensor = self.layer(x.flatten(1))
        return result


class Counting:
    """A function that counts the rows that it is given."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seen = function, 0

    def __call__(self, batch: np.ndarray) -> Any:
        self.seen += len(batch)
        return self.function(batch)


def onnx_session(
    weight: np.ndarray, bias: np.ndarray, rows: int | str = "rows", ending: str = "", kind: Any = None
) -> Any:
    """An ONNX Runtime session of a linear classifier on inputs `(rows, *S)`; `ending` "labels" takes the largest.

    Args:
        weight: `(K, d)`.
        bias: `(K,)`.
        rows: the size of a batch, or a name for any size.
        ending: "" for scores, "labels" for their argmax.
        kind: the type of the session, `onnxruntime.InferenceSession` or one that counts.
    """
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["scores"], transB=1)]
    output = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [rows, len(weight)])
    if ending == "labels":
        nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
        output = helper.make_tensor_value_info("label", TensorProto.INT64, [rows])
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, weight.shape[1]])],
        [output],
        [
            numpy_helper.from_array(weight.astype(np.float32), "w"),
            numpy_helper.from_array(bias.astype(np.float32), "b"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession if kind is None else kind
    return session(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
