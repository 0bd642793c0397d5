"""The paper's own numbers, as printed in its tables."""

from __future__ import annotations

from typing import NamedTuple

# Table 2: median, 40th and 60th percentile of the border distance, in units of 100 ||delta||_2^2 / d (errata E12)
DISTANCES = {
    ("PSJ", 0): (0.60, 0.45, 0.72),
    ("HSJ", 0): (0.61, 0.51, 0.72),
    ("HSJ-repeat3", 0): (0.59, 0.48, 0.72),
    ("BA", 0): (0.46, 0.38, 0.55),
    ("BA-repeat3", 0): (0.49, 0.36, 0.56),
    ("PSJ", 5): (0.63, 0.53, 0.76),
    ("HSJ", 5): (2.16, 1.76, 2.93),
    ("HSJ-repeat3", 5): (0.75, 0.58, 1.01),
    ("BA", 5): (15.58, 13.66, 16.94),
    ("BA-repeat3", 5): (15.60, 12.94, 16.73),
    ("PSJ", 10): (0.65, 0.55, 0.80),
    ("HSJ", 10): (3.67, 3.15, 4.26),
    ("HSJ-repeat3", 10): (1.32, 0.98, 1.61),
    ("BA", 10): (15.84, 14.35, 16.85),
    ("BA-repeat3", 10): (15.90, 14.24, 16.96),
}

# Table 3: median number of queries
QUERIES = {
    ("PSJ", 0): 14270,
    ("HSJ", 0): 12844,
    ("HSJ-repeat3", 0): 38532,
    ("BA", 0): 27560,
    ("BA-repeat3", 0): 82665,
    ("PSJ", 5): 17856,
    ("HSJ", 5): 13333,
    ("HSJ-repeat3", 5): 42009,
    ("BA", 5): 27561,
    ("BA-repeat3", 5): 82716,
    ("PSJ", 10): 17931,
    ("HSJ", 10): 13108,
    ("HSJ-repeat3", 10): 40813,
    ("BA", 10): 27551,
    ("BA-repeat3", 10): 82677,
}


class Brief(NamedTuple):
    """A cell of Table 1."""

    distance: float  # ||delta||_2^2 / d
    calls: float  # relative to PSJ's


# Table 1
BRIEF = {
    ("PSJ", 0): Brief(0.006, 1.0),
    ("HSJ", 0): Brief(0.006, 0.90),
    ("HSJ-repeat3", 0): Brief(0.005, 2.70),
    ("PSJ", 5): Brief(0.006, 1.0),
    ("HSJ", 5): Brief(0.022, 0.74),
    ("HSJ-repeat3", 5): Brief(0.007, 2.35),
    ("PSJ", 10): Brief(0.006, 1.0),
    ("HSJ", 10): Brief(0.036, 0.73),
    ("HSJ-repeat3", 10): Brief(0.013, 2.27),
}
