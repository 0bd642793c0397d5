"""A small study for the tests of people: two grey pictures, and a simulated person who looks at what is shown."""

from __future__ import annotations

import base64
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from http_toys import serving
from present import present

import popskipjump as psj
from popskipjump.experiments.pictures import picture
from popskipjump.integrations.human import Material, Study
from popskipjump.integrations.human.server import application
from popskipjump.oracles import Oracle, Ticket
from popskipjump.rng import Key, uniform

SIDE = 8
TOKEN = "the-token-of-the-test"  # noqa: S105
BORDER = 0.5  # mean brightness at which a picture becomes "something else"


def material(images: int = 1) -> Material:
    """Dark originals (class 0) and a bright start (class 1)."""
    dark = 0.3 + 0.1 * uniform(Key(1).child("dark").roots(torch.arange(images)), SIDE * SIDE).numpy()
    originals = dark.reshape(images, 1, SIDE, SIDE).astype(np.float32)
    starts = np.clip(originals + 0.45, 0, 1).astype(np.float32)
    return Material(originals, np.zeros(images, dtype=np.int64), starts, classes=("dark", "bright"))


def study_in(folder: Path, budget: int = 40, images: int = 1, **options: Any) -> Study:
    return Study(material(images), folder, picture, budget, material(images).digest(budget=budget), **options)


def attack(oracle: Oracle, budget: int = 40, images: int = 1) -> psj.Report:
    """The attack of the tests: on people, or on whatever answers in their place."""
    what = material(images)
    return psj.evaluate(
        oracle,
        what.images,
        what.labels,
        "qsj",
        starts=what.starts,
        budget=budget,
        verdict=4,
        hooks=psj.Hooks(keep_interrupted=False, on_step=getattr(oracle, "show_step", None)),
    )


class Attacking(threading.Thread):
    """The attack on a study, beside the test."""

    def __init__(self, study: Study, **options: Any) -> None:
        super().__init__(daemon=True)
        self.study, self.options = study, options
        self.found: psj.Report | None = None
        self.start()

    @property
    def report(self) -> psj.Report:
        """What the attack has found, once it has ended."""
        return present(self.found)

    def run(self) -> None:
        try:
            self.found = attack(self.study, **self.options)
            self.study.finish({"images": 1})
        except KeyboardInterrupt:  # the study was closed
            pass


@contextmanager
def page_of(study: Study) -> Iterator[tuple[str, str]]:
    """The study's page: (its origin, the path of the token)."""
    allowed: list[str] = []

    class Late:  # the origin is known once the port is
        def __iter__(self) -> Iterator[str]:
            return iter(allowed)

    holder: dict[str, Callable[..., Any]] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await holder["app"](scope, receive, send)

    with serving(app) as origin:
        allowed.append(origin)
        holder["app"] = application(study, TOKEN, Late())
        yield origin, f"{origin}/{TOKEN}/"


def pixels(uri: str) -> np.ndarray:
    """The grey values of a PNG as the page shows it, in [0, 1]: `(H, W)`."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    place, data, size = 8, b"", (0, 0)
    while place < len(content):
        length, kind = struct.unpack(">I4s", content[place : place + 8])
        body = content[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        data += body if kind == b"IDAT" else b""
        place += 12 + length
    rows = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(size[1], -1)
    return rows[:, 1:].reshape(size[1], size[0]) / 255


class Person:
    """Says what a picture shows by its mean brightness, and is wrong in a share of the answers."""

    def __init__(self, mistakes: float = 0.1, seed: int = 0) -> None:
        self.mistakes, self.key, self.given = mistakes, Key(seed).child("person"), 0

    def says(self, brightness: float) -> str:
        wrong = float(uniform(self.key.child(self.given).root(), 1)) < self.mistakes
        self.given += 1
        return "other" if (brightness > BORDER) != wrong else "same"


class InProcess:
    """The replies of a study as an oracle, without page or people: label by address."""

    def __init__(self, replies: Any) -> None:
        self.labels = {(r.image, r.serial): 0 if r.answer == "same" else 2 for r in replies if r.kind == "query"}

    def ask(self, points: torch.Tensor, ticket: Ticket) -> torch.Tensor:
        places = zip(ticket.image.tolist(), present(ticket.serial).tolist(), strict=True)
        return torch.tensor([self.labels[place] for place in places])
