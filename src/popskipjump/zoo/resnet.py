"""ResNet-20 for 32 x 32 images (He et al., CVPR 2016, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from popskipjump.zoo.normalize import Normalize

BLOCKS_PER_STAGE = 3
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class ResNet20Cifar(nn.Module):
    """Three stages of three basic blocks with 16, 32, 64 channels; `(N, 3, 32, 32)` in [0, 1] to `(N, classes)` logits.

    269,722 parameters for 10 classes. The names of the weights are those of the usual CIFAR ResNet checkpoints
    (`conv1`, `bn1`, `layer1.0.conv1`, ..., `linear`).

    Args:
        classes: number of logits.
        mean: of each channel, for the normalisation inside.
        std: of each channel, for the normalisation inside.
    """

    def __init__(
        self, classes: int = 10, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
    ) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.conv1 = nn.Conv2d(3, 16, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, stride=1)
        self.layer2 = _stage(16, 32, stride=2)
        self.layer3 = _stage(32, 64, stride=2)
        self.linear = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(N, classes)` of images `(N, 3, 32, 32)` in [0, 1]."""
        hidden = functional.relu(self.bn1(self.conv1(self.normalize(images))))  # (N, 16, 32, 32)
        hidden = self.layer3(self.layer2(self.layer1(hidden)))  # (N, 64, 8, 8)
        logits: Tensor = self.linear(hidden.mean(dim=(2, 3)))
        return logits


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut without parameters ("option A")."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.stride = stride
        self.new_channels = channels_out - channels_in

    def forward(self, features: Tensor) -> Tensor:
        """`(N, C, H, W)` to `(N, C', H / stride, W / stride)`."""
        branch = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(features)))))
        return functional.relu(torch.add(branch, self.shortcut(features)))

    def shortcut(self, features: Tensor) -> Tensor:
        """Every stride-th pixel, with zero channels added evenly before and after the old ones."""
        kept = features[:, :, :: self.stride, :: self.stride]
        before = self.new_channels // 2
        return functional.pad(kept, (0, 0, 0, 0, before, self.new_channels - before))


def _stage(channels_in: int, channels_out: int, stride: int) -> nn.Sequential:
    first = BasicBlock(channels_in, channels_out, stride)
    others = (BasicBlock(channels_out, channels_out, stride=1) for _ in range(BLOCKS_PER_STAGE - 1))
    return nn.Sequential(first, *others)
