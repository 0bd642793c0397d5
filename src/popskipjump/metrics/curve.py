"""Distance as a function of queries, summarised over many images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from popskipjump.metrics.summary import summarise


class Curve(NamedTuple):
    """Summary over images of the value reached after a given number of queries."""

    queries: np.ndarray  # (Q,) per image
    median: np.ndarray  # (Q,); inf where most images have no value
    low: np.ndarray  # (Q,) 40th percentile
    high: np.ndarray  # (Q,) 60th percentile


def curve_over_queries(asked: np.ndarray, values: np.ndarray, places: int = 200) -> Curve:
    """Summary over images of the value that each had reached after equally many queries.

    The curve begins when every image has its first value and ends at the median number of queries of the images.

    Args:
        asked: `(T + 1, B)` cumulative queries at each iteration.
        values: `(T + 1, B)` value reached at each iteration, such as the distance.
        places: Q, number of points of the curve.
    """
    first = max(int(asked[0].max()), 1)
    last = max(int(np.median(asked[-1])), first + 1)
    queries = np.geomspace(first, last, places)
    images = np.arange(asked.shape[1])
    summaries = []
    for count in queries:
        latest = np.maximum((asked <= count + 0.5).sum(axis=0) - 1, 0)  # (B,) last iteration within `count`
        summaries.append(summarise(values[latest, images]))
    median, low, high = (np.array([s[i] for s in summaries]) for i in range(3))
    return Curve(queries, median, low, high)
