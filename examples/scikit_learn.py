"""A scikit-learn pipeline with classes that have names, under attack.

pip install "popskipjump[sklearn]"
python examples/scikit_learn.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import popskipjump as psj

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def main(budget: int = 1000) -> psj.Report:
    """Five digits that the forest was not fitted on, with labels as the forest knows them."""
    digits = load_digits()
    pixels, names = digits.data, NAMES[digits.target]  # 8 x 8 pixels from 0 to 16
    forest = make_pipeline(MinMaxScaler(), RandomForestClassifier(50, random_state=0)).fit(pixels[:1500], names[:1500])
    pool = psj.Pool(pixels[:200], names[:200])
    return psj.evaluate(forest, pixels[-5:], names[-5:], "qsj", starts=pool, budget=budget, bounds=(0, 16))


if __name__ == "__main__":
    print(main())  # noqa: T201
