"""PopSkipJump and QuickSkipJump as evasion attacks of the Adversarial Robustness Toolbox (ART)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from popskipjump.adapters import declared_bounds
from popskipjump.errors import InputError, MissingExtraError
from popskipjump.evaluation import Report, evaluate
from popskipjump.integrations.labels_only import LabelsOnly, warn_of_failures

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports names that its own dependencies have deprecated
        from art.attacks.attack import EvasionAttack  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from art.estimators import BaseEstimator  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from art.estimators.classification import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
            ClassifierMixin,
        )
except ImportError as error:
    raise MissingExtraError("adversarial-robustness-toolbox", "art") from error

_NORMS: dict[Any, str] = {2: "l2", "2": "l2", "l2": "l2", np.inf: "linf", "inf": "linf", "linf": "linf"}


class LabelAttack(EvasionAttack):  # type: ignore[misc, unused-ignore]  # ART need not be installed where types are checked
    """A decision-based attack that also works where the classifier's answers are random.

    Args:
        classifier: any classifier of ART, `BlackBoxClassifier` included.
        targeted: whether `y` of `generate` are classes to reach.
        norm: 2, "inf" or np.inf.
        max_iter: steps along the border; None for the attack's own number, or with `max_queries`, until they are spent
            (QSJ).
        max_queries: queries of each input at most.
        votes: ask everything so many times and take the majority.
        verdict: fresh queries at each returned point, for `report.verdict`.
        seed: of all randomness of the attack.
        config: a configuration such as `popskipjump.PopSkipJump(...)` in place of the attack's defaults.

    `report` is the `popskipjump.Report` of the last `generate`: queries, status, probability of each point.
    """

    attack_params = [  # noqa: RUF012  # as ART declares it
        *EvasionAttack.attack_params,
        "targeted",
        "norm",
        "max_iter",
        "max_queries",
        "votes",
        "verdict",
        "seed",
        "config",
    ]
    _estimator_requirements = (BaseEstimator, ClassifierMixin)
    attack = "psj"

    def __init__(
        self,
        classifier: Any,
        targeted: bool = False,
        norm: int | float | str = 2,
        max_iter: int | None = None,
        max_queries: int | None = None,
        votes: int = 1,
        verdict: int = 50,
        seed: int = 0,
        config: Any = None,
    ) -> None:
        super().__init__(estimator=classifier)
        self._targeted = targeted
        self.norm, self.max_iter, self.max_queries, self.votes = norm, max_iter, max_queries, votes
        self.verdict, self.seed, self.config = verdict, seed, config
        self.report: Report | None = None
        self._check_params()

    def generate(self, x: np.ndarray, y: np.ndarray | None = None, **kwargs: Any) -> np.ndarray:
        """Adversarial points near the inputs, float32 `(N, ...)`; an input without one is returned as it was.

        Args:
            x: `(N, ...)`, within the classifier's `clip_values`; without these, the bounds are those of `x`.
            y: `(N,)` or `(N, 1)` classes, or one-hot `(N, K)`; with `targeted`, those to reach. None takes what the
                classifier answers to `x`, one query for each that is in no count.
            kwargs: `x_adv_init`, adversarial points `(N, ...)` to begin at; `mask`, 0 where an input must not change.
        """
        unknown = sorted(set(kwargs) - {"x_adv_init", "mask"})
        if unknown:
            raise InputError(f"{type(self).__name__}.generate does not take {', '.join(unknown)}.")
        model = LabelsOnly(self.estimator)
        labels = self._classes(np.asarray(x), y)
        targets = labels if self.targeted else None
        self.report = evaluate(
            model,
            x,
            np.where(labels == 0, 1, 0) if self.targeted else labels,  # with targets, the true classes play no part
            self.attack if self.config is None else self.config,
            norm=_NORMS[self.norm],
            targets=targets,
            starts=kwargs.get("x_adv_init"),
            votes=self.votes,
            iterations=self.max_iter,
            budget=self.max_queries,
            bounds=self._bounds(np.asarray(x)),
            seed=self.seed,
            verdict=self.verdict,
            keep_trace=False,
            **_mask_options(kwargs.get("mask"), np.asarray(x)),
        )
        warn_of_failures(self.report)
        return self.report.points

    def _classes(self, x: np.ndarray, y: Any) -> np.ndarray:
        """Classes `(N,)` from indices, one-hot rows, or the classifier's own answers."""
        if y is None:
            if self.targeted:
                raise InputError("a targeted attack needs the classes to reach: pass `y`.")
            y = self.estimator.predict(x)
        classes = np.asarray(y)
        if classes.ndim == 2:
            classes = classes[:, 0] if classes.shape[1] == 1 else classes.argmax(axis=1)
        if classes.dtype.kind == "f" and (classes == np.floor(classes)).all():
            classes = classes.astype(np.int64)  # ART keeps labels as floats at times
        return classes

    def _bounds(self, x: np.ndarray) -> tuple[Any, Any]:
        found: tuple[Any, Any] | None = declared_bounds(self.estimator)
        return (float(x.min()), float(x.max())) if found is None else found

    def _check_params(self) -> None:
        if self.norm not in _NORMS:
            raise InputError(f'norm must be 2, "inf" or np.inf, not {self.norm!r}.')
        if not isinstance(self.targeted, bool):
            raise InputError(f"targeted must be True or False, not {self.targeted!r}.")


def _mask_options(mask: Any, x: np.ndarray) -> dict[str, Any]:
    """The argument of `evaluate` that holds features fast where ART's mask is 0."""
    if mask is None:
        return {}
    return {"mask": np.broadcast_to(np.asarray(mask) != 0, x.shape)}


class PopSkipJump(LabelAttack):
    """PopSkipJump (Simon-Gabriel et al., 2021): HopSkipJump for classifiers whose answers are random.

    Its arguments: see `LabelAttack`.
    """

    attack = "psj"


class QuickSkipJump(LabelAttack):
    """QuickSkipJump: the aim of PopSkipJump with a fraction of its queries; give it `max_queries`.

    Its arguments: see `LabelAttack`.
    """

    attack = "qsj"
