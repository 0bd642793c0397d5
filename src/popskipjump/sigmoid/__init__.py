"""The paper's sigmoid model, posterior, acquisition and sample sizes: pure functions of tensors, without queries."""

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
from popskipjump.sigmoid.sample_ratio import SampleSize, floor_cost, ratio_table, sample_ratio
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
    "SampleSize",
    "SigmoidPosterior",
    "answer_correlation",
    "deterministic_cosine",
    "entropy",
    "exact_information",
    "expected_cosine",
    "expected_ratio",
    "expected_sample_size",
    "floor_cost",
    "information",
    "information_by_table",
    "mutual_information",
    "noisy_sigmoid",
    "queries_for_cosine",
    "ratio_table",
    "sample_ratio",
    "shared_grid",
]
