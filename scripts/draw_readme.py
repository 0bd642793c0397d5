"""Make what the README shows: its two pictures, and the output under its example.

python scripts/draw_readme.py            # minutes, one thread
python scripts/draw_readme.py --example  # the output alone, seconds
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
EXAMPLE = re.compile(r"(<!-- example -->\n```python\n)(.*?)(```\n+```text\n)(.*?)(```)", re.DOTALL)


def write_example(readme: Path) -> None:
    """Run the README's example and put what it prints below it."""
    text = readme.read_text(encoding="utf-8")
    found = EXAMPLE.search(text)
    if found is None:
        raise SystemExit("the README has no example between <!-- example --> and a block of text.")
    done = subprocess.run([sys.executable, "-c", found[2]], capture_output=True, text=True, check=True)  # noqa: S603
    readme.write_text(text[: found.start(4)] + done.stdout + text[found.end(4) :], encoding="utf-8")


def draw(images: int, shown: int) -> None:
    """The curves and the images of the demonstration at 10% flips."""
    from popskipjump.experiments.demo import ENTRIES, NOISE, row_of, run_entry, sample_images
    from popskipjump.experiments.drawing import draw_curves, draw_images, save
    from popskipjump.oracles.speed import threads

    with threads(1):
        sample = sample_images(images)
        outcomes = [run_entry(entry, sample, 32, seed=0) for entry in ENTRIES if entry.noise == NOISE]
    for outcome in outcomes:
        row = row_of(outcome)
        print(
            f"{row.name}: border {row.border.median:.2f}, {row.queries:,.0f} queries, sure {row.sure} of {row.images}"
        )
    figure = draw_curves(outcomes)
    figure.axes[0].set_title(f"10% of the labels flipped, MNIST: median of {images} images", fontsize=11, loc="left")
    save(figure, PICTURES / "readme-curves.png")
    save(draw_images(sample, outcomes, rows=shown), PICTURES / "readme-images.png")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--example", action="store_true", help="write the example's output alone")
    arguments.add_argument("--images", type=int, default=16)
    arguments.add_argument("--shown", type=int, default=3)
    chosen = arguments.parse_args()
    if not chosen.example:
        draw(chosen.images, chosen.shown)
    write_example(ROOT / "README.md")


if __name__ == "__main__":
    main()
