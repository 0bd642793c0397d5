"""The small convolutional network that the paper attacks on MNIST."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

FLAT_FEATURES = 320  # 20 channels of 4 x 4 after two 5x5 convolutions and two 2x2 poolings of 28 x 28


class MnistCnn(nn.Module):
    """Two convolutions and two linear layers, 21,840 parameters; `(N, 1, 28, 28)` in [0, 1] to `(N, 10)` logits.

    Both dropout layers are modules, so that a noise model which keeps dropout on while predicting can find them.

    Args:
        drop_rate: probability of dropping a feature map (`conv2_drop`) or a hidden unit (`fc1_drop`).
    """

    def __init__(self, drop_rate: float = 0.5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d(drop_rate)
        self.fc1 = nn.Linear(FLAT_FEATURES, 50)
        self.fc1_drop = nn.Dropout(drop_rate)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(N, 10)` of images `(N, 1, 28, 28)` in [0, 1]."""
        hidden = functional.relu(functional.max_pool2d(self.conv1(images), 2))  # (N, 10, 12, 12)
        hidden = functional.relu(functional.max_pool2d(self.conv2_drop(self.conv2(hidden)), 2))  # (N, 20, 4, 4)
        hidden = functional.relu(self.fc1(hidden.flatten(1)))  # (N, 50)
        logits: Tensor = self.fc2(self.fc1_drop(hidden))
        return logits
