"""What a run is: everything that its results follow from, as JSON, and the digest that names it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from popskipjump.attacks import ATTACKS
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise import describe

SCHEMA = 1  # raised when the files change their layout, or when an equal spec would give other results
DIGEST_LENGTH = 16  # hexadecimal digits of sha256 in a folder's name

_CLASSES: dict[str, type[Any]] = {name: kind for name, kind in ATTACKS.items() if isinstance(kind, type)}


class AttackSpec(BaseModel):
    """An attack's name and all of its arguments but the iterations, which are a choice of the run.

    All arguments are written out, also those left at their default: were a default to change, old runs would not be
    taken for new ones.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # of a configuration in `ATTACKS`: "psj", "hsj", ...
    arguments: dict[str, Any] = Field(default_factory=dict)

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
        known = {field.name for field in fields(_CLASSES[self.name])}
        if unknown := sorted(set(self.arguments) - known):
            raise UnknownNameError(f"argument of {self.name}", unknown[0], known)
        object.__setattr__(self, "arguments", _dumped(self.config()))
        return self

    def config(self, iterations: int | None = None) -> Any:
        """The configuration that this describes; None leaves the attack's own number of iterations."""
        config = _adapter(self.name).validate_json(json.dumps(self.arguments), strict=True)
        return config if iterations is None else replace(config, iterations=iterations)

    def changed(self) -> dict[str, Any]:
        """The arguments that differ from the defaults."""
        usual = _dumped(_CLASSES[self.name]())
        return {name: value for name, value in self.arguments.items() if value != usual[name]}

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self.arguments, sort_keys=True)))


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_CLASSES[name])


def _name_of(config: Any) -> str:
    for name, kind in _CLASSES.items():
        if type(config) is kind:
            return name
    known = ", ".join(kind.__name__ for kind in _CLASSES.values())
    raise InputError(f"only {known} can be kept in a run, not {config!r}.")


def _dumped(config: Any) -> dict[str, Any]:
    """All arguments but the iterations, as JSON has them, in the declared types (2 becomes 2.0 in a float)."""
    adapter = _adapter(_name_of(config))
    plain = adapter.validate_json(adapter.dump_json(config), strict=True)
    arguments: dict[str, Any] = adapter.dump_python(plain, mode="json", exclude={"iterations"})
    return arguments


class RunSpec(BaseModel):
    """Everything that the results of a run follow from; two runs with equal specs are one run.

    How many images are attacked is not part of it: a run's images are known by their ids, so that one can ask for 40
    and later for 200. `attack` also takes a name of `ATTACKS` or a configuration such as `PopSkipJump(per_step=5)`, and
    its iterations count unless `iterations` is given; `noise` also takes a noise model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = SCHEMA
    dataset: Literal["mnist", "cifar10", "file"] = "mnist"
    data: str = "embedded"  # digest of images and labels
    model: str = "mnist-cnn"  # or "cifar-resnet20", "cifar-densenet121", "file.py:factory"
    weights: str = "embedded"  # digest of the model's weights
    attack: AttackSpec = Field(default_factory=lambda: AttackSpec.of("psj"))
    noise: str | None = None  # as `noise_of` reads it
    votes: int = Field(default=1, ge=1)
    norm: Literal["l2", "linf"] = "l2"
    iterations: int = Field(default=32, ge=0)
    budget: int | None = Field(default=None, ge=1)
    starts: Literal["pool", "noise"] = "pool"  # images of other classes (of all the data), or noise
    targets: Literal["next"] | None = None  # "next": the class after the true one
    seed: int = 0
    verdict: int = Field(default=50, ge=0)

    def __init__(self, **choices: Any) -> None:
        try:
            super().__init__(**choices)
        except ValidationError as error:
            raise InputError(f"this cannot be the spec of a run: {in_words(error)}.") from error

    @model_validator(mode="before")
    @classmethod
    def _iterations_of_attack(cls, choices: Any) -> Any:
        if isinstance(choices, dict) and "iterations" not in choices:
            attack = choices.get("attack")
            if isinstance(attack, str) and attack in ATTACKS:
                attack = ATTACKS[attack]()
            if is_dataclass(attack) and hasattr(attack, "iterations"):
                return {**choices, "iterations": attack.iterations}
        return choices

    @field_validator("attack", mode="before")
    @classmethod
    def _attack_of(cls, attack: Any) -> Any:
        return attack if isinstance(attack, AttackSpec | dict) else AttackSpec.of(attack)

    @field_validator("noise", mode="before")
    @classmethod
    def _noise_of(cls, noise: Any) -> str | None:
        spelled = describe(noise)
        return None if spelled == "none" else spelled

    @property
    def text(self) -> str:
        """The spec as JSON in its one canonical form: equal specs have equal texts."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def digest(self) -> str:
        """What the run's folder is called."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:DIGEST_LENGTH]

    def __hash__(self) -> int:
        return hash(self.text)

    def but(self, **changes: Any) -> RunSpec:
        """The same spec with some fields changed, checked like a new one."""
        return RunSpec(**{**self.model_dump(), **changes})

    @property
    def attack_words(self) -> str:
        """The attack, its changed arguments and its votes, in a few words."""
        changed = ", ".join(f"{name}={_short(value)}" for name, value in self.attack.changed().items())
        votes = f", {self.votes} votes" if self.votes > 1 else ""
        return _printable(f"{self.attack.name}{f'({changed})' if changed else ''}{votes}")

    @property
    def words(self) -> str:
        """What is attacked, and how, in one line."""
        parts = [self.attack_words, f"noise {self.noise or 'none'}", f"{self.dataset}/{self.model}", self.norm]
        parts.append(f"{self.iterations} iterations")
        parts += [f"budget {self.budget:,}"] if self.budget is not None else []
        parts += ["targeted"] if self.targets is not None else []
        parts += ["starts from noise"] if self.starts == "noise" else []
        return _printable(", ".join([*parts, f"seed {self.seed}"]))


def _short(value: Any) -> str:
    """An argument for people: without the quotes and spaces of JSON."""
    return json.dumps(value, separators=(",", ":")).replace('"', "")


def _printable(text: str) -> str:
    """Without what could steer a terminal: a spec may come from anywhere."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def in_words(error: ValidationError) -> str:
    """What pydantic found, in one line."""
    found = ((".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, ").rstrip(".")) for e in error.errors())
    return "; ".join(f"{where}: {what}" if where else what for where, what in found)
