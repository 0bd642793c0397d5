"""Extraction of labels and logits from the output formats of common frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from popskipjump.errors import OracleError

_DEPTH = 4  # nested containers that are opened at most


def logits_in(answer: Any, count: int, probability: bool = False) -> Tensor | None:
    """Logits `(count, K)`, K >= 2, from the output of a module; None if the output holds no logits.

    The function opens an object with `.logits` (Hugging Face), a dict with the key "logits" or with one entry, and a
    tuple or list (first entry). A binary classifier's single number per input is the logit of class 1.

    Args:
        answer: output of the module.
        count: number of inputs of the call.
        probability: whether a single number per input is the probability of class 1 instead of its logit.
    """
    found = opened(answer)
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim not in (1, 2):
        return None
    if found.shape[0] != count or (found.ndim == 2 and found.shape[1] == 0):
        return None
    if found.ndim == 2 and found.shape[1] > 1:
        return found
    one = found.reshape(count)
    if probability:
        tiny = torch.finfo(one.dtype).tiny
        return torch.stack([(1 - one).clamp(min=tiny).log(), one.clamp(min=tiny).log()], dim=1)
    return torch.stack([torch.zeros_like(one), one], dim=1)


def opened(answer: Any) -> Any:
    """The array inside the nested containers of a classifier's output; a list of numbers is left as it is."""
    for _ in range(_DEPTH):
        if isinstance(answer, Tensor | np.ndarray):
            break
        if getattr(answer, "logits", None) is not None:
            answer = answer.logits
        elif isinstance(answer, Mapping) and ("logits" in answer or len(answer) == 1):
            answer = answer.get("logits", next(iter(answer.values())))
        elif isinstance(answer, tuple | list) and answer and _holds_array(answer):
            answer = answer[0]
        else:
            break
    return answer


def _holds_array(answer: Sequence[Any]) -> bool:
    """Whether the first entry of a tuple or list is the answer to the whole batch, and not that to its first input."""
    first = answer[0]
    if isinstance(first, Mapping | tuple) or getattr(first, "logits", None) is not None:
        return True
    if isinstance(first, list):
        return bool(first) and _holds_array(first)
    axes = getattr(first, "ndim", 0)
    return axes > 1 or (axes == 1 and (isinstance(answer, tuple) or len(answer) == 1))


def is_one_probability(answer: Any, count: int) -> bool:
    """Whether the output holds one number for each of `count` inputs, all of them in the range of probabilities."""
    found = opened(answer)
    if not isinstance(found, Tensor) or not count or found.numel() != count:
        return False
    return bool(((found >= 0) & (found <= 1)).all())


def ends_in_sigmoid(module: nn.Module) -> bool:
    """Whether the last layer of a module, in the order of registration, is an `nn.Sigmoid`."""
    last = None
    for layer in module.modules():
        last = layer
    return isinstance(last, nn.Sigmoid)


def own_array(points: Tensor) -> np.ndarray:
    """A NumPy copy of the points that the caller may keep or change; NumPy allocates memory faster than torch."""
    array: np.ndarray = points.detach().cpu().numpy().copy()
    return array


def best_class(scores: np.ndarray, count: int) -> np.ndarray:
    """The class of the largest score in each row: floats `(count, K)`, K >= 2 -> int64 `(count,)`."""
    if scores.ndim != 2 or scores.shape[0] != count:
        raise OracleError(
            f"the classifier was given {count} inputs and returned scores of shape {scores.shape}; they must have the "
            f"shape ({count}, classes)."
        )
    if scores.shape[1] < 2:
        raise OracleError(
            "the classifier returned one score for each input, and whether it is a logit or a probability cannot be "
            "seen: pass a function that returns labels, such as `lambda x: (score(x)[:, 0] > 0.5).astype(int)`."
        )
    if count and (top := scores.max()) != top:  # true only for nan, which argmax would select
        raise OracleError("the classifier returned scores that are not numbers (nan).")
    best: np.ndarray = scores.argmax(axis=1)
    return best
