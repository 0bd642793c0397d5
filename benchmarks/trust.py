"""Whether results can be trusted: every returned point is judged by the noiseless classifier, or by fresh answers.

    python benchmarks/trust.py --quick                     # a look at everything: minutes
    POPSKIPJUMP_DATA=<folder> python benchmarks/trust.py   # all rows; needs the folder for the photographs alone
    python benchmarks/trust.py noiseless transient         # some sections

Every case (a classifier, an attack, a block of images) is kept in the folder field-runs here, which is not part of the
repository: a command that was interrupted goes on where it ended. --table-only makes the table of what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import command, header, markdown, save
from trust_cases import Case, failing, large, noiseless, noisy

import popskipjump as psj
from popskipjump.geometry import norm_of

KEPT = Path(__file__).parent / "field-runs"
SECTIONS = ("noiseless", "noisy", "transient", "large")
WITHOUT = {"MISCLASSIFIED", "NO_START", "BAD_LABEL"}
GRADUAL = ("logit:1", "smoothing:0.2", "dropout:0.5")  # of these noises the border is no step
MOST_ADDED = {"logit:1": 0.01, "dropout:0.5": 0.01, "smoothing:0.2": 0.02}


class Row(NamedTuple):
    """One line of a table: the images of all blocks."""

    name: str
    attack: str
    budget: int
    status: np.ndarray  # (n,) of str, of the images with a point, or that should have one
    success: np.ndarray  # (n,) bool
    adversarial: np.ndarray  # (n,) bool, the truth
    queries: np.ndarray  # (n,) of the settle phase
    added: np.ndarray  # (n,) log-distance of the settle phase; nan where there is none
    start: np.ndarray  # (n,) distance of the given start; nan without one
    distance: np.ndarray  # (n,)

    @property
    def wrong(self) -> int:
        """Points that are said to be confirmed, and are not adversarial."""
        return int((self.success & ~self.adversarial).sum())

    @property
    def silent(self) -> int:
        """Points that are not adversarial and whose status does not say so."""
        loud = np.isin(self.status, ["UNCONFIRMED", "NO_SIGNAL", "BUDGET_TOO_SMALL", "ORACLE_FAILED", "INTERRUPTED"])
        return int((~self.adversarial & ~loud & np.isfinite(self.distance)).sum())

    @property
    def unconfirmed(self) -> int:
        """Images with a point that is not confirmed."""
        return int((~self.success & np.isfinite(self.distance)).sum())

    @property
    def further(self) -> np.ndarray:
        """Log-distances that settling adds to the confirmed points; 0 where it went back to a nearer line."""
        return np.asarray(np.clip(self.added[self.success & np.isfinite(self.added)], 0.0, None))


def code() -> str:
    """What identifies the code of the attacks and of the evaluation: a case of other code is another case."""
    digest = hashlib.sha256()
    folder = Path(psj.__file__).parent
    for part in ("attacks", "evaluation", "noise", "oracles", "sigmoid"):
        for path in sorted((folder / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def kept(case: Case, count: int, table_only: bool, digest: str) -> dict[str, Any] | None:
    """What a case gave, per attacked image: from the folder, or from running it."""
    name = f"trust {case.section} {case.name} {case.attack} {case.budget} {count} {case.block} {digest}"
    path = KEPT / (hashlib.sha256(name.encode()).hexdigest()[:24] + ".json")
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text())
        return known
    if table_only:
        return None
    began = time.process_time()
    inputs = case.make()
    report = case.run(inputs)
    there = np.array([status.name not in WITHOUT for status in report.status])
    size = np.full(len(there), np.nan)
    if isinstance(inputs.starts, torch.Tensor):
        size = norm_of(case.norm).size((inputs.starts - torch.as_tensor(inputs.images)).flatten(1)).double().numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        added = np.log(report.distances / report.walked)
    arrays = {
        "status": np.array([status.name for status in report.status]), "success": report.success,
        "adversarial": case.adversarial(inputs, report), "added": added, "start": size, "distance": report.distances,
        "queries": report.queries_by_phase.get("settle", np.zeros(len(there), dtype=np.int64)),
    }  # fmt: skip
    told = {key: values[there].tolist() for key, values in arrays.items()}
    told["seconds"] = time.process_time() - began
    KEPT.mkdir(exist_ok=True)
    path.with_suffix(".part").write_text(json.dumps(told))
    path.with_suffix(".part").rename(path)
    wrong, open_ = int((report.success & ~arrays["adversarial"])[there].sum()), int((~report.success[there]).sum())
    print(f"{case.section} {case.name} {case.attack} {case.budget} block {case.block}: {int(there.sum())} images, "
          f"{wrong} wrong, {open_} open, {told['seconds']:.0f} s", flush=True)  # fmt: skip
    return told


def rows_of(cases: Iterable[Case], count: int, table_only: bool) -> list[Row]:
    """The lines of a section; the blocks of a row are joined."""
    digest = code()
    given = [(case, kept(case, count, table_only, digest)) for case in cases]
    found = [(case, told) for case, told in given if told is not None]

    def row(pair: tuple[Case, dict[str, Any]]) -> tuple[str, str, int]:
        return pair[0].name, pair[0].attack, pair[0].budget

    order = {key: place for place, key in reversed(list(enumerate(map(row, found))))}
    found.sort(key=lambda pair: order[row(pair)])
    fields = ("status", "success", "adversarial", "queries", "added", "start", "distance")
    lines = []
    for key, group in groupby(found, row):
        parts = [told for _, told in group]
        lines.append(Row(*key, *(np.concatenate([np.array(part[name]) for part in parts]) for name in fields)))
    return lines


def judged(value: float, most: float) -> str:
    """Whether a number is as small as it must be."""
    return f"pass (at most {most:g})" if value <= most else f"FAIL (at most {most:g})"


def noiseless_table(rows: list[Row]) -> Iterator[str]:
    """The classifiers without noise: one line for each attack, then the cases that are not perfect."""
    lines = []
    for (attack, budget), group in groupby(
        sorted(rows, key=lambda row: row[1:3]), lambda row: (row.attack, row.budget)
    ):
        lines.append(_noiseless_line(f"{attack}, {budget} queries", list(group)))
    yield markdown(
        ("attack", "images", "not adversarial, and not said", "confirmed, of these wrong", "unconfirmed",
         "settle queries: median", "mean", "log-distance added"),
        [*lines, _noiseless_line("all", rows)],
    )  # fmt: skip
    status = np.concatenate([row.status for row in rows])
    images, silent = len(status), sum(row.silent for row in rows)
    missing = sum(row.unconfirmed for row in rows) / images
    queries, further = (np.concatenate([getattr(row, name) for row in rows]) for name in ("queries", "further"))
    yield f"\n- Images: {images:,}: {'pass' if images >= 10_000 else 'FAIL'} (at least 10,000)"
    yield f"- Points that are not adversarial without a word: {silent}: {judged(silent, 0)}"
    yield f"- Unconfirmed: {missing:.3%}: {judged(missing, 0.001)}"
    yield f"- Settle queries: median {np.median(queries):.0f}: {judged(float(np.median(queries)), 10)}; mean " \
          f"{queries.mean():.2f}: {judged(float(queries.mean()), 15)}"  # fmt: skip
    mean = float(further.mean())
    yield f"- Mean log-distance added: {mean:.2g}: {judged(mean, 0.001)}"
    worst = sorted(rows, key=lambda row: -row.queries.mean())[:5]
    told = "; ".join(f"{row.name}, {row.attack} {row.budget}: {row.queries.mean():.1f}" for row in worst)
    yield f"- The {len(worst)} dearest cases, mean settle queries: {told}"
    for row in rows:
        if row.wrong or row.silent or row.unconfirmed:
            yield f"- {row.name}, {row.attack} {row.budget}: {row.wrong} wrong, {row.unconfirmed} unconfirmed"


def _noiseless_line(name: str, rows: list[Row]) -> tuple[object, ...]:
    queries, further = (np.concatenate([getattr(row, field) for row in rows]) for field in ("queries", "further"))
    images, confirmed, wrong = (sum(counts) for counts in zip(
        *((len(row.status), int(row.success.sum()), row.wrong) for row in rows), strict=True))  # fmt: skip
    silent, missing = (sum(getattr(row, field) for row in rows) for field in ("silent", "unconfirmed"))
    return (name, f"{images:,}", silent, f"{confirmed:,}, {wrong}", missing, f"{np.median(queries):.0f}",
            f"{queries.mean():.2f}", f"{further.mean():.2g}")  # fmt: skip


def noisy_table(rows: list[Row]) -> Iterator[str]:
    """One line for each noise, attack and budget."""
    lines = []
    for row in rows:
        gradual = row.name in GRADUAL
        median, mean, share = float(np.median(row.queries)), float(row.queries.mean()), float(row.success.mean())
        wrong, added = row.wrong / max(int(row.success.sum()), 1), float(row.further.mean())
        must = {
            "wrong": (wrong, 0.01), "confirmed": (1 - share, 0.02), "added": (added, MOST_ADDED.get(row.name, 0.001))
        }  # fmt: skip
        if row.name != "flip:0.25":  # nothing is demanded of the costs at 25% flips
            must |= {"median": (median, 60 if gradual else 10), "mean": (mean, 120 if gradual else 15)}
        if row.name == "flip:0.25":
            del must["added"]
        missed = [f"{name} (at most {most:g})" for name, (value, most) in must.items() if not value <= most]
        lines.append((row.name, f"{row.attack} {row.budget:,}", len(row.status),
                      f"{int(row.success.sum())}, {share:.1%}", f"{row.wrong}", f"{median:.0f}", f"{mean:.1f}",
                      f"{added:.4f}", f"{float(row.added[row.success & np.isfinite(row.added)].mean()):.4f}",
                      "FAIL: " + ", ".join(missed) if missed else "pass"))  # fmt: skip
    yield markdown(("noise", "attack", "images", "confirmed", "of these wrong", "settle queries: median", "mean",
                    "log-distance added", "the same, less where it went back", "verdict"), lines)  # fmt: skip


def large_table(rows: list[Row]) -> Iterator[str]:
    """The photographs: results beside their starts."""
    lines = []
    for row in rows:
        ratio = row.distance / row.start
        verdict = "pass" if (ratio <= 1 + 1e-6).all() else "FAIL"
        lines.append((f"{row.attack} {row.budget:,}", len(ratio), int(row.success.sum()), row.silent,
                      f"{np.median(ratio):.3f}", f"{ratio.max():.3f}", int(row.queries.max()), verdict))  # fmt: skip
    yield markdown(("attack", "images", "confirmed", "not adversarial, and not said", "distance / start: median",
                    "largest", "settle queries, largest", "none further than its start"), lines)  # fmt: skip


def transient(runs: int) -> str:
    """One image, and a classifier of which 0.5% of the calls fail."""
    done = failures = 0
    for run in range(runs):
        ask, image, label = failing(run)
        report = psj.evaluate(ask, image, label, "qsj", budget=300, seed=run, retry=psj.Retry(wait=0))
        done += int(report.success.all())
        failures += len(report.messages)
    verdict = "pass" if done == runs else "FAIL"
    return f"0.5% of calls failing, 1 image: {done} of {runs} runs ended with a confirmed point: {verdict}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all without a name")
    parser.add_argument("--quick", action="store_true", help="few images")
    parser.add_argument("--images", type=int, default=45, help="of each noiseless case, and block")
    parser.add_argument("--noisy-images", type=int, default=40, help="of each block of a noisy case")
    parser.add_argument("--noisy-blocks", type=int, default=5)
    parser.add_argument("--large-images", type=int, default=10, help="photographs")
    parser.add_argument("--large-budget", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=200, help="with a failing classifier")
    parser.add_argument("--table-only", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown sections {', '.join(unknown)}: choose of {', '.join(SECTIONS)}")
    if options.quick:
        options.images, options.noisy_images, options.noisy_blocks, options.runs = 6, 6, 1, 20
        options.large_images, options.large_budget = 2, 1000
    torch.set_num_threads(1)
    only, text = options.table_only, [header("Results one can trust", command())]
    for name in options.sections or SECTIONS:
        text.append(f"\n## {name.capitalize()}\n")
        if name == "noiseless":
            text += noiseless_table(rows_of(noiseless(options.images, 1), options.images, only))
        elif name == "noisy":
            cases = noisy(options.noisy_images, options.noisy_blocks)
            text += noisy_table(rows_of(cases, options.noisy_images, only))
        elif name == "large":
            text += large_table(rows_of(large(options.large_images, options.large_budget), options.large_images, only))
        else:
            text.append(transient(options.runs))
    save(options.out, "\n".join(text))


if __name__ == "__main__":
    main()
