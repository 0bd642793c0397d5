"""Adversarial accuracy as a function of the perturbation size (section 2, "Adversarial risk and accuracy")."""

from __future__ import annotations

import torch
from torch import Tensor

from popskipjump.errors import InputError


def adversarial_accuracy(
    distances: Tensor,
    etas: Tensor,
    p_true_clean: Tensor | None = None,
    p_true_adversarial: Tensor | None = None,
) -> Tensor:
    """Accuracy when each image may be perturbed by at most eta.

    While eta is below an image's distance, the image counts with its probability of a correct answer without
    perturbation. From its distance on, the image counts with the smaller of this probability and the one at its
    adversarial point, because the risk is a maximum over perturbations and no perturbation is one of them. So the
    accuracy never increases with eta.

    Args:
        distances: `(B,)` from each image to its adversarial point; `inf` if it has none, 0 if it is misclassified.
        etas: `(E,)` perturbation sizes.
        p_true_clean: `(B,)` probability of the true class at the image; None means 1.
        p_true_adversarial: `(B,)` probability of the true class at the adversarial point; None means 0.

    Returns:
        `(E,)` in [0, 1].
    """
    clean = torch.ones_like(distances) if p_true_clean is None else p_true_clean
    fooled = torch.zeros_like(distances) if p_true_adversarial is None else p_true_adversarial
    if distances.ndim != 1 or not len(distances) or not distances.shape == clean.shape == fooled.shape:
        raise InputError(
            "distances and probabilities must be of one shape (B,) with B at least 1, not "
            f"{tuple(distances.shape)}, {tuple(clean.shape)} and {tuple(fooled.shape)}."
        )
    if not bool((distances >= 0).all()):
        raise InputError(f"{int((~(distances >= 0)).sum())} of {len(distances)} distances are negative or not numbers.")
    for name, p in (("p_true_clean", clean), ("p_true_adversarial", fooled)):
        if not bool(((p >= 0) & (p <= 1)).all()):
            raise InputError(f"{name} must hold probabilities in [0, 1].")
    out_of_reach = distances > etas.unsqueeze(-1).to(distances)  # (E, B)
    return torch.where(out_of_reach, clean, torch.minimum(clean, fooled)).mean(dim=1)
