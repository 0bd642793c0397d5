"""A restricted reader of CIFAR-10's pickled dictionaries, which cannot run code.

A pickle is a program. Here it is not run: its operations are listed by `pickletools.genops`, and the few that
write down numbers, strings, lists, dictionaries and arrays of bytes are interpreted one by one. Names of Python
objects are only ever compared with those in `_CALLABLES`; nothing is imported, looked up or called.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from popskipjump.errors import DataError

_RECONSTRUCT, _ARRAY, _DTYPE, _ENCODE = "array maker", "array type", "dtype", "text encoder"
_CALLABLES = {  # the names in such files, and what each stands for
    "numpy.core.multiarray _reconstruct": _RECONSTRUCT,
    "numpy._core.multiarray _reconstruct": _RECONSTRUCT,
    "numpy ndarray": _ARRAY,
    "numpy dtype": _DTYPE,
    "_codecs encode": _ENCODE,  # how Python 3 writes bytes in protocol 2
}
_CONSTANTS: dict[str, bool | None] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINSTRING", "SHORT_BINSTRING"}
    | {"BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES"}
)
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class _Name:
    """A token for a known Python name; never the object itself."""

    role: str


@dataclass
class _Pending:
    """An object that a REDUCE operation announced and a BUILD operation fills."""

    role: str
    array: NDArray[np.uint8] | None = None


class _RefusedError(Exception):
    """An operation that no CIFAR-10 file contains."""


@dataclass
class _Reader:
    """State of the pickle machine: the stack, the positions of marks, and the memo."""

    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def step(self, name: str, argument: Any) -> None:
        """Interpret one operation."""
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self.stack.append(tuple(self._take(_TUPLES[name])))
        elif name in _STEPS:
            _STEPS[name](self, argument)
        else:
            raise _RefusedError(f"the operation {name}")

    def _take(self, count: int) -> list[Any]:
        """The top values, taken off; `pop` makes an empty stack an IndexError."""
        return [self.stack.pop() for _ in range(count)][::-1]

    def _since_mark(self) -> list[Any]:
        height = self.marks.pop()
        taken = self.stack[height:]
        del self.stack[height:]
        return taken

    def mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def new_dict(self, _: Any) -> None:
        self.stack.append({})

    def new_list(self, _: Any) -> None:
        self.stack.append([])

    def tuple_since_mark(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def put(self, index: int | None) -> None:
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def append(self, _: Any) -> None:
        self._extend(self._take(1))

    def appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, values: list[Any]) -> None:
        _expect(self.stack[-1], list).extend(values)

    def set_item(self, _: Any) -> None:
        self._update(self._take(2))

    def set_items(self, _: Any) -> None:
        self._update(self._since_mark())

    def _update(self, values: list[Any]) -> None:
        # Text keys only: hashing a tuple nested a million times would crash the interpreter.
        keys = [_text(key) for key in values[::2]]
        _expect(self.stack[-1], dict).update(zip(keys, values[1::2], strict=True))

    def name(self, spelling: str) -> None:
        if spelling not in _CALLABLES:
            raise _RefusedError(f"the name {spelling.replace(' ', '.')!r}")
        self.stack.append(_Name(_CALLABLES[spelling]))

    def name_from_stack(self, _: Any) -> None:
        module, name = self._take(2)
        self.name(f"{_text(module)} {_text(name)}")

    def reduce(self, _: Any) -> None:
        function, arguments = self._take(2)
        role = _expect(function, _Name).role
        if role == _ENCODE and len(arguments) == 2 and arguments[1] == "latin1":
            self.stack.append(arguments[0].encode("latin-1"))
        elif role == _RECONSTRUCT or (role == _DTYPE and _text(arguments[0]) == "u1"):
            self.stack.append(_Pending(role))
        else:
            raise _RefusedError(f"a call of the {role} with other arguments than CIFAR-10 needs")

    def build(self, _: Any) -> None:
        state = self.stack.pop()
        target = _expect(self.stack[-1], _Pending)
        if target.role == _DTYPE:  # the state says byte order and alignment, which single bytes do not have
            return
        _version, shape, dtype, by_column, content = state
        if _expect(dtype, _Pending).role != _DTYPE:
            raise _RefusedError("an array of another type than bytes")
        raw = content.encode("latin-1") if isinstance(content, str) else content
        target.array = np.frombuffer(raw, dtype=np.uint8).reshape(shape, order="F" if by_column else "C")


_STEPS: dict[str, Callable[[_Reader, Any], None]] = {
    "MARK": _Reader.mark,
    "EMPTY_DICT": _Reader.new_dict,
    "EMPTY_LIST": _Reader.new_list,
    "TUPLE": _Reader.tuple_since_mark,
    "BINPUT": _Reader.put,
    "LONG_BINPUT": _Reader.put,
    "MEMOIZE": _Reader.put,
    "BINGET": _Reader.get,
    "LONG_BINGET": _Reader.get,
    "APPEND": _Reader.append,
    "APPENDS": _Reader.appends,
    "SETITEM": _Reader.set_item,
    "SETITEMS": _Reader.set_items,
    "GLOBAL": _Reader.name,
    "STACK_GLOBAL": _Reader.name_from_stack,
    "REDUCE": _Reader.reduce,
    "BUILD": _Reader.build,
    "PROTO": lambda _reader, _version: None,
    "FRAME": lambda _reader, _length: None,
}


def read_pickled_dict(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR-10 batch file, without running it.

    Returns:
        Keys as text; values are numbers, strings, lists of them, or uint8 arrays.

    Raises:
        DataError: the file is damaged, or holds anything else.
    """
    reader = _Reader()
    position = 0
    try:
        for opcode, argument, at in pickletools.genops(path.read_bytes()):
            position = at or 0
            if opcode.name == "STOP":
                return _plain(_expect(reader.stack.pop(), dict))
            reader.step(opcode.name, argument)
    except _RefusedError as refusal:
        raise DataError(
            f"{path} contains {refusal} (byte {position}), which no CIFAR-10 file does: it was not executed. "
            "Take the original files, or save the images with np.savez and use `read_npz`."
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(
            f"{path} is not a complete CIFAR-10 batch (near byte {position}: {error}). Download it again."
        ) from error
    raise DataError(f"{path} ends without its last operation. Download it again.")


def _plain(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value.array if isinstance(value, _Pending) else value for key, value in raw.items()}


def _text(value: Any) -> str:
    """Python 2 strings arrive as text, Python 3 bytes as bytes."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(_expect(value, str))


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} belongs")
    return value
