"""What the parts of an attack have learned of each image, from one iteration to the next."""

from __future__ import annotations

import torch
from torch import Tensor


class Notes:
    """Named numbers of B images, each part's own: read and written for the images that are still in the batch."""

    def __init__(self, images: int) -> None:
        self._images = images
        self._tables: dict[str, Tensor] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tables

    def read(self, name: str, rows: Tensor, default: float | Tensor) -> Tensor:
        """The notes of some images, `(A, ...)`; before the first note of its name, the default for each of them."""
        if name in self._tables:
            table = self._tables[name]
            return table.index_select(0, rows.to(table.device))
        value = torch.as_tensor(default, dtype=torch.float64) if isinstance(default, float) else default
        return value.expand(len(rows), *value.shape).clone()

    def write(self, name: str, rows: Tensor, values: Tensor) -> None:
        """Note something of some images: rows `(A,)` on the CPU, values `(A, ...)`."""
        if name not in self._tables:
            self._tables[name] = torch.zeros(self._images, *values.shape[1:], dtype=values.dtype, device=values.device)
        self._tables[name].index_copy_(0, rows.to(values.device), values)
