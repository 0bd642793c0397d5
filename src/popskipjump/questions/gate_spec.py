"""The committed file of a gate: what is measured, and its limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from popskipjump.errors import DataError, InputError
from popskipjump.runs.source import Source, source_of
from popskipjump.storage.spec import RunSpec, in_words


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SourcePart(_Part):
    """Which images and which model; paths are relative to the gate's file."""

    dataset: Literal["mnist", "cifar10", "file"] = "mnist"
    data: str | None = None  # folder or npz file
    model: str | None = None  # name of a network, or file.py:factory; the file is run
    weights: str | None = None  # safetensors file


class RunPart(_Part):
    """How it is attacked."""

    attack: str = "qsj"
    budget: int | None = Field(default=1000, ge=1)
    iterations: int | None = Field(default=None, ge=0)
    noise: str | None = None
    votes: int = Field(default=1, ge=1)
    norm: Literal["l2", "linf"] = "l2"
    seed: int = 0
    images: int = Field(default=50, ge=2)
    first: int = Field(default=0, ge=0)


class AccuracyLimit(_Part):
    """Robust accuracy at one size of the attack."""

    eta: float = Field(ge=0)
    at_least: float = Field(ge=0, le=1)


class Limits(_Part):
    """What must hold, each with the stated confidence."""

    confidence: float = Field(default=0.95, gt=0, lt=1)
    median_distance: float | None = Field(default=None, gt=0)  # at least
    median_over_baseline: float | None = Field(default=None, gt=0)  # at least; median of the paired ratios
    robust_accuracy: tuple[AccuracyLimit, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _as_tuple(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("robust_accuracy"), list):
            return {**values, "robust_accuracy": tuple(values["robust_accuracy"])}
        return values


class BaselinePart(_Part):
    """What to compare with: a file that `psj gate --write-baseline` made, or the folder of a run."""

    file: str


class GateSpec(_Part):
    """A whole file."""

    source: SourcePart = SourcePart()
    run: RunPart = RunPart()
    limits: Limits
    baseline: BaselinePart | None = None

    @model_validator(mode="after")
    def _some_limit(self) -> GateSpec:
        limits = self.limits
        if limits.median_distance is None and limits.median_over_baseline is None and not limits.robust_accuracy:
            raise ValueError("limits: name at least one of median_distance, median_over_baseline and robust_accuracy")
        if limits.median_over_baseline is not None and self.baseline is None:
            raise ValueError("limits: median_over_baseline needs a [baseline] with its file")
        return self

    def source_from(self, folder: Path) -> Source:
        """Read images and model; `folder` is that of the gate's file."""
        model = self.source.model
        if model is not None and ":" in model:
            file, _, factory = model.rpartition(":")
            model = f"{folder / file}:{factory}"
        data, weights = (None if p is None else folder / p for p in (self.source.data, self.source.weights))
        return source_of(self.source.dataset, data, model, weights)

    def run_spec(self, source: Source) -> RunSpec:
        """The run that the gate judges."""
        choices = self.run.model_dump(exclude={"images", "first", "iterations"})
        if self.run.iterations is not None:
            choices["iterations"] = self.run.iterations
        return source.spec(**choices)

    def image_ids(self, source: Source) -> list[int]:
        """Places of the images in the source."""
        last = self.run.first + self.run.images
        if last > len(source.images):
            raise InputError(
                f"the gate asks for images {self.run.first} to {last - 1}, and there are {len(source.images)}: lower "
                "`images` or `first`."
            )
        return list(range(self.run.first, last))


def read_gate(path: Path) -> GateSpec:
    """Read a gate's file: TOML, or JSON with the same content."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise InputError(f"the gate {path} cannot be read ({why}); docs/guide/gate.md shows one.") from error
    try:
        content = json.loads(text) if path.suffix == ".json" else _toml(text)
    except ValueError as error:
        raise DataError(f"{path} is not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}.") from error
    try:
        return GateSpec.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{path}: {in_words(error)}.") from error


def _toml(text: str) -> Any:
    try:
        import tomllib
    except ModuleNotFoundError as error:  # Python 3.10
        raise InputError("TOML needs Python 3.11: write the gate as a .json file with the same content.") from error
    return tomllib.loads(text)
