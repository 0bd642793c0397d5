"""Weights from safetensors files, checked before a model is changed.

Only safetensors is read: a pickled checkpoint can run code when it is opened. To convert one that you trust:
`safetensors.torch.save_file(torch.load("net.pt", weights_only=True), "net.safetensors")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from popskipjump.errors import DataError

Rename = Callable[[str], str] | Mapping[str, str]
ModuleT = TypeVar("ModuleT", bound=nn.Module)

PARALLEL_PREFIX = "module."  # what nn.DataParallel puts before every key
UNUSED_SUFFIX = "num_batches_tracked"  # a counter of training that no prediction reads; many files leave it out
SHOWN = 5  # keys listed in an error


def load_weights(module: ModuleT, path: str | Path, rename: Rename | None = None) -> ModuleT:
    """Fill a module with the weights of a safetensors file, every key and shape of which must fit.

    Args:
        module: the module to fill; its training or evaluation mode is left as it is.
        path: the safetensors file. A `module.` before all keys, as nn.DataParallel writes it, is taken off.
        rename: from the file's key to the module's (`densenet121_key` is one); keys that a mapping lacks stay.

    Returns:
        The same module.

    Raises:
        DataError: no such file, another format, or keys or shapes that do not fit; the module is unchanged then.
    """
    path = Path(path)
    weights = _renamed(_without_prefix(_read(path)), rename, path)
    own = module.state_dict()
    _check_keys(set(weights), set(own), type(module).__name__, path)
    _check_shapes(weights, own, type(module).__name__, path)
    # Not strict only for the counters above: all other keys have been checked.
    module.load_state_dict(weights, strict=False)
    return module


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise DataError(f"there is no weights file {path}. Check the path; it must name a safetensors file.")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, KeyError, OverflowError) as error:
        raise DataError(
            f"{path} is not a (complete) safetensors file ({error}). Convert a checkpoint that you trust with "
            'safetensors.torch.save_file(torch.load("net.pt", weights_only=True), "net.safetensors").'
        ) from error


def _without_prefix(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Only when all keys have it: a module may well own a child called `module`."""
    if all(key.startswith(PARALLEL_PREFIX) for key in weights):
        return {key.removeprefix(PARALLEL_PREFIX): value for key, value in weights.items()}
    return weights


def _renamed(weights: dict[str, Tensor], rename: Rename | None, path: Path) -> dict[str, Tensor]:
    if rename is None:
        return weights
    renamed: dict[str, Tensor] = {}
    for key, value in weights.items():
        new = rename.get(key, key) if isinstance(rename, Mapping) else rename(key)
        if new in renamed:
            raise DataError(f"`rename` gives two keys of {path} the name {new!r}, {key!r} being the second.")
        renamed[new] = value
    return renamed


def _check_keys(found: set[str], own: set[str], module: str, path: Path) -> None:
    missing = sorted(key for key in own - found if not key.endswith(UNUSED_SUFFIX))
    unexpected = sorted(found - own)
    both = (("missing", missing), ("unexpected", unexpected))
    parts = [f"{len(keys)} {what} ({_shown(keys)})" for what, keys in both if keys]
    if parts:
        raise DataError(
            f"the keys of {path} do not fit {module}: {' and '.join(parts)}. "
            "Pass the module that the file was made from (on the command line, --model), or `rename=` for other names."
        )


def _check_shapes(weights: dict[str, Tensor], own: dict[str, Tensor], module: str, path: Path) -> None:
    wrong = [
        f"{key} is {tuple(value.shape)}, not {tuple(own[key].shape)}"
        for key, value in weights.items()
        if value.shape != own[key].shape
    ]
    if wrong:
        raise DataError(
            f"{len(wrong)} of {len(weights)} shapes in {path} do not fit {module}: {_shown(wrong, '; ')}. "
            "Build the module with the sizes (classes, channels) that the file was made with."
        )


def _shown(items: list[str], joint: str = ", ") -> str:
    more = f"{joint}..." if len(items) > SHOWN else ""
    return joint.join(items[:SHOWN]) + more
