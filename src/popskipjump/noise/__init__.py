"""How answers become random, and what they are in the long run: one file for each way."""

from popskipjump.noise.cropping import Cropping
from popskipjump.noise.dropout import Dropout
from popskipjump.noise.ensemble import Ensemble
from popskipjump.noise.flip import Flip
from popskipjump.noise.logit_sampling import LogitSampling
from popskipjump.noise.parse import describe, noise_of
from popskipjump.noise.selection import correct_probability, truth_of
from popskipjump.noise.smoothing import Smoothing
from popskipjump.noise.truth import TrueNoise, Truth, monte_carlo

__all__ = [
    "Cropping",
    "Dropout",
    "Ensemble",
    "Flip",
    "LogitSampling",
    "Smoothing",
    "TrueNoise",
    "Truth",
    "correct_probability",
    "describe",
    "monte_carlo",
    "noise_of",
    "truth_of",
]
