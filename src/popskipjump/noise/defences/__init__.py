"""Randomized defences of the literature, as noise models: one file for each."""

from popskipjump.noise.defences.bit_depth import BitDepth
from popskipjump.noise.defences.boundary import BoundaryDefence
from popskipjump.noise.defences.features import FeatureNoise
from popskipjump.noise.defences.jpeg import Jpeg
from popskipjump.noise.defences.random_noise import RandomNoise
from popskipjump.noise.defences.resize_pad import ResizePad
from popskipjump.noise.defences.switching import Switching

__all__ = ["BitDepth", "BoundaryDefence", "FeatureNoise", "Jpeg", "RandomNoise", "ResizePad", "Switching"]
