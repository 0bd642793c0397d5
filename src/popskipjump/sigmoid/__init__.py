"""The paper's mathematics: tensors in, tensors out, no oracle."""

from popskipjump.sigmoid.acquisition import (
    exact_information,
    expected_ratio,
    expected_sample_size,
    information,
    information_by_table,
    mutual_information,
)
from popskipjump.sigmoid.model import Grid, entropy, noisy_sigmoid, shared_grid
from popskipjump.sigmoid.posterior import Estimate, Marginals, SigmoidPosterior
from popskipjump.sigmoid.sample_size import (
    answer_correlation,
    deterministic_cosine,
    expected_cosine,
    queries_for_cosine,
)

__all__ = [
    "Estimate",
    "Grid",
    "Marginals",
    "SigmoidPosterior",
    "answer_correlation",
    "deterministic_cosine",
    "entropy",
    "exact_information",
    "expected_cosine",
    "expected_ratio",
    "expected_sample_size",
    "information",
    "information_by_table",
    "mutual_information",
    "noisy_sigmoid",
    "queries_for_cosine",
    "shared_grid",
]
