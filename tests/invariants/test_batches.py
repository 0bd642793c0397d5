"""How the queries reach the classifier: in calls of a bounded size, and without the images that are done."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from invariant_toys import Linear, Watch, images_of
from torch import Tensor

from popskipjump import Classifier, DirectionCount, HopSkipJump, Plane, PopSkipJump, evaluate
from popskipjump.noise import Flip
from popskipjump.oracles import BaseModel, Ticket
from popskipjump.rng import Key, normal, uniform

MOST_ROWS = 2048
MOST_BYTES = 64 << 20


class Measured:
    """A model that keeps the size of every call."""

    def __init__(self, model: BaseModel) -> None:
        self.model, self.device, self.classes = model, model.device, model.classes
        self.calls: list[tuple[int, int]] = []  # rows, bytes

    def labels(self, points: Tensor) -> Tensor:
        self.calls.append((len(points), points.numel() * points.element_size()))
        return self.model.labels(points)


class Calls(Watch):
    """An oracle that also keeps who was asked about in every call."""

    def __init__(self, oracle: Classifier, once: bool = False) -> None:
        super().__init__(oracle)
        self.once = once  # keep only the calls that ask about each image once, as searches do
        self.images: list[list[int]] = []

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        if len(ticket.image) == len(ticket.image.unique()) or not self.once:
            self.images.append(ticket.image.unique().tolist())
        return super().ask(points, ticket)


@pytest.mark.parametrize(
    "attack", [PopSkipJump(count=DirectionCount(3000)), HopSkipJump(count=DirectionCount(3000)), "boundary"]
)
def test_no_call_has_more_than_2048_rows(attack: str) -> None:
    images = images_of(600)
    model = Measured(Linear())
    evaluate(Classifier(model), images, model.labels(images), attack, iterations=1, verdict=5)
    asked = model.calls[1:]  # the labels were the test's own call
    assert max(rows for rows, _ in asked) <= MOST_ROWS
    assert max(rows for rows, _ in asked) >= 512  # and calls are large, or nothing would be shown


@pytest.mark.slow
def test_no_call_on_large_images_has_more_than_64_megabytes() -> None:
    d = 3 * 224 * 224
    plane = Plane(normal(Key(0).root(), d).squeeze(0), 0.0)
    images = uniform(Key(1).roots(torch.arange(2)), d)
    model = Measured(plane)
    evaluate(Classifier(model), images, plane.labels(images), "psj", iterations=1, verdict=200)
    assert max(size for _, size in model.calls) <= MOST_BYTES
    assert max(rows for rows, _ in model.calls) > 20


def test_an_image_that_is_done_is_not_asked_about_again() -> None:
    images = images_of(6)
    model = Linear()
    far = evaluate(Classifier(model), images, model.labels(images), "psj", iterations=6, verdict=0)
    enough = float(np.median(far.trace.distance[2]))
    calls = Calls(Classifier(model))
    report = evaluate(calls, images, model.labels(images), "psj", iterations=6, verdict=0, stop_distance=enough)
    early = [row for row, status in enumerate(report.status) if status.name == "CLOSE_ENOUGH"]
    assert 0 < len(early) < 6
    for row in early:
        asked = report.trace.queries[:, row]
        left = int((asked == asked[-1]).to(torch.int8).argmax())  # the iteration with its last query
        assert left < 6
        walk = calls.images[:-2]  # the last two calls confirm the points of all images
        assert max(number for number, who in enumerate(walk) if row in who) < len(walk) - 1
        assert report.queries[row] < far.queries[row]


def test_images_leave_a_search_when_they_have_settled() -> None:
    images = images_of(12)
    model = Linear()
    calls = Calls(Classifier(model, Flip(0.1)), once=True)
    report = evaluate(calls, images, model.labels(images), "psj", iterations=0, verdict=0)
    searched = report.queries_by_phase["search"]
    assert len(set(searched.tolist())) > 1
    sizes = [len(who) for who in calls.images][-int(searched.max()) :]  # one call for each step of the search
    assert sizes[-1] < sizes[0] == 12
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == searched.sum()
