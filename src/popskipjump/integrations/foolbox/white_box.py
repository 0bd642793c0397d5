"""White-box attacks of Foolbox (Rauber et al., 2017), for comparison."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from popskipjump.errors import MissingExtraError

EXTRA = "white-box"
PACKAGES = ("foolbox", "numba")  # Foolbox does not ask for numba itself, and its Brendel-Bethge attack needs it
PGD_STEPS = 50
PGD_SIZES = 40

Attack = Callable[[nn.Module, Tensor, Tensor, Tensor, int], Tensor]


def require() -> None:
    """Raise unless everything is installed; nothing is imported."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, EXTRA)


def white_box_attacks() -> dict[str, Attack]:
    """The attacks by name; see `l2_pgd` for their arguments."""
    return {"PGD": l2_pgd, "Brendel-Bethge": l2_brendel_bethge}


def l2_pgd(module: nn.Module, images: Tensor, labels: Tensor, starts: Tensor, steps: int) -> Tensor:
    """Projected gradient descent with 50 steps in ever larger L2 balls; of each image the first ball that suffices.

    Args:
        module: gives logits `(N, K)`.
        images: `(B, *S)` in [0, 1].
        labels: `(B,)`.
        starts: `(B, *S)` adversarial points: no ball needs to be larger than the distance to them.
        steps: not used, as the paper fixes it.

    Returns:
        `(B, *S)`; the starting point where no ball sufficed.
    """
    foolbox = _foolbox()
    far = (starts - images).flatten(1).norm(dim=1)
    sizes = torch.logspace(-2, 0, PGD_SIZES) * float(far.max())
    attack = foolbox.attacks.L2ProjectedGradientDescentAttack(steps=PGD_STEPS, random_start=False)
    _, clipped, success = attack(_model(module), images, labels, epsilons=sizes.tolist())
    found = starts.clone()
    for points, good in reversed(list(zip(clipped, success, strict=True))):
        found[good] = points[good]
    return found


def l2_brendel_bethge(module: nn.Module, images: Tensor, labels: Tensor, starts: Tensor, steps: int) -> Tensor:
    """The attack by Brendel et al. (2019) from given starting points; see `l2_pgd`.

    Args:
        module: gives logits `(N, K)`.
        images: `(B, *S)` in [0, 1].
        labels: `(B,)`.
        starts: `(B, *S)` adversarial points to begin at.
        steps: of its descent along the border.
    """
    foolbox = _foolbox()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces that its optimiser is compiled at the first use
        attack = foolbox.attacks.L2BrendelBethgeAttack(steps=steps)
        points: Tensor = attack.run(_model(module), images, labels, starting_points=starts.clone())
    return points


def _foolbox() -> Any:
    require()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports names that its own dependencies have deprecated
        import foolbox

        return foolbox


def _model(module: nn.Module) -> Any:
    return _foolbox().PyTorchModel(module.eval(), bounds=(0, 1))
