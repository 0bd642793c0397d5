"""Write docs/reproduction.md from benchmarks/results/reproduction.json, and put new results into that file first.

    python scripts/write_reproduction.py                                       # the page alone
    python scripts/write_reproduction.py psj-reproduce [MORE...] --cifar10 psj-cifar10 --claims claims.json

The file holds the result.json of every experiment and the verdict on every sentence: numbers only. What the named
folders of `psj reproduce` hold replaces what the file had; all else stays, with its date. `--claims` takes what
`benchmarks/claims.py --out` wrote; a sentence whose runs were not there keeps its earlier verdict.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popskipjump.experiments.reproduce import EXPERIMENTS
from popskipjump.experiments.reproduce.base import Table
from popskipjump.experiments.reproduce.claims import CLAIMS
from popskipjump.experiments.reproduce.overview import overview_of, read_results, sections_of
from popskipjump.experiments.reproduce.pages import markdown_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
KEPT = RESULTS / "reproduction.json"
PICTURES = ("table-1", "noise-level-complete", "noise-model", "votes-ratio")
ADDED = ("cropping.md", "cropping-why.md")  # result pages of benchmarks that belong here
HEADER = """# Reproduction

Every table and figure of the paper with our numbers, where they come from, and whether they support the claim. This
page is written by `python scripts/write_reproduction.py` from `benchmarks/results/reproduction.json`, which holds the
results of `psj reproduce`; the verdicts are computed from the data by the rules in
`src/popskipjump/experiments/reproduce/`. How to repeat it, and what the sizes are:
[guide/reproduce-the-paper.md](guide/reproduce-the-paper.md).

The network is ours (the paper's architecture, our weights), so distances differ from the paper's for all attacks alike;
ratios compare. HSJ halves its step until the point is adversarial, as published; in the authors' released program this
was switched off. Distances are medians of L2 in input units on the classifier without noise, and ‖δ‖²/d is the unit of
the paper's tables ([errata](errata.md), E12).

Every section has the number of its images, its command, its seed and its date. `psj reproduce all --decide` asks for
200 images in the tables and 100 elsewhere; where a section has fewer, the time did not suffice, and what is open says
how many would decide it. A section with an earlier date than the others is of the version of that date.
"""
SENTENCES = """## Sentences of the paper, one by one

Each sentence has a statistic and a limit that were written down before the runs (`experiments/reproduce/claims`). It is
supported, not supported, or undecided together with what would decide it
(`python benchmarks/claims.py FOLDER --decide`). "Not run": no runs of it have been made. A dash: with the most
votes that were tried HSJ did not come as close, so that the ratio is only known to be above that in votes-ratio.
"""
CIFAR = """## CIFAR-10

The same commands on another data set and network: the first 761 test images, and a ResNet-20 that answers 91.7% of them
rightly. The images are too few to decide a claim; they show that everything works there, and how the numbers look. The
network has no dropout layers.
"""


COLUMNS = ("sentence", "rule", "verdict", "numbers [95%]", "figure", "images", "date")
NOT_RUN = {"verdict": "not run", "numbers": "", "images": "", "date": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="written by `psj reproduce`")
    parser.add_argument("--cifar10", type=Path, default=None, help="one more, written with --dataset cifar10")
    parser.add_argument("--claims", type=Path, default=None, help="what benchmarks/claims.py --out wrote")
    args = parser.parse_args()
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    kept["mnist"] |= read_results(args.folders)
    kept["cifar10"] |= read_results([args.cifar10] if args.cifar10 else [])
    kept["claims"] |= json.loads(args.claims.read_text(encoding="utf-8")) if args.claims else {}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    for name in PICTURES:
        for folder in args.folders:
            if (folder / name / "figure.png").is_file():
                shutil.copy(folder / name / "figure.png", DOCS / "pictures" / f"{name}.png")
    (DOCS / "reproduction.md").write_text(page_of(kept), encoding="utf-8")
    print(f"written: docs/reproduction.md, with {len(kept['mnist'])} experiments and {len(kept['claims'])} verdicts")


def page_of(kept: Mapping[str, Any]) -> str:
    """The page, from what is kept."""
    pictures = {name: f"pictures/{name}.png" for name in PICTURES if (DOCS / "pictures" / f"{name}.png").is_file()}
    mnist = {name: kept["mnist"][name] for name in EXPERIMENTS if name in kept["mnist"]}
    text = f"{HEADER}\n{overview_of(mnist, pictures)}\n{SENTENCES}\n{sentences_of(kept['claims'])}\n"
    for name in ADDED:
        text += f"\n#{(RESULTS / name).read_text(encoding='utf-8').strip()}\n"  # its heading, one level down
    return text + f"\n{CIFAR}\n" + "\n".join([*sections_of(kept["cifar10"], {}), ""])


def sentences_of(verdicts: Mapping[str, Mapping[str, str]]) -> str:
    """A row for each sentence, in the order of the list."""
    rows = []
    for claim in CLAIMS:
        found = verdicts.get(claim.name, NOT_RUN)
        rows.append(
            (
                f"“{claim.quote}” ({claim.place})",
                f"{claim.statistic}: {claim.rule}",
                f"**{found['verdict']}**",
                found["numbers"],
                claim.experiment or "its own runs",
                found["images"],
                found["date"],
            )
        )
    return markdown_of(Table(COLUMNS, rows))


if __name__ == "__main__":
    main()
