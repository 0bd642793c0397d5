"""Serialisation of an attack to JSON: its name, all of its arguments, and its parts with their kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic import Field as Default

from popskipjump.attacks import ATTACKS, PARTS
from popskipjump.errors import InputError, UnknownNameError

_CLASSES: dict[str, type[Any]] = {name: kind for name, kind in ATTACKS.items() if isinstance(kind, type)}
_KIND = "kind"
_HINTS: dict[type[Any], dict[str, Any]] = {}
_ADAPTERS: dict[tuple[type[Any], str], TypeAdapter[Any]] = {}
_DEEPEST = 8  # parts within parts; the deepest of ours is 3


class AttackSpec(BaseModel):
    """An attack's name and all of its arguments but the iterations, which are a choice of the run.

    All arguments are written out, also those left at their default: were a default to change, old runs would not be
    taken for new ones. A part is written with its kind, so that any composition of our parts can be kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # of a configuration in `ATTACKS`: "psj", "hsj", ...
    arguments: dict[str, Any] = Default(default_factory=dict)

    @classmethod
    def of(cls, attack: Any) -> AttackSpec:
        """From one of the names of `ATTACKS`, or from a configuration such as `PopSkipJump(per_step=5)`."""
        if isinstance(attack, str):
            if attack not in ATTACKS:
                raise UnknownNameError("attack", attack, ATTACKS)
            attack = ATTACKS[attack]()
        return cls(name=_name_of(attack), arguments=_dumped(attack))

    @model_validator(mode="after")
    def _complete(self) -> AttackSpec:
        """Arguments in their one full form: defaults filled in, numbers of the declared types."""
        if self.name not in _CLASSES:
            raise UnknownNameError("attack", self.name, _CLASSES)
        object.__setattr__(self, "arguments", _dumped(self.config()))
        return self

    def config(self, iterations: int | None = None) -> Any:
        """The configuration that this describes; None leaves the attack's own number of iterations."""
        config = _built(_CLASSES[self.name], self.arguments, self.name, _DEEPEST)
        return config if iterations is None else replace(config, iterations=iterations)

    def changed(self) -> dict[str, Any]:
        """The arguments that differ from the defaults."""
        usual = _dumped(_CLASSES[self.name]())
        return {name: value for name, value in self.arguments.items() if value != usual[name]}

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self.arguments, sort_keys=True)))


def _name_of(config: Any) -> str:
    for name, kind in _CLASSES.items():
        if type(config) is kind:
            return name
    known = ", ".join(kind.__name__ for kind in _CLASSES.values())
    raise InputError(f"only {known} can be kept in a run, not {config!r}.")


def _dumped(config: Any) -> dict[str, Any]:
    """All arguments but the iterations, as JSON has them, in the declared types (2 becomes 2.0 in a float)."""
    arguments = _arguments(config)
    arguments.pop("iterations", None)
    return arguments


def _arguments(value: Any) -> dict[str, Any]:
    """The arguments of a configuration or part, as JSON has them."""
    kind = type(value)
    return {field.name: _plain(kind, field, getattr(value, field.name)) for field in _settable(kind)}


def _plain(kind: type[Any], field: Field[Any], value: Any) -> Any:
    """One argument, as JSON has it."""
    if value is None or not _holds_part(kind, field.name):
        adapter = _adapter(kind, field.name)
        plain = adapter.validate_json(adapter.dump_json(value), strict=True)
        return adapter.dump_python(plain, mode="json")
    name = type(value).__name__
    if PARTS.get(name) is not type(value):
        raise InputError(
            f"{kind.__name__}.{field.name} is {value!r}, which is no part of this package and cannot be kept in a run. "
            f"Choose one of {', '.join(PARTS)}, or attack without a run folder."
        )
    return {_KIND: name, **_arguments(value)}


def _built(kind: type[Any], arguments: Any, where: str, depth: int) -> Any:
    """A configuration or part from its arguments."""
    if not isinstance(arguments, Mapping) or not depth:
        raise InputError(f"{where}: the arguments of {kind.__name__} must be an object of names and values.")
    known = {field.name for field in _settable(kind)}
    if unknown := sorted(set(map(str, arguments)) - known - {_KIND}):
        raise UnknownNameError(f"argument of {where}", unknown[0], known)
    values = {
        name: _value(kind, name, value, f"{where}.{name}", depth) for name, value in arguments.items() if name != _KIND
    }
    return kind(**values)


def _value(kind: type[Any], name: str, value: Any, where: str, depth: int) -> Any:
    """One argument from its JSON."""
    if value is not None and _holds_part(kind, name):
        if not isinstance(value, Mapping) or value.get(_KIND) not in PARTS:
            raise UnknownNameError(f"part for {where}", str(value)[:80], PARTS)
        return _built(PARTS[value[_KIND]], value, where, depth - 1)
    try:
        return _adapter(kind, name).validate_json(json.dumps(value, allow_nan=False), strict=True)
    except (ValidationError, ValueError) as error:
        raise InputError(f"{where} cannot be {str(value)[:80]!r}.") from error


def _settable(kind: type[Any]) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init]


def _holds_part(kind: type[Any], name: str) -> bool:
    """Whether an argument is a part: a protocol or a dataclass, perhaps optional."""
    hint = _hints(kind)[name]
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = [get_origin(option) or option for option in options if option is not NoneType]
    return any(isinstance(option, type) and (is_dataclass(option) or _is_protocol(option)) for option in plain)


def _is_protocol(kind: type[Any]) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _hints(kind: type[Any]) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def _adapter(kind: type[Any], name: str) -> TypeAdapter[Any]:
    if (kind, name) not in _ADAPTERS:
        _ADAPTERS[kind, name] = TypeAdapter(Any if _holds_part(kind, name) else _hints(kind)[name])
    return _ADAPTERS[kind, name]
