"""What the searches of a batch know, and what they need not find out again.

From an even prior the same answers lead to the same question: where to ask next, when to stop and what was found are
functions of the answers so far. They are written down once, under these answers, for all images and iterations of a
run. A search that walks along known answers needs no posterior; where they end, the posterior is made up for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks.parts.effort import effort_table, floor_cost
from popskipjump.sigmoid import SigmoidPosterior, expected_sample_size, information, shared_grid

if TYPE_CHECKING:
    from popskipjump.attacks.parts.locate import BayesianSearch

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Answers = bytes  # of one image, 1 = adversarial

_MOST_KEPT = 50_000  # without noise a run has about 3,000 histories; with noise most of them never come again
_SAID = (b"\0", b"\1")
_LOOKS = 3  # of the stopping rule, until most searches without noise end


class Question(NamedTuple):
    """Where to ask after some answers."""

    place: int  # askable position of the grid
    rescaled: bool  # whether the weights were, before


class Look(NamedTuple):
    """What is known after some answers, for the stopping rule."""

    centre: float
    log_slope: float
    low: float
    high: float
    effort: float


class End(NamedTuple):
    """What else a search leaves behind that ends after some answers."""

    safe: float
    least: float  # effort


class Memory:
    """What was found out after which answers, for searches of one kind from an even prior."""

    def __init__(self) -> None:
        self.questions: dict[Answers, Question] = {}
        self.looks: dict[Answers, Look] = {}
        self.ends: dict[Answers, End] = {}
        self.decided = False  # whether to foresee

    @property
    def full(self) -> bool:
        """Whether nothing more should be written down."""
        return len(self.questions) + len(self.looks) + len(self.ends) >= _MOST_KEPT


class Knowledge:
    """What is known of each image of a search; images are numbered 0 .. A - 1, and anew when some leave.

    Args:
        config: the search.
        prior: of all images, if they have priors of their own; else it is even.
        images: A.
        memory: to walk along, and to write down in, where the prior is even.
    """

    def __init__(self, config: BayesianSearch, prior: SigmoidPosterior | None, images: int, memory: Memory) -> None:
        self._config, self._memory = config, memory
        self._grid = shared_grid(config.grid)
        self._answers: list[Answers] = [b""] * images
        self._even = prior is None
        self._learning = [] if prior is None else list(range(images))  # images with a posterior, in its order
        self._buffer = torch.empty(0) if prior is None else prior.weights  # (A, n, C), made when it is needed
        self.posterior = SigmoidPosterior(self._grid, self._buffer) if prior is None else prior

    def values(self) -> Floats:
        """How good a question each position is, for images with priors of their own: `(A, n - 1)`."""
        return self._values()[0]

    def places(self) -> list[int]:
        """The best question for each image."""
        known = self._memory.questions
        self._recall(range(len(self._answers)), known)
        places = [-1] * len(self._answers)
        if self._learning:
            value, small = self._values()
            keep = self._even and not self._memory.full
            for image, place, rescaled in zip(self._learning, value.argmax(axis=1).tolist(), small, strict=True):
                places[image] = place
                if keep:
                    known[self._answers[image]] = Question(place, rescaled)
        if len(self._learning) < len(places):
            for image, place in enumerate(places):
                if place < 0:
                    places[image] = known[self._answers[image]].place
        return places

    def learn(self, places: list[int], answers: list[bool]) -> None:
        """One answer for each image."""
        if self._learning:
            self.posterior.update([places[i] for i in self._learning], [answers[i] for i in self._learning])
        self._answers = [before + _SAID[now] for before, now in zip(self._answers, answers, strict=True)]

    def looks(self) -> list[Look]:
        """What the stopping rule looks at, for each image."""
        known = self._memory.looks if self._even else {}
        self._recall(range(len(self._answers)), known)
        fresh = {}
        if self._learning:
            belief = self.posterior.marginals()
            estimate = belief.mean() if self._config.estimate == "mean" else self.posterior.mode()
            effort = self._config.effort(self.posterior, belief, estimate)
            numbers = zip(*(values.tolist() for values in (*estimate, effort)), strict=True)
            fresh = {image: Look(*row) for image, row in zip(self._learning, numbers, strict=True)}
            if self._even and not self._memory.full:
                known |= {self._answers[image]: look for image, look in fresh.items()}
        return [fresh[i] if i in fresh else known[answers] for i, answers in enumerate(self._answers)]

    def ends(self, images: list[int]) -> list[End]:
        """What else some images leave behind."""
        known = self._memory.ends if self._even else {}
        missing = [image for image in images if self._answers[image] not in known]
        fresh = {}
        if missing:
            self._recall(missing, known)
            rows = torch.tensor([self._learning.index(image) for image in missing])
            belief = self.posterior.select(rows).marginals()
            safe = belief.centre_quantile(1 - self._config.confidence).tolist()
            least = self._config.at_least * floor_cost(belief.likely_floors().sum(dim=1))
            fresh = {image: End(*row) for image, *row in zip(missing, safe, least.tolist(), strict=True)}
            if self._even and not self._memory.full:
                known |= {self._answers[image]: end for image, end in fresh.items()}
        return [fresh[image] if image in fresh else known[self._answers[image]] for image in images]

    def select(self, stays: list[int]) -> None:
        """Go on with some of the images."""
        number = {image: new for new, image in enumerate(stays)}
        rows = [row for row, image in enumerate(self._learning) if image in number]
        if len(rows) < len(self._learning):
            self._buffer[: len(rows)] = self.posterior.weights[torch.tensor(rows, dtype=torch.int64)]
            self.posterior.weights = self._buffer[: len(rows)]
        self._learning = [number[image] for image in self._learning if image in number]
        self._answers = [self._answers[image] for image in stays]

    def _values(self) -> tuple[Floats, list[bool]]:
        """How good each question is `(L, n - 1)`, by row of the posterior, and whose weights were rescaled."""
        if self._config.acquisition == "information":
            value, total = information(self.posterior)
            small = self.posterior.rescale(total)
        else:
            small = self.posterior.rescale(self.posterior.weights.sum(dim=(1, 2)))
            sizes = expected_sample_size(self.posterior, effort_table(self._grid, self._config.spread))
            value = -sizes.to(torch.float32).numpy()
        return value, small.tolist()

    def _recall(self, images: Iterable[int], known: Container[Answers]) -> None:
        """Make up for the posteriors of those images that have none, and whose answers are not known."""
        if len(self._learning) == len(self._answers):
            return
        have = set(self._learning)
        missing = [i for i in images if self._answers[i] not in known and i not in have]
        if not missing:
            return
        answered = len(self._answers[0])  # all images have answered as often
        count = len(self._learning)
        if len(self._buffer) < len(self._answers):
            self._buffer = SigmoidPosterior.uniform(self._grid, len(self._answers)).weights
        for row, image in enumerate(missing, start=count):
            self._replay(self._buffer[row : row + 1], self._answers[image])
        self._learning += missing
        self.posterior = SigmoidPosterior(self._grid, self._buffer[: len(self._learning)], answered)

    def _replay(self, weights: Tensor, answers: Answers) -> None:
        """Learn known answers in the weights of one image `(1, n, C)`."""
        weights.copy_(SigmoidPosterior.uniform(self._grid, 1).weights)
        posterior = SigmoidPosterior(self._grid, weights)
        for number, said in enumerate(answers):
            question = self._memory.questions[answers[:number]]
            if question.rescaled:
                posterior.rescale(np.zeros(1, dtype=np.float32))
            posterior.update([question.place], [bool(said)])


def foresee(config: BayesianSearch, memory: Memory) -> None:
    """Search for a sharp border at every place, all in one go, and write down the way there.

    Without noise there are no other searches. A lone image comes to each of them by itself, and all of them together
    cost it less than a few on its own.
    """
    borders = range(config.grid.positions)
    knowledge = Knowledge(config, None, len(borders), memory)
    for _ in range(_LOOKS):
        for _ in range(config.check_every):
            places = knowledge.places()
            knowledge.learn(places, [place < border for place, border in zip(places, borders, strict=True)])
        knowledge.looks()
    knowledge.ends(list(borders))


def is_sharp(probes: Tensor) -> bool:
    """Whether all answers agree with borders without noise: int64 `(A, 2, P)`, see `Border.probes`."""
    asked, yes = probes.numpy().transpose(1, 0, 2)
    adversarial, other = yes > 0, asked > yes
    last = np.where(adversarial, np.arange(asked.shape[1]), -1).max(axis=1)
    first = np.where(other, np.arange(asked.shape[1]), asked.shape[1]).min(axis=1)
    return bool((last < first).all())
