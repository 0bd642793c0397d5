"""QSJ, our own attack, beside PSJ in every table and figure that compares attacks."""

from __future__ import annotations

from collections.abc import Iterable

from popskipjump.experiments.reproduce.base import QSJ_BUDGET, Evidence
from popskipjump.experiments.reproduce.numbers import farther, farther_for_as_many, queries, ratio, show, show_ratio


def beside_psj(evidence: Evidence, noises: Iterable[str | None]) -> str:
    """How QSJ compares with PSJ under some noises: at equal queries, and with PSJ's end."""
    parts = []
    for noise in noises:
        qsj, psj = evidence[evidence.setup.qsj(noise)], evidence[evidence.setup.psj(noise)]
        calls = show(ratio(queries(qsj).median, queries(psj).median))
        parts.append(
            f"{noise or 'no noise'}: {show_ratio(farther_for_as_many(qsj, psj))} times PSJ's distance after as many "
            f"queries, {show_ratio(farther(qsj, psj))} times PSJ's final distance with {calls} times its queries"
        )
    return f"QSJ with a budget of {QSJ_BUDGET:,} queries ends at, {'; '.join(parts)}."
