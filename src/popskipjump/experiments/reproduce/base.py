"""Interface of an experiment of the paper: its runs, its table, its figure and its finding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor, nn

from popskipjump import BoundaryAttack, DirectionCount, HopSkipJump, Pool, PopSkipJump, QuickSkipJump, TorchModel
from popskipjump.errors import InputError
from popskipjump.experiments.reproduce.presets import Size
from popskipjump.runs.data import RunData

AttackConfig = PopSkipJump | HopSkipJump | BoundaryAttack | QuickSkipJump
Cell = str | float | int | None
Measured = Mapping[str, np.ndarray]
QSJ_BUDGET = 4_000  # queries of QSJ for each image: less than a third of what PSJ asks without noise
FEWEST = 5  # images that decide anything: the median of fewer moves with each of them
WhiteBoxAttack = Callable[[nn.Module, Tensor, Tensor, Tensor, int], Tensor]
"""From a module, images `(B, *S)`, labels `(B,)`, adversarial starts `(B, *S)` and a number of steps to points."""


@dataclass(frozen=True)
class Way:
    """One way to attack images: attack, noise on the answers, votes, budget. It names a run within a study."""

    attack: AttackConfig
    noise: str | None = None
    votes: int = 1
    budget: int | None = None


class Ask(NamedTuple):
    """A run that an experiment needs."""

    way: Way
    images: int


class Table(NamedTuple):
    """Rows for people and for programs."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]


class Finding(NamedTuple):
    """Whether the numbers support the paper's claim; None where they cannot tell."""

    supported: bool | None
    sentence: str


def is_heavy(noise: str | None) -> bool:
    """Whether PSJ may need a million queries under this noise."""
    return noise is not None and not noise.startswith("flip")


@dataclass(frozen=True)
class Setup:
    """What is attacked, and at what size."""

    dataset: str  # "mnist" or "cifar10"
    shape: tuple[int, ...]  # of one image
    size: Size
    has_dropout: bool = True  # whether dropout noise can act on the model
    count: int | None = None  # images, instead of the preset's

    @property
    def dimension(self) -> int:
        """D."""
        return int(np.prod(self.shape))

    def images(self, preset: int) -> int:
        """How many images, where the preset says `preset`."""
        return preset if self.count is None else self.count

    def levels(self) -> dict[str, tuple[str, ...]]:
        """The noise models that can act here, each with its levels from the weakest to the strongest."""
        known = self.size.levels
        side = self.shape[-1]
        spelled = {
            "logit sampling": tuple(f"logit:{level:g}" for level in known.temperatures),
            "dropout": tuple(f"dropout:{level:g}" for level in known.dropout),
            "smoothing": tuple(f"smoothing:{level:g}" for level in known.smoothing),
            "cropping": tuple(f"cropping:{side - level}" for level in known.cropped),
        }
        return {name: levels for name, levels in spelled.items() if name != "dropout" or self.has_dropout}

    def psj(self, noise: str | None = None, **changes: Any) -> Way:
        """PSJ; under noise that may need a million queries, with the preset's caps."""
        if is_heavy(noise):
            changes = {
                "count": DirectionCount(limit=self.size.most_directions),
                "search_limit": self.size.most_searched,
            } | changes
        return Way(PopSkipJump(**({"iterations": self.size.iterations} | changes)), noise)

    def hsj(self, noise: str | None = None, votes: int = 1, **changes: Any) -> Way:
        """HSJ, or HSJ-r."""
        return Way(HopSkipJump(**({"iterations": self.size.iterations} | changes)), noise, votes)

    def boundary(self, noise: str | None = None, votes: int = 1) -> Way:
        """The boundary attack, or BA-r."""
        return Way(BoundaryAttack(iterations=self.size.iterations, proposals=self.size.proposals), noise, votes)

    def qsj(self, noise: str | None = None) -> Way:
        """QSJ, our own attack, with a budget instead of a number of iterations."""
        return Way(QuickSkipJump(), noise, budget=QSJ_BUDGET)

    @property
    def capped(self) -> str:
        """What the caps of this size are, in words; empty without any."""
        if not self.size.is_capped:
            return ""
        return (
            f"PSJ under noise other than flips: at most {self.size.most_directions:,} directions an iteration and "
            f"{self.size.most_searched:,} queries a search"
        )


@dataclass(frozen=True, eq=False)
class Lab:
    """What an experiment may measure with, besides its runs."""

    setup: Setup
    model: TorchModel
    images: np.ndarray  # (N, *S) float32, the chosen ones, in their order
    labels: np.ndarray  # (N,) int64
    image_ids: np.ndarray  # (N,) int64
    pool: Pool | None
    seed: int = 0
    white_box: Mapping[str, WhiteBoxAttack] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Evidence:
    """All the numbers of an experiment."""

    setup: Setup
    runs: Mapping[Way, RunData]
    measured: Measured = field(default_factory=dict)

    def __getitem__(self, way: Way) -> RunData:
        """The run of one way."""
        if way not in self.runs:
            raise InputError(f"there is no run of {way}: it is not in the experiment's plan.")
        return self.runs[way]

    def images(self) -> str:
        """How many images there were, in words."""
        return in_words(self.counts())

    def counts(self) -> list[int]:
        """How many images the runs have, each number once, in order; those that check the caps do not count."""
        return sorted({len(run.image_ids) for way, run in self.runs.items() if not self._checks_caps(way)})

    def _checks_caps(self, way: Way) -> bool:
        capped = is_heavy(way.noise) and self.setup.size.is_capped
        return (
            isinstance(way.attack, PopSkipJump) and capped and way.attack.count.limit > self.setup.size.most_directions
        )


def in_words(counts: Sequence[int]) -> str:
    """Numbers of images, in order, for people."""
    if not counts:
        return "no image"
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} images"
    return f"{counts[0]} image{'s' if counts[0] != 1 else ''}"


class Experiment(ABC):
    """A table or figure of the paper."""

    name: str
    title: str
    claim: str
    needs_white_box = False

    def plan(self, setup: Setup) -> list[Ask]:
        """The runs it needs; none by default."""
        return []

    def measure(self, lab: Lab, runs: Mapping[Way, RunData]) -> dict[str, np.ndarray]:
        """What it needs besides; nothing by default."""
        return {}

    def notes(self, setup: Setup) -> list[str]:
        """What a reader must know of this size."""
        heavy = any(is_heavy(ask.way.noise) for ask in self.plan(setup) if isinstance(ask.way.attack, PopSkipJump))
        own = f"PSJ within its own limits: at most {setup.size.most_directions:,} directions an iteration"
        notes = [f"{setup.capped or own}."] if heavy else []
        if not setup.has_dropout and self.uses_levels:
            notes.append("The network has no dropout layers, so dropout noise is left out.")
        return notes

    uses_levels = False

    def sample(self, evidence: Evidence) -> list[int]:
        """How many images its parts looked at, in order; none if all answers were simulated."""
        return evidence.counts()

    def claims(self, evidence: Evidence) -> dict[int, bool | None]:
        """What the numbers say of the four claims of the introduction, by number; of those that are tested here."""
        return {}

    def reasons(self, evidence: Evidence) -> dict[int, str]:
        """What the answer to some of these claims hangs on, in a few words."""
        return {}

    def ours(self, evidence: Evidence) -> str:
        """What QSJ, our own attack, does in the same setting; nothing where no attack is compared."""
        return ""

    @abstractmethod
    def headline(self, evidence: Evidence) -> str:
        """What the figure shows, in one line."""

    @abstractmethod
    def table(self, evidence: Evidence) -> Table:
        """The numbers."""

    @abstractmethod
    def draw(self, evidence: Evidence) -> Figure:
        """The figure."""

    @abstractmethod
    def verdict(self, evidence: Evidence) -> Finding:
        """What the numbers say of the claim."""


def judged(experiment: Experiment, evidence: Evidence) -> tuple[Finding, dict[int, bool | None]]:
    """The verdict, and what it means for the claims of the introduction; a handful of images decides nothing."""
    finding, claims = experiment.verdict(evidence), experiment.claims(evidence)
    if min(experiment.sample(evidence), default=FEWEST) >= FEWEST:
        return finding, claims
    sentence = f"{finding.sentence} Fewer than {FEWEST} images decide nothing."
    return Finding(None, sentence), dict.fromkeys(claims)


def undecided_if_capped(setup: Setup, finding: Finding, stands: bool = False) -> Finding:
    """A claim that fails with capped queries has not been tested, unless the failure stands despite the caps."""
    if finding.supported is not False or not setup.capped or stands:
        return finding
    sentence = f"{finding.sentence} The queries were capped ({setup.capped}), so this does not refute it"
    return Finding(None, f"{sentence}; the same images with --no-caps would decide.")
