"""One thread for every test: sums have one order, and neighbours on the machine are left in peace."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
