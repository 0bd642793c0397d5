"""Write docs/reproduction.md from the folders of `psj reproduce`.

    python scripts/write_reproduction.py psj-reproduce [MORE...] --cifar10 psj-cifar10

`--claims` takes the output of `benchmarks/claims.py`, `--pages` result pages of benchmarks that belong here.

The numbers and verdicts come from the result.json of each experiment; where several folders hold one, the last counts.
An experiment that no folder holds keeps its section of the page, with its date.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from popskipjump.experiments.reproduce.overview import (
    overview_of,
    read_results,
    results_on,
    sections_of,
)

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURES = ("table-1", "noise-level-complete", "noise-model", "votes-ratio")
HEADER = """# Reproduction

Every table and figure of the paper with our numbers, where they come from, and whether they support the claim. This
page is written by `python scripts/write_reproduction.py FOLDER...` from the results of `psj reproduce`; the verdicts
are computed from the data by the rules in `src/popskipjump/experiments/reproduce/`. How to repeat it, and what the
sizes are: [guide/reproduce-the-paper.md](guide/reproduce-the-paper.md).

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
(`python benchmarks/claims.py FOLDER --decide`). "Not run": its runs are not in the folder of this page.
"""
CIFAR = """## CIFAR-10

The same commands on another data set and network: the first 761 test images, and a ResNet-20 that answers 91.7% of them
rightly. The images are too few to decide a claim; they show that everything works there, and how the numbers look. The
network has no dropout layers.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="written by `psj reproduce`")
    parser.add_argument("--cifar10", type=Path, default=None, help="one more, written with --dataset cifar10")
    parser.add_argument("--claims", type=Path, default=None, help="what benchmarks/claims.py printed")
    parser.add_argument("--pages", nargs="*", type=Path, default=[], help="result pages to add, with their headings")
    parser.add_argument(
        "--fresh", action="store_true", help="drop what no folder holds, instead of keeping its section"
    )
    args = parser.parse_args()
    page = DOCS / "reproduction.md"
    before = "" if args.fresh or not page.is_file() else page.read_text(encoding="utf-8")
    kept = results_on(before)
    results = kept | read_results(args.folders)
    pictures = {}
    for name in PICTURES:
        if name in results and "section" not in results[name]:
            (DOCS / "pictures").mkdir(exist_ok=True)
            source = next(f for f in reversed(args.folders) if (f / name / "figure.png").is_file())
            shutil.copy(source / name / "figure.png", DOCS / "pictures" / f"{name}.png")
            pictures[name] = f"pictures/{name}.png"
    text = f"{HEADER}\n{overview_of(results, pictures)}"
    if args.claims is not None:
        text += f"\n{SENTENCES}\n{args.claims.read_text(encoding='utf-8').strip()}\n"
    for added in args.pages:
        text += f"\n#{added.read_text(encoding='utf-8').strip()}\n"  # its heading, one level down
    if args.cifar10 is not None:
        text += f"\n{CIFAR}\n"
        text += "\n".join([*sections_of(read_results([args.cifar10]), {}), ""])
    elif "\n## CIFAR-10\n" in before:
        text += f"\n## CIFAR-10\n{before.partition(chr(10) + '## CIFAR-10' + chr(10))[2]}"
    page.write_text(text, encoding="utf-8")
    old = [name for name, result in results.items() if "section" in result]
    print(
        f"written: docs/reproduction.md, with {len(results)} experiments; kept from before: {', '.join(old) or 'none'}"
    )


if __name__ == "__main__":
    main()
