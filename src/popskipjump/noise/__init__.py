"""Noise models of randomised classifiers: each draws noisy labels and gives, or estimates, their distribution."""

from popskipjump.noise.cropping import Cropping
from popskipjump.noise.defences import BitDepth, BoundaryDefence, FeatureNoise, Jpeg, RandomNoise, ResizePad, Switching
from popskipjump.noise.dropout import Dropout
from popskipjump.noise.ensemble import Ensemble
from popskipjump.noise.flip import Flip
from popskipjump.noise.logit_sampling import LogitSampling
from popskipjump.noise.parse import describe, noise_of
from popskipjump.noise.selection import correct_probability, truth_of
from popskipjump.noise.smoothing import Smoothing
from popskipjump.noise.truth import KnownNoise, LabelDistribution, monte_carlo

__all__ = [
    "BitDepth",
    "BoundaryDefence",
    "Cropping",
    "Dropout",
    "Ensemble",
    "FeatureNoise",
    "Flip",
    "Jpeg",
    "KnownNoise",
    "LabelDistribution",
    "LogitSampling",
    "RandomNoise",
    "ResizePad",
    "Smoothing",
    "Switching",
    "correct_probability",
    "describe",
    "monte_carlo",
    "noise_of",
    "truth_of",
]
