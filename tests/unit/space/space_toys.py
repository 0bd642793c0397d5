"""A table with every kind of feature, and a model that writes down what it is asked."""

from __future__ import annotations

import numpy as np

import popskipjump as psj

# number, number, integer, ordered, one-hot (3), category (4), immutable
NAMES = ("length", "weight", "rooms", "grade", "red", "green", "blue", "town", "age")
WEIGHTS = np.array([2.0, -0.004, 0.3, 0.5, -0.6, 0.0, 0.9, 0.0, 0.05])
BY_TOWN = np.array([0.0, 0.7, -0.5, 1.1])
OFFSET = 6.0


def mixed_space(**rest: object) -> psj.Space:
    """Nine features, ten free coordinates of which one integer, one ordered, a one-hot group and a category."""
    rules: dict[str, object] = {
        "low": [0.0, 50.0, 1, 0, 0, 0, 0, 0, 18],
        "high": [2.0, 150.0, 9, 4, 1, 1, 1, 3, 90],
        "integer": ["rooms"],
        "ordered": {"grade": [0, 1, 2, 4]},
        "onehot": [("red", "green", "blue")],
        "categories": {"town": 4},
        "immutable": ["age"],
        "names": NAMES,
    }
    return psj.Space(**rules | rest)  # type: ignore[arg-type]


def mixed_rows(count: int, seed: int = 0) -> np.ndarray:
    """Valid rows, float32 `(count, 9)`."""
    draw = np.random.default_rng(seed)
    rows = np.stack(
        [
            draw.uniform(0, 2, count),
            draw.uniform(50, 150, count),
            draw.integers(1, 10, count),
            draw.choice([0, 1, 2, 4], count),
            *np.eye(3)[draw.integers(0, 3, count)].T,
            draw.integers(0, 4, count),
            draw.integers(18, 91, count),
        ],
        axis=1,
    )
    return rows.astype(np.float32)


def score(rows: np.ndarray) -> np.ndarray:
    """Linear but for the town: class 1 above 0."""
    return np.asarray(rows @ WEIGHTS + BY_TOWN[rows[:, 7].astype(int)] - OFFSET)


class Recording:
    """A function of rows that keeps everything it is asked."""

    def __init__(self) -> None:
        self.asked: list[np.ndarray] = []

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.asked.append(rows)
        return (score(rows.astype(np.float64)) > 0).astype(np.int64)

    @property
    def rows(self) -> np.ndarray:
        """All that was asked."""
        return np.concatenate(self.asked)
