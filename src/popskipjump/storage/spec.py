"""Specification of a run: everything that determines its results, as JSON, and the digest that identifies it."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from popskipjump.attacks import ATTACKS
from popskipjump.attacks.base import MOST_ITERATIONS
from popskipjump.attacks.protocols import PlansIterations
from popskipjump.errors import InputError
from popskipjump.noise import describe
from popskipjump.oracles.ledger import MOST_QUERIES
from popskipjump.oracles.wrappers import MOST_VOTES
from popskipjump.space import Space
from popskipjump.storage.attack_spec import AttackSpec
from popskipjump.types import Bounds

SCHEMA = 2  # raised when the files change their layout, or when an equal spec would give other results
DIGEST_LENGTH = 16  # hexadecimal digits of sha256 in a folder's name

# A name, never a path: no separator, no parent folder, nothing that steers a terminal.
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/\\\x00-\x1f\x7f]*$")]


class RunSpec(BaseModel):
    """Everything that the results of a run follow from; two runs with equal specs are one run.

    How many images are attacked is not part of it: a run's images are known by their ids, so that one can ask for 40
    and later for 200. `attack` also takes a name of `ATTACKS` or a configuration such as `PopSkipJump(per_step=5)`, and
    its iterations count unless `iterations` is given; `noise` also takes a noise model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = SCHEMA
    dataset: Literal["mnist", "cifar10", "file", "table", "given"] = "mnist"  # "given": passed from Python
    data: Name = "embedded"  # digest of images and labels
    model: Name = (
        "mnist-cnn"  # or "cifar-resnet20", "cifar-densenet121", "file.py:factory", a name of the user's choice
    )
    weights: Name = "embedded"  # digest of the model's weights, or the user's own word for the version of a function
    attack: AttackSpec = Field(default_factory=lambda: AttackSpec.of("psj"))
    noise: str | None = None  # as `noise_of` reads it
    votes: int = Field(default=1, ge=1, le=MOST_VOTES)
    norm: Literal["l2", "linf"] = "l2"
    # None: until the budget is spent, for attacks that can.
    iterations: int | None = Field(default=32, ge=0, le=MOST_ITERATIONS)
    budget: int | None = Field(default=None, ge=1, le=MOST_QUERIES)
    bounds: tuple[float, float] = (0.0, 1.0)  # smallest and largest value of an input coordinate
    stop_distance: float | None = Field(default=None, ge=0)  # an image is done once its point is this near
    # Images of other classes (of all the data), noise, or what the user gave: "pool:DIGEST", "given:DIGEST".
    starts: str = Field(default="pool", pattern=r"^(pool|noise|(pool|given):[0-9a-f]{32})$")
    # "next": the class after the true one; "given:DIGEST": an array of them; None: any other class.
    targets: str | None = Field(default=None, pattern=r"^(next|given:[0-9a-f]{32})$")
    seed: int = 0
    verdict: int = Field(default=0, ge=0, le=MOST_QUERIES)
    space: dict[str, Any] | None = None  # of valid inputs, as `Space.to_json` has it; `bounds` are those of the file
    mask: str | None = Field(default=None, pattern=r"^given:[0-9a-f]{32}$")  # digest of masks for each image

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
            if choices.get("budget") is not None and isinstance(attack, PlansIterations):
                return {**choices, "iterations": None}
            if is_dataclass(attack) and hasattr(attack, "iterations"):
                return {**choices, "iterations": attack.iterations}
        return choices

    @field_validator("attack", mode="before")
    @classmethod
    def _attack_of(cls, attack: Any) -> Any:
        return attack if isinstance(attack, AttackSpec | dict) else AttackSpec.of(attack)

    @field_validator("bounds", mode="before")
    @classmethod
    def _bounds_of(cls, bounds: Any) -> Any:
        return tuple(Bounds.of(tuple(bounds))) if isinstance(bounds, list | tuple) else bounds

    @field_validator("space", mode="before")
    @classmethod
    def _space_of(cls, space: Any) -> Any:
        return space if space is None else (space if isinstance(space, Space) else Space.from_json(space)).to_json()

    @field_validator("stop_distance")
    @classmethod
    def _finite(cls, distance: float | None) -> float | None:
        if distance is not None and not math.isfinite(distance):
            raise ValueError("must be finite")
        return distance

    @field_validator("noise", mode="before")
    @classmethod
    def _noise_of(cls, noise: Any) -> str | None:
        spelled = describe(noise)
        return None if spelled == "none" else spelled

    @property
    def text(self) -> str:
        """The spec as JSON in its one canonical form: equal specs have equal texts."""
        said = self.model_dump(mode="json")
        said = {name: value for name, value in said.items() if value is not None or name not in ("space", "mask")}
        return json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)

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
        parts += [] if self.iterations is None else [f"{self.iterations} iterations"]
        parts += [f"budget {self.budget:,}"] if self.budget is not None else []
        parts += [] if self.bounds == (0.0, 1.0) else [f"values {self.bounds[0]:g} to {self.bounds[1]:g}"]
        parts += [] if self.stop_distance is None else [f"until {self.stop_distance:g}"]
        parts += [] if self.space is None else [f"in a space of {Space.from_json(self.space).words}"]
        parts += ["targeted"] if self.targets is not None else []
        parts += [] if self.starts == "pool" else [f"starts from {self.starts.partition(':')[0]}"]
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
