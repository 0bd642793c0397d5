"""PopSkipJump and QuickSkipJump as attacks of Foolbox."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from popskipjump.errors import InputError, MissingExtraError
from popskipjump.evaluation import Report, evaluate
from popskipjump.integrations.labels_only import LabelsOnly, warn_of_failures

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports names that its own dependencies have deprecated
        import eagerpy
        from foolbox import distances
        from foolbox.attacks.base import MinimizationAttack, Repeated, get_criterion
        from foolbox.criteria import Misclassification, TargetedMisclassification
except ImportError as error:
    raise MissingExtraError("foolbox", "foolbox") from error

ep: Any = eagerpy
_DISTANCES = {"l2": distances.l2, "linf": distances.linf}


class LabelAttack(MinimizationAttack):  # type: ignore[misc, unused-ignore]  # Foolbox need not be installed where types are checked
    """A decision-based attack that also works where the model's answers are random.

    Args:
        iterations: steps along the border; None for the attack's own number, or with a budget, until it is spent (QSJ).
        budget: queries of each input at most. Those that Foolbox makes after the attack, one for each epsilon, are not
            among them.
        norm: "l2" or "linf".
        votes: ask everything so many times and take the majority.
        verdict: fresh queries at each returned point, for `report.verdict`.
        seed: of all randomness of the attack.
        config: a configuration such as `popskipjump.PopSkipJump(...)` in place of the attack's defaults.

    `report` is the `popskipjump.Report` of the last run: queries, status, probability of each point.
    """

    attack = "psj"

    def __init__(
        self,
        iterations: int | None = None,
        budget: int | None = None,
        norm: str = "l2",
        votes: int = 1,
        verdict: int = 50,
        seed: int = 0,
        config: Any = None,
    ) -> None:
        if norm not in _DISTANCES:
            raise InputError(f'norm must be "l2" or "linf", not {norm!r}.')
        self.iterations, self.budget, self.norm, self.votes = iterations, budget, norm, votes
        self.verdict, self.seed, self.config = verdict, seed, config
        self.report: Report | None = None

    @property
    def distance(self) -> Any:
        """The distance of Foolbox in which the perturbations are measured."""
        return _DISTANCES[self.norm]

    def run(
        self,
        model: Any,
        inputs: Any,
        criterion: Any,
        *,
        early_stop: float | None = None,
        starting_points: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Adversarial points `(N, ...)` near the inputs; an input without one is returned as it was.

        Args:
            model: a model of Foolbox; its bounds and its preprocessing are used.
            inputs: `(N, ...)` in the model's framework, within its bounds.
            criterion: `Misclassification`, `TargetedMisclassification`, or labels `(N,)`.
            early_stop: an input is done once its point is this near.
            starting_points: `(N, ...)` adversarial points to begin at; None begins from noise.
            kwargs: none is known; Foolbox passes on what it does not know.
        """
        if kwargs:
            raise InputError(f"{type(self).__name__} does not take {', '.join(sorted(kwargs))}.")
        tensor, restore_type = ep.astensor_(inputs)
        labels, targets = _goal_of(get_criterion(criterion))
        self.report = evaluate(
            LabelsOnly(model),
            tensor.numpy(),
            labels,
            self.attack if self.config is None else self.config,
            norm=self.norm,
            targets=targets,
            starts=None if starting_points is None else ep.astensor(starting_points).numpy(),
            votes=self.votes,
            iterations=self.iterations,
            budget=self.budget,
            bounds=tuple(model.bounds),
            seed=self.seed,
            stop_distance=early_stop,
            verdict=self.verdict,
            keep_trace=False,
        )
        warn_of_failures(self.report)
        return restore_type(ep.from_numpy(tensor, self.report.points).astype(tensor.dtype))

    def repeat(self, times: int) -> Any:
        """The attack with several seeds; the nearest point of each input is returned."""
        return Repeated(_Reseeded(self), times)

    def __repr__(self) -> str:
        options = {name: value for name, value in vars(self).items() if name != "report"}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in options.items())})"


class PopSkipJumpAttack(LabelAttack):
    """PopSkipJump (Simon-Gabriel et al., 2021): HopSkipJump for models whose answers are random.

    Its arguments: see `LabelAttack`.
    """

    attack = "psj"


class QuickSkipJumpAttack(LabelAttack):
    """QuickSkipJump: the aim of PopSkipJump with a fraction of its queries; give it a budget.

    Its arguments: see `LabelAttack`.
    """

    attack = "qsj"


class _Reseeded(MinimizationAttack):  # type: ignore[misc, unused-ignore]
    """An attack that takes the next seed at every run."""

    def __init__(self, attack: LabelAttack) -> None:
        self.attack = copy.copy(attack)
        self.attack.seed -= 1

    @property
    def distance(self) -> Any:
        return self.attack.distance

    def run(self, model: Any, inputs: Any, criterion: Any, **options: Any) -> Any:
        self.attack.seed += 1
        return self.attack.run(model, inputs, criterion, **options)


def _goal_of(criterion: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels `(N,)` and targets `(N,)` or None."""
    if isinstance(criterion, Misclassification):
        return np.asarray(criterion.labels.numpy()), None
    if isinstance(criterion, TargetedMisclassification):
        targets = np.asarray(criterion.target_classes.numpy())
        return np.where(targets == 0, 1, 0), targets  # the true classes play no part; any others will do
    raise InputError(
        f"{criterion!r} is not supported: labels alone decide Misclassification and TargetedMisclassification, and an "
        "attack that sees labels alone can have no other criterion."
    )
