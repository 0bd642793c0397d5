"""DenseNet-121 for 32 x 32 images (Huang et al., CVPR 2017), and the key names of its published weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.zoo.normalize import Normalize

GROWTH = 32
BLOCK_SIZES = (6, 12, 24, 16)
BOTTLENECK = 4 * GROWTH
STEM_CHANNELS = 2 * GROWTH

Layout = Literal["kuangliu", "torchvision", "huyvnphan", "weiaicunzai"]


class _Details(NamedTuple):
    stem_norm: bool  # batch normalisation and ReLU follow the first convolution
    stem_pool: bool  # then a 3x3 max-pooling of stride 2
    newest_first: bool  # a layer puts its output before its input's channels, not after
    transition_relu: bool = True  # between the normalisation and the convolution of a transition


_LAYOUTS = {
    "kuangliu": _Details(stem_norm=False, stem_pool=False, newest_first=True),
    "torchvision": _Details(stem_norm=True, stem_pool=False, newest_first=False),
    "huyvnphan": _Details(stem_norm=True, stem_pool=True, newest_first=False),
    "weiaicunzai": _Details(stem_norm=False, stem_pool=False, newest_first=False, transition_relu=False),
}


class DenseNet121Cifar(nn.Module):
    """DenseNet-121 with a 3x3 stem; `(N, 3, 32, 32)` in [0, 1] to `(N, classes)` logits.

    6,956,298 parameters for 10 classes (128 more with a normalised stem).

    Args:
        classes: number of logits.
        drop_rate: dropout on the output of every dense layer, as nn.Dropout modules.
        layout: origin of the weights. Published variants differ in ways that the shapes do not show:
            "kuangliu": a bare convolution as stem, newest channels first;
            "torchvision": convolution, normalisation and ReLU as stem, newest channels last;
            "huyvnphan": as "torchvision", then a max-pooling of stride 2;
            "weiaicunzai": a bare convolution as stem, newest channels last, no ReLU in the transitions.
        mean: of each channel, for a normalisation inside; None for no normalisation.
        std: of each channel, given together with `mean`.
    """

    def __init__(
        self,
        classes: int = 10,
        drop_rate: float = 0.0,
        layout: Layout = "kuangliu",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if layout not in _LAYOUTS:
            raise UnknownNameError("DenseNet layout", layout, _LAYOUTS)
        details = _LAYOUTS[layout]
        self.normalize = _normalization(mean, std)
        self.stem = _Stem(details)
        self.blocks = nn.ModuleList()
        self.transitions = nn.ModuleList()
        channels = STEM_CHANNELS
        for number, size in enumerate(BLOCK_SIZES):
            self.blocks.append(_block(channels, size, drop_rate, details.newest_first))
            channels += size * GROWTH
            if number < len(BLOCK_SIZES) - 1:
                self.transitions.append(_Transition(channels, channels // 2, details.transition_relu))
                channels //= 2
        self.norm = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(N, classes)` of images `(N, 3, 32, 32)` in [0, 1]."""
        features = self.stem(self.normalize(images))  # (N, 64, 32, 32), or half the side with a pooling stem
        for block, transition in zip(self.blocks, self.transitions, strict=False):
            features = transition(block(features))
        features = functional.relu(self.norm(self.blocks[-1](features)))  # (N, 1024, 4, 4)
        logits: Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


class _Stem(nn.Module):
    def __init__(self, details: _Details) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, STEM_CHANNELS, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(STEM_CHANNELS) if details.stem_norm else None
        self.pool = details.stem_pool

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.conv(images)
        if self.norm is not None:
            features = functional.relu(self.norm(features))
        return functional.max_pool2d(features, 3, stride=2, padding=1) if self.pool else features


class _DenseLayer(nn.Module):
    """Dense layer, `(N, C, H, W)` to `(N, C + 32, H, W)`: the input concatenated with 32 new channels."""

    def __init__(self, channels: int, drop_rate: float, newest_first: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, BOTTLENECK, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(BOTTLENECK)
        self.conv2 = nn.Conv2d(BOTTLENECK, GROWTH, kernel_size=3, padding=1, bias=False)
        self.drop = nn.Dropout(drop_rate)
        self.newest_first = newest_first

    def forward(self, features: Tensor) -> Tensor:
        narrow = self.conv1(functional.relu(self.norm1(features)))
        new = self.drop(self.conv2(functional.relu(self.norm2(narrow))))
        return torch.cat((new, features) if self.newest_first else (features, new), dim=1)


class _Transition(nn.Module):
    """`(N, C, H, W)` to `(N, C', H / 2, W / 2)`."""

    def __init__(self, channels_in: int, channels_out: int, relu: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels_in)
        self.relu = nn.ReLU() if relu else nn.Identity()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        return functional.avg_pool2d(self.conv(self.relu(self.norm(features))), 2)


def _block(channels: int, size: int, drop_rate: float, newest_first: bool) -> nn.Sequential:
    return nn.Sequential(*(_DenseLayer(channels + i * GROWTH, drop_rate, newest_first) for i in range(size)))


def _normalization(mean: Sequence[float] | None, std: Sequence[float] | None) -> nn.Module:
    if mean is None and std is None:
        return nn.Identity()
    if mean is None or std is None:
        raise InputError("`mean` and `std` go together: pass both, or neither for a network without normalisation.")
    return Normalize(mean, std)


def _from_0(number: str) -> int:
    """Convert a block number to a 0-based index, because most files count from 1."""
    return int(number) - 1


_BOTTLENECK_PARTS = {"0": "norm1", "2": "conv1", "3": "norm2", "5": "conv2"}
_DOWN_SAMPLING_PARTS = {"0": "norm", "1": "conv"}
_SHORT_PARTS = {"bn": "norm", "conv": "conv"}
_PARTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (  # how a part is called, and here
    (
        re.compile(r"features\.denseblock(\d+)\.denselayer(\d+)\.(norm|conv)\.?(\d)\."),
        lambda m: f"blocks.{_from_0(m[1])}.{_from_0(m[2])}.{m[3]}{m[4]}.",
    ),
    (re.compile(r"features\.transition(\d+)\."), lambda m: f"transitions.{_from_0(m[1])}."),
    (
        re.compile(r"dense(\d+)\.(\d+)\.(bn|conv)(\d)\."),
        lambda m: f"blocks.{_from_0(m[1])}.{m[2]}.{_SHORT_PARTS[m[3]]}{m[4]}.",
    ),
    (re.compile(r"trans(\d+)\.(bn|conv)\."), lambda m: f"transitions.{_from_0(m[1])}.{_SHORT_PARTS[m[2]]}."),
    (
        re.compile(r"features\.dense_block(?:_layer_)?(\d+)\.bottle_neck_layer_(\d+)\.bottle_neck\.([0235])\."),
        lambda m: f"blocks.{m[1]}.{m[2]}.{_BOTTLENECK_PARTS[m[3]]}.",
    ),
    (
        re.compile(r"features\.transition_layer_(\d+)\.down_sample\.([01])\."),
        lambda m: f"transitions.{m[1]}.{_DOWN_SAMPLING_PARTS[m[2]]}.",
    ),
    (re.compile(r"(?:features\.conv0|conv1)\."), lambda _: "stem.conv."),
    (re.compile(r"features\.norm0\."), lambda _: "stem.norm."),
    (re.compile(r"(?:features\.norm5|features\.bn|bn)\."), lambda _: "norm."),
    (re.compile(r"linear\."), lambda _: "classifier."),
)


def densenet121_key(key: str) -> str:
    """The name in `DenseNet121Cifar` of a published DenseNet-121 weight: pass it to `load_weights` as `rename`.

    | torchvision, huyvnphan                   | kuangliu             | here                          |
    |------------------------------------------|----------------------|-------------------------------|
    | `features.conv0`, `features.norm0`       | `conv1`, none        | `stem.conv`, `stem.norm`      |
    | `features.denseblock1.denselayer1.norm1` | `dense1.0.bn1`       | `blocks.0.0.norm1`            |
    | `features.denseblock1.denselayer1.conv2` | `dense1.0.conv2`     | `blocks.0.0.conv2`            |
    | `features.transition1.norm`, `.conv`     | `trans1.bn`, `.conv` | `transitions.0.norm`, `.conv` |
    | `features.norm5`                         | `bn`                 | `norm`                        |
    | `classifier`                             | `linear`             | `classifier`                  |

    | weiaicunzai                                                                 | here                          |
    |-----------------------------------------------------------------------------|-------------------------------|
    | `conv1`                                                                     | `stem.conv`                   |
    | `features.dense_block_layer_0.bottle_neck_layer_0.bottle_neck.0`, `.3`      | `blocks.0.0.norm1`, `.norm2`  |
    | `features.dense_block3.bottle_neck_layer_0.bottle_neck.2`, `.5`             | `blocks.3.0.conv1`, `.conv2`  |
    | `features.transition_layer_0.down_sample.0`, `.1`                           | `transitions.0.norm`, `.conv` |
    | `features.bn`                                                               | `norm`                        |
    | `linear`                                                                    | `classifier`                  |

    Old torchvision files write `norm.1` for `norm1`; both are understood. Any other key is returned as it is.
    Build the network with the matching `layout`.
    """
    for pattern, here in _PARTS:
        if match := pattern.match(key):
            return here(match) + key[match.end() :]
    return key
