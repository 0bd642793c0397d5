"""Test of the caps on PSJ's queries: a few images are attacked again with several times the caps.

Under a cap, a distance that is too large has refuted nothing: more queries might have brought the point nearer. So PSJ
attacks some of the images again with `CAP_FACTOR` times the caps, under the noise that moves the border furthest: the
strongest cropping. The relief is the median distance under the caps over that under the wider caps. A "too far" stands
despite the caps if the distance would still be too large after a division by the upper end of the relief's interval.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from popskipjump import DirectionCount, PopSkipJump
from popskipjump.experiments.reproduce.base import Ask, Evidence, Setup, Way
from popskipjump.experiments.reproduce.numbers import Ratio, compare, queries, ratio, show, show_ratio
from popskipjump.experiments.reproduce.presets import CAP_FACTOR

CHECKED = "cropping"  # each model that is checked takes as long as all of its other runs


def checked_noises(setup: Setup) -> list[str]:
    """The strongest level of the model that is checked, if this size has caps and checks them."""
    if not (setup.size.is_capped and setup.size.cap_images):
        return []
    return [levels[-1] for name, levels in setup.levels().items() if name == CHECKED]


def wider(setup: Setup, noise: str) -> Way:
    """PSJ with `CAP_FACTOR` times the caps, and no more than its own limits."""
    directions = min(CAP_FACTOR * setup.size.most_directions, DirectionCount().limit)
    searched = min(CAP_FACTOR * setup.size.most_searched, PopSkipJump().search_limit)
    return setup.psj(noise, count=DirectionCount(limit=directions), search_limit=searched)


def cap_asks(setup: Setup, noises: list[str]) -> list[Ask]:
    """The runs of the check, of those noises that are checked."""
    images = min(setup.size.cap_images, setup.images(setup.size.images))
    return [Ask(wider(setup, noise), images) for noise in checked_noises(setup) if noise in noises]


def relief_of(evidence: Evidence, noise: str) -> Ratio | None:
    """The distance under the caps over that under the wider caps, on the same images; None if it was not checked."""
    way = wider(evidence.setup, noise)
    if noise not in checked_noises(evidence.setup) or way not in evidence.runs:
        return None
    far = evidence[way].border_distances
    return compare(evidence[evidence.setup.psj(noise)].border_distances[: len(far)], far)


def refuted_despite_caps(evidence: Evidence, found: Mapping[str, Ratio], limit: float) -> bool:
    """Whether one of some distances, by noise, is surely above a limit, whatever the caps cost."""
    return any(
        (relief := relief_of(evidence, noise)) is not None and value.low / max(1.0, relief.high) > limit
        for noise, value in found.items()
    )


def caps_in_words(evidence: Evidence) -> str:
    """What the check found; empty without one."""
    parts, count = [], 0
    for noise in checked_noises(evidence.setup):
        relief, way = relief_of(evidence, noise), wider(evidence.setup, noise)
        if relief is not None:
            count = len(evidence[way].image_ids)
            capped = float(np.median(evidence[evidence.setup.psj(noise)].attack_queries[:count]))
            asked = show(ratio(queries(evidence[way]).median, capped))
            parts.append(f"{noise}: {show_ratio(relief)} times with 1/{asked} of the queries")
    if not parts:
        return ""
    return (
        f"Check of the caps on {count} images: PSJ's distance under the caps, relative to that with {CAP_FACTOR} times "
        f"the caps: {'; '.join(parts)}."
    )
