"""A study: queries of an attack become questions to people, and their answers become labels."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Snapshot
from popskipjump.errors import InputError
from popskipjump.integrations.human.answers import (
    CATCH,
    CLASS,
    QUERY,
    SAME,
    SECOND,
    UNSURE,
    AnswerFile,
    Reply,
    is_answer,
    is_person,
)
from popskipjump.integrations.human.people import by_person, disagreement
from popskipjump.oracles import Ticket
from popskipjump.rng import Key, uniform

FILE = "answers.jsonl"
LEASE = 120.0  # seconds after which a question that nobody answered goes to another person
JITTER = 2.5 / 255  # of what is shown: beyond the rounding to 8 bits, below what an eye notices
MOST_PEOPLE = 1000

Draw = Callable[[np.ndarray], str | None]


@dataclass(frozen=True, eq=False)
class Material:
    """What a study asks about."""

    images: np.ndarray  # (B, *S) float32, the originals
    labels: np.ndarray  # (B,) int64
    starts: np.ndarray  # (B, *S) float32, pictures of another class
    bounds: tuple[float, float] = (0.0, 1.0)
    classes: Sequence[str] = ()  # names of the classes by number; empty offers no classes to choose from

    def __post_init__(self) -> None:
        if self.classes and int(self.labels.max()) >= len(self.classes):
            most = int(self.labels.max())
            raise InputError(f"there are {len(self.classes)} names of classes and a label {most}: name all classes.")

    def digest(self, **choices: Any) -> str:
        """A name for the study: it changes with all that its questions follow from."""
        total = hashlib.sha256(json.dumps({**choices, "bounds": self.bounds}, sort_keys=True).encode())
        for array in (self.images, self.labels, self.starts):
            total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()[:32]


@dataclass(eq=False)
class Question:
    """A picture in front of one person."""

    key: str  # unguessable: names the question to the page
    kind: str
    image: int
    serial: int
    point: np.ndarray  # (*S) as the attack asks it
    picture: str  # as it is shown: moved by the jitter, drawn
    person: str
    since: float


class Study:
    """An oracle whose labels are people's answers, each written down before it is used.

    "Same as the original" is the true class, "something else" a class of its own, a named class itself, and "can't
    tell" a coin that is tossed by the query's address: it says neither, so it must not speak for one. Replies that the
    file already holds are used without asking. Every person gets a catch trial now and then, the original or the start,
    and second opinions on what others have answered; the attack sees neither. May be used from several threads.

    Args:
        material: images and starts.
        folder: holds `answers.jsonl`.
        draw: a picture of an input as a data URI; None if it cannot be drawn.
        budget: questions of the attack for each image, for the page.
        name: see `Material.digest`.
        seed: of coins and jitter.
        catch_every, second_every: one in so many questions; 0 for none.
    """

    def __init__(
        self,
        material: Material,
        folder: Path,
        draw: Draw,
        budget: int,
        name: str,
        seed: int = 0,
        catch_every: int = 8,
        second_every: int = 6,
    ) -> None:
        if draw(material.images[0]) is None:
            raise InputError(
                f"people need pictures of shape (H, W), (1, H, W) or (3, H, W), not {material.images.shape[1:]}."
            )
        self.material, self.budget = material, budget
        self.device = torch.device("cpu")
        self.report: dict[str, Any] | None = None  # what the page shows at the end
        self._draw, self._key = draw, Key(seed).child("human")
        self._catch_every, self._second_every = catch_every, second_every
        self._change = threading.Condition()
        self._closed = False
        self._waiting: dict[tuple[int, int], np.ndarray] = {}  # queries without an answer -> points
        self._points: dict[tuple[int, int], np.ndarray] = {}  # queries of this process -> points
        self._open: dict[str, Question] = {}  # by person
        self._last: dict[str, str] = {}  # person -> the picture that was shown before
        self._best: dict[int, tuple[float, np.ndarray]] = {}
        self._file = AnswerFile(folder / FILE, name)
        self.replies: list[Reply] = list(self._file.known)
        self._answers = {(r.image, r.serial): r for r in reversed(self.replies) if r.kind == QUERY}

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`; waits for people as long as it takes. Raises KeyboardInterrupt when the study is closed."""
        if ticket.serial is None:
            raise InputError("a study needs numbered queries: ask it through a ledger.")
        keys = list(zip(ticket.image.tolist(), ticket.serial.tolist(), strict=True))
        values = points.detach().cpu().numpy().copy()
        with self._change:
            for key, point in zip(keys, values, strict=True):
                self._points[key] = point
                if key not in self._answers:
                    self._waiting[key] = point
            self._change.notify_all()
            while any(key in self._waiting for key in keys):
                if self._closed:
                    raise KeyboardInterrupt
                self._change.wait(1.0)
            return torch.tensor([self._label(self._answers[key]) for key in keys], dtype=torch.int64)

    def next(self, person: str) -> dict[str, Any]:
        """The next question for a person, as the page gets it; or that there is none, now or any more."""
        if not is_person(person):
            raise InputError("a pseudonym has 1 to 24 letters, digits, spaces, dots or hyphens.")
        with self._change:
            if self.report is not None or self._closed:
                return {"state": "done", "report": self.report}
            if person not in self._open and len(self._open) >= MOST_PEOPLE:
                raise InputError("too many people are at work.")
            question = self._open.get(person)
            if question is None or (question.kind == QUERY and (question.image, question.serial) not in self._waiting):
                self._open.pop(person, None)
                question = self._chosen(person)
            if question is None:
                return {"state": "wait", **self._progress()}
            self._open[person] = question
            image = question.image
            return {
                "state": "ask",
                "key": question.key,
                "picture": question.picture,
                "original": self._draw(self.material.images[image]),
                "start": self._draw(self.material.starts[image]),
                "classes": list(self.material.classes),
                "best": self._best_of(image),
                **self._progress(),
            }

    def answer(self, person: object, key: object, answer: object) -> bool:
        """Take an answer; False if the question is not open any more, so that nothing counts twice."""
        if not is_person(person) or not isinstance(key, str) or not is_answer(answer, len(self.material.classes)):
            raise InputError("this is not an answer to a question.")
        with self._change:
            question = self._open.get(str(person))
            if question is None or not secrets.compare_digest(question.key.encode(), key.encode("utf-8", "replace")):
                return False
            del self._open[str(person)]
            place = (question.image, question.serial)
            if question.kind == QUERY and place not in self._waiting:
                return False  # someone else was faster
            seconds = round(time.monotonic() - question.since, 3)
            reply = Reply(question.kind, *place, str(answer), str(person), seconds)
            self._file.append(reply)
            self.replies.append(reply)
            self._last[str(person)] = question.picture
            if question.kind == QUERY:
                self._answers[place] = reply
                del self._waiting[place]
                self._change.notify_all()
            return True

    def close(self) -> None:
        """End the study: whoever waits for answers is interrupted; the answers stay."""
        with self._change:
            if not self._closed:
                self._closed = True
                self._file.close()
            self._change.notify_all()

    def finish(self, report: dict[str, Any]) -> None:
        """The attack has ended: show this to everybody."""
        with self._change:
            self.report = report
            self._change.notify_all()

    def show_step(self, step: Snapshot) -> None:
        """For `Hooks.on_step`: the border that the attack has found so far is the current best on the page.

        Single answers would not do: one mistake at the original itself would be the best for ever.
        """
        with self._change:
            for image, distance, point in zip(step.image_id, step.border.distance, step.border.point, strict=True):
                shape = self.material.images.shape[1:]
                self._best[int(image)] = (float(distance), point.detach().cpu().numpy().reshape(shape))

    def people(self) -> dict[str, Any]:
        """Attention of each person, and the disagreement of all."""
        with self._change:
            replies = list(self.replies)
        return {"people": by_person(replies, self._is_right), "disagreement": disagreement(replies, self._is_other)}

    def _label(self, reply: Reply) -> int:
        truth = int(self.material.labels[reply.image])
        other = max(len(self.material.classes), int(self.material.labels.max()) + 1)
        if reply.answer == UNSURE:
            where = (torch.tensor([reply.image]), torch.tensor([reply.serial]))
            return truth if float(uniform(self._key.child("coin").roots(*where), 1)) < 0.5 else other
        if reply.answer.startswith(CLASS):
            return int(reply.answer.removeprefix(CLASS))
        return truth if reply.answer == SAME else other

    def _is_other(self, reply: Reply) -> bool:
        same = (SAME, f"{CLASS}{int(self.material.labels[reply.image])}")
        return reply.answer not in same

    def _is_right(self, reply: Reply) -> bool:
        return reply.answer != UNSURE and self._is_other(reply) == bool(reply.serial)

    def _chosen(self, person: str) -> Question | None:
        """What to ask a person next."""
        given = sum(reply.person == person for reply in self.replies)
        now = time.monotonic()
        taken = {(q.image, q.serial) for q in self._open.values() if q.kind == QUERY and now - q.since < LEASE}
        free = [key for key in self._waiting if key not in taken]
        if not free:
            return None  # a catch trial without a query in sight would be asked for ever
        if self._catch_every and given % self._catch_every == self._catch_every - 1:
            image, which = free[0][0], (given // self._catch_every) % 2
            point = (self.material.images, self.material.starts)[which][image]
            return self._question(person, CATCH, (image, which), point, given)
        if self._second_every and given % self._second_every == self._second_every - 1:
            mine = {(r.image, r.serial) for r in self.replies if r.person == person and r.kind != CATCH}
            others = [k for k, r in self._answers.items() if r.person != person and k in self._points and k not in mine]
            if others:
                key = others[given % len(others)]
                return self._question(person, SECOND, key, self._points[key], given)
        return self._question(person, QUERY, free[0], self._waiting[free[0]], given)

    def _question(self, person: str, kind: str, place: tuple[int, int], point: np.ndarray, given: int) -> Question:
        """A question whose picture differs from the one before."""
        picture = ""
        for attempt in range(16):
            key = self._key.child("shown", kind, given, attempt)
            root = key.roots(torch.tensor([place[0]]), torch.tensor([place[1]]))
            noise = (2 * uniform(root, point.size) - 1).numpy().reshape(point.shape)
            low, high = self.material.bounds
            moved = point + np.float32(JITTER * (high - low)) * noise
            moved = np.where(moved < low, 2 * low - moved, np.where(moved > high, 2 * high - moved, moved))
            picture = self._draw(moved.clip(low, high)) or ""
            if picture != self._last.get(person):
                break
        return Question(secrets.token_urlsafe(12), kind, *place, point, picture, person, time.monotonic())

    def _progress(self) -> dict[str, Any]:
        total = self.budget * len(self.material.images)
        return {"answered": len(self._answers), "left": max(0, total - len(self._answers)), "total": total}

    def _best_of(self, image: int) -> dict[str, Any] | None:
        best = self._best.get(image)
        return None if best is None else {"distance": round(best[0], 4), "picture": self._draw(best[1])}
