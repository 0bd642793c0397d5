"""A model from a user's own Python file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from popskipjump.errors import InputError


def made_by_user(place: str) -> Any:
    """What the factory in `file.py:factory` returns, or the model of that name. The file is run: it must be trusted."""
    file, colon, name = place.rpartition(":")
    if not colon or not name.isidentifier():
        raise InputError(f"--model must be spelled file.py:factory, not {place!r}.")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {path}: --model must be spelled file.py:factory.")
    try:
        module = _imported(path)
    except Exception as error:
        raise InputError(f"{path} cannot be imported: {_cause(error, path)}.") from error
    factory = getattr(module, name, None)
    if not isinstance(factory, type) and (isinstance(factory, nn.Module) or hasattr(factory, "predict")):
        return factory  # the model itself, instead of a function that makes it
    if not callable(factory):
        what = "does not define" if factory is None else "has something that cannot be called under"
        raise InputError(f"{path} {what} {name}: it must be a function without arguments that returns the model.")
    try:
        model = factory()
    except Exception as error:
        raise InputError(
            f"{name}() of {path} raised {_cause(error, path)}; it must return the model when called without arguments."
        ) from error
    if model is None:
        raise InputError(f"{name}() of {path} returned None: end it with `return` and the model.")
    return model


def _imported(path: Path) -> ModuleType:
    """Run the user's file as Python runs a script: with its own folder in reach of its imports."""
    spec = importlib.util.spec_from_file_location(f"psj_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: --model must be spelled file.py:factory.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and the like look their module up
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _cause(error: Exception, path: Path) -> str:
    """An error in one line, with the user's own line that it came from."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}".rstrip(".")
