"""Verdicts on sentences of the paper, from the runs that `psj reproduce` has kept; nothing is attacked.

    psj reproduce all --decide --out DIR      # the runs, elsewhere
    python benchmarks/claims.py DIR --decide  # the verdicts
    python benchmarks/claims.py --list        # the sentences and their rules

The options must be those of the reproduction: they name the runs; `--images 100 30` looks for runs of the size's own
number of images, then of 100, then of 30. A sentence whose runs are not all there is "not run".
`--out FILE.json` keeps the verdicts for the page of the reproduction (scripts/write_reproduction.py).
`--make` makes the missing runs of the sentences that no experiment of `psj reproduce` has (the acquisition function),
of as many images as `--images` names last.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

from common import markdown

from popskipjump.experiments.reproduce import DECIDE, DEFAULT, EXPERIMENTS, PAPER, QUICK, Evidence
from popskipjump.experiments.reproduce.base import Ask, Experiment
from popskipjump.experiments.reproduce.claims import CLAIMS, Claim, Judged, Verdict, verdict_on
from popskipjump.experiments.reproduce.pages import load_arrays
from popskipjump.experiments.reproduce.study import MEASURED, RUNS, Study, finished_images, setup_of, study_of
from popskipjump.oracles.speed import threads
from popskipjump.runs.collect import collect, source_of

VERDICTS = ("name", "sentence", "rule", "verdict", "numbers [95%]", "figure", "images")
NOT_RUN = Judged(Verdict.NOT_RUN, [], None)


def asks_of(claim: Claim, study: Study) -> list[Ask]:
    """The runs that decide a claim."""
    return claim.asks(study.setup) if claim.asks else EXPERIMENTS[claim.experiment].plan(study.setup)


def is_kept(study: Study, asks: list[Ask], out: Path) -> bool:
    """Whether every image of every run is finished."""
    for ask in asks:
        finished = finished_images(out / RUNS / study.spec(ask.way).digest)
        if any(int(i) not in finished for i in study.image_ids[: ask.images]):
            return False
    return True


def judged(claim: Claim, study: Study, out: Path, make: bool) -> Judged:
    """The verdict from what is kept."""
    asks = asks_of(claim, study)
    if not is_kept(study, asks, out) and not (make and claim.asks):
        return NOT_RUN
    measured = {}
    if claim.experiment:
        experiment = EXPERIMENTS[claim.experiment]
        kept = load_arrays(out / MEASURED / f"{experiment.name}-{study.digest(experiment)}.npz")
        if kept is None and type(experiment).measure is not Experiment.measure:
            return NOT_RUN
        measured = kept or {}
    runs = {}
    for ask in asks:
        ids = [int(i) for i in study.image_ids[: ask.images]]
        runs[ask.way] = collect(study.spec(ask.way), ids, out / RUNS, source=study.source)
    return verdict_on(claim, Evidence(study.setup, runs, measured))


def rows_of(studies: list[Study], out: Path, make: bool) -> Iterator[tuple[str, ...]]:
    """A row for each sentence, from the first study whose runs are all there."""
    for claim in CLAIMS:
        found, images = NOT_RUN, ""
        for study in studies:
            found = judged(claim, study, out, make and study is studies[-1])
            if found.verdict is not Verdict.NOT_RUN:
                images = str(
                    max(
                        (ask.images for ask in asks_of(claim, study)),
                        default=study.setup.images(study.setup.size.timed_images),
                    )
                )
                break
        numbers = "; ".join(outcome.words for outcome in found.outcomes)
        figure = claim.experiment or "its own runs"
        yield (
            claim.name,
            f"“{claim.quote}” ({claim.place})",
            f"{claim.statistic}: {claim.rule}",
            found.words,
            numbers,
            figure,
            images,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder of `psj reproduce`")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--images", type=int, nargs="+", default=[], help="numbers to look for besides the size's own")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--decide", action="store_true")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--no-caps", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--out", dest="kept", type=Path, default=None, help="file for the verdicts")
    args = parser.parse_args()
    if args.list:
        columns = ("name", "sentence", "place", "statistic", "holds if", "experiment")
        rows = [(c.name, c.quote, c.place, c.statistic, c.rule, c.experiment or "its own runs") for c in CLAIMS]
        print(markdown(columns, rows))
        return
    if args.out is None:
        parser.error("name the folder of a reproduction, or --list")
    size = QUICK if args.quick else DECIDE if args.decide else PAPER if args.paper else DEFAULT
    size = size.without_caps() if args.no_caps else size
    with threads(1):
        source = source_of(args.dataset, args.data, None, args.weights)
        studies = [
            study_of(source, setup_of(source, size, count), EXPERIMENTS.values(), args.seed, args.out)
            for count in (None, *args.images)
        ]
        found = list(rows_of(studies, args.out, args.make))
        print(markdown(VERDICTS, found))
    if args.kept is not None:
        date = time.strftime("%Y-%m-%d")
        kept = {
            name: {"verdict": words, "numbers": numbers, "images": images, "date": date}
            for name, _, _, words, numbers, _, images in found
            if words != Verdict.NOT_RUN.value
        }
        args.kept.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
