"""ONNX Runtime sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.adapters.classes import Names
from popskipjump.errors import InputError, OracleError
from popskipjump.oracles import FunctionModel
from popskipjump.oracles.classifier import labels_in

_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_WHOLE = {
    f"tensor({name})": np.dtype(name).type
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
}
# What exporters call the output that says the class, the best first.
_ANSWERS = ("label", "labels", "output_label", "logits", "scores", "probabilities", "output_probability")


class OnnxModel(FunctionModel):
    """A session with one input; its output are scores `(M, K)`, integer labels `(M,)`, or names of classes.

    A session that takes integers is asked about whole numbers alone: in a space with `integer=`.

    Args:
        session: an `onnxruntime.InferenceSession`.
        classes: the names of the classes, where the output holds names; None for scores and labels from 0.
        output: the name of the output to read; None reads the only one, or of several the one that has a usual name
            ("label", "logits", ...).
    """

    def __init__(
        self, session: Any, classes: Sequence[Any] | np.ndarray | None = None, output: str | None = None
    ) -> None:
        inputs, outputs = session.get_inputs(), session.get_outputs()
        if len(inputs) != 1:
            raise InputError(
                f"the ONNX session has {len(inputs)} inputs ({', '.join(i.name for i in inputs)}): pass a function "
                "that fills in the others."
            )
        read = _chosen(outputs, output)
        if inputs[0].type not in _TYPES | _WHOLE:
            raise InputError(
                f"the ONNX session takes {inputs[0].type}, not numbers: pass a function that converts its input."
            )
        self._answers = None if classes is None else Names(classes)
        self.names = self._answers  # those that labels are written with; None for integers
        if self._answers is None and read.type == "tensor(string)":
            raise InputError(
                f"the ONNX session answers with texts ({read.name!r}): pass "
                "adapters.OnnxModel(session, classes=[...]), with the classes in any order."
            )
        self.session = session
        self._input, self._output = inputs[0].name, [read.name]
        self._type = (_TYPES | _WHOLE)[inputs[0].type]
        self._shape = list(inputs[0].shape)
        fixed = self._shape[0] if self._shape else None
        self._rows = fixed if isinstance(fixed, int) else None  # some models are exported for one size of batch
        super().__init__(self._run, self._count(read) if self._answers is None else len(self._answers))

    @staticmethod
    def _count(read: Any) -> int | None:
        """The number of classes, where the output's declared shape says so."""
        is_scores = len(read.shape) == 2 and read.type in _TYPES
        return read.shape[1] if is_scores and isinstance(read.shape[1], int) else None

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise unless inputs `(M, *shape)` fit the session's declared shape."""
        wanted = self._shape[1:]
        fits = len(wanted) == len(shape) and all(
            w == s for w, s in zip(wanted, shape, strict=True) if isinstance(w, int)
        )
        if self._shape and not fits:
            raise InputError(f"the ONNX session takes inputs of the shape {tuple(wanted)}, and these have {shape}.")

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        batch = points.detach().cpu().numpy()
        if self._rows is None or self._rows == len(batch):
            return self._read(self._run(batch), len(batch))
        parts = [self._padded(batch[i : i + self._rows]) for i in range(0, len(batch), self._rows)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)

    def _padded(self, part: np.ndarray) -> Tensor:
        """The labels of a batch that is too small for the session, filled up with copies of its last row."""
        missing = (self._rows or 0) - len(part)
        full = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part
        return self._read(self._run(full), len(full))[: len(part)]

    def _run(self, batch: np.ndarray) -> Any:
        if issubclass(self._type, np.integer) and not bool((batch == np.rint(batch)).all()):
            raise OracleError(
                f"the ONNX session takes {self._type.__name__}, and was asked about numbers that are not whole: say "
                "which features are, as in space=Space(low, high, integer=range(D))."
            )
        return self.session.run(self._output, {self._input: np.ascontiguousarray(batch, self._type)})[0]

    def _read(self, answer: Any, count: int) -> Tensor:
        if self._answers is not None:
            return self._answers.answered(answer, count)
        if isinstance(answer, list) and answer and isinstance(answer[0], dict):  # a ZipMap: class -> probability
            answer = np.array([list(of_row.values()) for of_row in answer])
        return labels_in(answer, count)


def _chosen(outputs: Sequence[Any], output: str | None) -> Any:
    """The output to read: the named one, the only one, or the one with a usual name.

    Raises:
        InputError: there is none of this name, or several and none with a usual name; the first need not be the class.
    """
    known = {value.name: value for value in outputs}
    if output is not None and output not in known:
        raise InputError(f"the ONNX session has no output {output!r}, but {', '.join(known)}.")
    if output is not None or len(outputs) == 1:
        return outputs[0] if output is None else known[output]
    called = {name.rpartition("/")[2].lower(): value for name, value in reversed(known.items())}
    for name in _ANSWERS:
        if name in called:
            return called[name]
    raise InputError(
        f"the ONNX session has the outputs {', '.join(known)}: say which of them holds scores or labels, as in "
        f"adapters.OnnxModel(session, output={outputs[0].name!r})."
    )
