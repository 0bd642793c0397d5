"""Adapters: classifiers of other libraries as models that `evaluate` accepts directly.

Optional packages are never imported here to find out what an object is.
"""

from popskipjump.adapters.art import ArtModel
from popskipjump.adapters.classes import Names
from popskipjump.adapters.estimators import EstimatorModel, NamedFunction
from popskipjump.adapters.foolbox import FoolboxModel
from popskipjump.adapters.jax import JaxModel
from popskipjump.adapters.onnx import OnnxModel
from popskipjump.adapters.recognise import declared_bounds, recognise, recognised

__all__ = [
    "ArtModel",
    "EstimatorModel",
    "FoolboxModel",
    "JaxModel",
    "NamedFunction",
    "Names",
    "OnnxModel",
    "declared_bounds",
    "recognise",
    "recognised",
]
