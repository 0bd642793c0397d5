"""Normalisation as a layer, so that every network of the zoo takes inputs in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from popskipjump.errors import InputError


class Normalize(nn.Module):
    """`(x - mean) / std` for each channel of `(N, C, H, W)`.

    Mean and standard deviation are non-persistent buffers: they belong to the architecture, not to the weights.

    Args:
        mean: C numbers.
        std: C numbers > 0.
    """

    mean: Tensor  # (C, 1, 1)
    std: Tensor  # (C, 1, 1)

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise InputError(
                f"mean {tuple(mean)} and std {tuple(std)} cannot normalise an image: "
                "pass one mean and one std > 0 for each channel."
            )
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images, `(N, C, H, W)` to the same shape."""
        return (images - self.mean) / self.std
