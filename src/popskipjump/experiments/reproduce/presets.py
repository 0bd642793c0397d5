"""Sizes of a reproduction: seconds, an hour, or the paper's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from popskipjump import DirectionCount, PopSkipJump


@dataclass(frozen=True)
class Levels:
    """Levels of every noise model, from the weakest to the strongest.

    The figures that name the paper's own are not in its text; these span the same range, up to sampling from the
    logits themselves (T = 1) and to the crop that the paper chose its images with.
    """

    temperatures: tuple[float, ...]
    dropout: tuple[float, ...]
    smoothing: tuple[float, ...]
    cropped: tuple[int, ...]  # pixels taken off each side length


@dataclass(frozen=True)
class Size:
    """A preset.

    Args:
        name: of the preset.
        table_images: of the three tables.
        images: of the other experiments.
        votes_images: of HSJ with many votes.
        timed_images: of what is timed.
        iterations: T.
        proposals: of the boundary attack in each iteration; 780 are as published.
        levels: of the noise models.
        most_directions: cap of n_t under noise other than flips.
        most_searched: cap of the queries of one search under such noise.
        votes: how often HSJ-r repeats a question, in growing order.
        votes_temperatures: noise levels of the comparison with HSJ-r.
        radii: how many, from 1/d to 1.
        white_box_steps: of the Brendel-Bethge attack.
        cosine_trials: repetitions of each Monte Carlo estimate.
        cap_images: that check the caps: PSJ attacks them with `CAP_FACTOR` times the caps, too. 0 for no check.
    """

    name: str
    table_images: int
    images: int
    votes_images: int
    timed_images: int
    iterations: int
    proposals: int
    levels: Levels
    most_directions: int
    most_searched: int
    votes: tuple[int, ...]
    votes_temperatures: tuple[float, ...]
    radii: int
    white_box_steps: int
    cosine_trials: int
    cap_images: int = 0

    @property
    def is_capped(self) -> bool:
        """Whether PSJ has less than its own limits under noise other than flips."""
        return self.most_directions < DirectionCount().limit or self.most_searched < PopSkipJump().search_limit

    def without_caps(self) -> Size:
        """The same with PSJ's own limits, so that a claim can be refuted; it may take ten times as long."""
        if not self.is_capped:
            return self
        directions, searched = DirectionCount().limit, PopSkipJump().search_limit
        name = f"{self.name}, no caps"
        return replace(self, name=name, most_directions=directions, most_searched=searched, cap_images=0)


CAP_FACTOR = 4  # how many times the caps the check of the caps allows
QUICK = Size(
    name="quick",
    table_images=8,
    images=8,
    votes_images=5,
    timed_images=3,
    iterations=32,
    proposals=200,
    levels=Levels((0.1, 1.0), (0.1, 0.5), (0.05, 0.2), (2, 6)),
    most_directions=1_000,
    most_searched=100,
    votes=(1, 3, 9),
    votes_temperatures=(0.1, 1.0),
    radii=5,
    white_box_steps=200,
    cosine_trials=40,
)
DEFAULT = Size(
    name="default",
    table_images=50,
    images=16,
    votes_images=8,
    timed_images=8,
    iterations=32,
    proposals=780,
    levels=Levels((0.1, 0.3, 1.0), (0.1, 0.3, 0.5), (0.05, 0.1, 0.2), (2, 4, 6)),
    most_directions=5_000,
    most_searched=300,
    votes=(1, 3, 9, 27),
    votes_temperatures=(0.01, 0.1, 1.0),
    radii=7,
    white_box_steps=1_000,
    cosine_trials=200,
)
DECIDE = Size(
    name="decide",
    table_images=200,
    images=100,
    votes_images=100,
    timed_images=20,
    iterations=32,
    proposals=200,
    levels=QUICK.levels,
    most_directions=1_000,
    most_searched=100,
    votes=(1, 3, 9),
    votes_temperatures=(0.1, 1.0),
    radii=5,
    white_box_steps=200,
    cosine_trials=200,
    cap_images=20,
)
PAPER = Size(
    name="paper",
    table_images=500,
    images=500,
    votes_images=500,
    timed_images=20,
    iterations=32,
    proposals=780,
    levels=Levels(
        (0.01, 0.03, 0.1, 0.3, 1.0), (0.1, 0.2, 0.3, 0.4, 0.5), (0.02, 0.05, 0.1, 0.15, 0.2), (1, 2, 3, 4, 6)
    ),
    most_directions=50_000,
    most_searched=1_000,
    votes=(1, 3, 9, 27, 81, 243),
    votes_temperatures=(0.01, 0.03, 0.1, 0.3, 1.0),
    radii=9,
    white_box_steps=1_000,
    cosine_trials=1_000,
)
