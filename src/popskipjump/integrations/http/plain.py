"""Servers with their own JSON format: a request template, and the path of the labels in the response."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from popskipjump.errors import InputError
from popskipjump.integrations.http.protocol import Part, Request, Signature, labels_from, parsed, unusable
from popskipjump.integrations.http.transport import Answer

BATCH, ONE = "$inputs", "$input"
_MOST_VALUES = 1_000_000


class PlainJson:
    """A request template and the place of the labels in the response.

    Args:
        request: any JSON value. The text "$inputs" in it stands for the batch as nested lists `(M, *S)`; "$input"
            stands for a single input `(*S)`, and then every request carries one.
        response: keys and positions with dots between them, and `*` for every item of a list:
            "predictions.*.class", "result.labels", "scores.*". It must lead to one integer, one name of `classes`, or
            one list of scores for each input. `null` in place of a label is a refusal.
        classes: the names of the classes in the order of their numbers, for servers that answer with names.
    """

    def __init__(self, request: Any, response: str, classes: Sequence[str] | None = None) -> None:
        text = json.dumps(request)
        holes = [word for word in (BATCH, ONE) if json.dumps(word) in text]
        if len(holes) != 1 or text.count(json.dumps(holes[0])) != 1:
            raise InputError(f'the request template must hold "{BATCH}" or "{ONE}" once, as a value of its own.')
        self._before, self._after = text.split(json.dumps(holes[0]))
        self.single = holes[0] == ONE
        self.path = response.split(".") if response else []
        self._numbers = None if classes is None else {name: place for place, name in enumerate(classes)}
        self._response, self._template = response, request

    def __repr__(self) -> str:
        return f"PlainJson({self._template!r}, {self._response!r})"

    @property
    def max_rows(self) -> int | None:
        """How many inputs a request may carry; None for no limit."""
        return 1 if self.single else None

    def request(self, part: Part, name: str, signature: Signature) -> Request:
        """The request for the labels of some rows; see `Endpoint`."""
        points = part.points.reshape(len(part.points), *signature.shape_of(part.points.shape[1:]))
        values = json.dumps((points[0] if self.single else points).astype(np.float64).tolist(), allow_nan=False)
        return Request((self._before + values + self._after).encode(), {"Content-Type": "application/json"})

    def labels(self, answer: Answer, count: int, name: str, signature: Signature) -> np.ndarray:
        """The labels of a response: int64 `(count,)`, negative where the server refuses to say."""
        found = _followed(parsed(answer.body), self.path)
        rows = found if isinstance(found, list) and not (self.single and _is_numbers(found)) else [found]
        if len(rows) != count:
            raise unusable(f"{count} labels were asked for, and there are {len(rows)}")
        if rows and isinstance(rows[0], list):
            try:
                scores = np.array(rows, dtype=np.float64) if all(map(_is_numbers, rows)) else np.empty(0)
            except (ValueError, OverflowError):
                scores = np.empty(0)
            return labels_from(scores, count)
        return np.array([self._number(row) for row in rows], dtype=np.int64)

    def _number(self, value: Any) -> int:
        """A label from one value; -1 for a refusal."""
        if value is None:
            return -1
        if self._numbers is not None and isinstance(value, str):
            if value not in self._numbers:
                raise unusable("it names a class that is not among `classes`")
            return self._numbers[value]
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 62) < value < 1 << 62:
            raise unusable("a label is neither a whole number nor a name of `classes`")
        return value


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)


def _followed(value: Any, path: Sequence[str]) -> Any:
    """What a path leads to."""
    for place, step in enumerate(path):
        if step == "*":
            if not isinstance(value, list) or len(value) > _MOST_VALUES:
                raise unusable(f"step {place + 1} of the response's path should meet a list")
            return [_followed(item, path[place + 1 :]) for item in value]
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step[:9]) < len(value):
            value = value[int(step[:9])]
        else:
            raise unusable(f"step {place + 1} of the response's path leads nowhere")
    return value
