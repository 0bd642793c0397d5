"""Small models on which noise can be judged in milliseconds."""

from __future__ import annotations

import pytest
import torch
from noise_toys import CLASSES, IMAGE, seeded
from torch import Tensor, nn

from popskipjump.oracles import TorchModel
from popskipjump.rng import Key, uniform


@pytest.fixture
def points() -> Tensor:
    """Five images in [0, 1]: (5, 2, 6, 6)."""
    return uniform(Key(7).roots(torch.arange(5)), 72).reshape(5, *IMAGE)


@pytest.fixture
def model() -> TorchModel:
    """Four classes, with a dropout by channel and one by unit."""
    return TorchModel(
        seeded(
            nn.Sequential(
                nn.Conv2d(2, 6, 3),
                nn.Dropout2d(0.3),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(96, 12),
                nn.Dropout(0.1),
                nn.ReLU(),
                nn.Linear(12, CLASSES),
            )
        )
    )
