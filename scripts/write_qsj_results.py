"""Write docs/quickskipjump-results.md from the pages in benchmarks/results.

usage: python scripts/write_qsj_results.py

Every table stands as its benchmark wrote it, with its command; nothing is typed by hand.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "quickskipjump-results.md"
HEADER = """# QuickSkipJump: results

Written by `python scripts/write_qsj_results.py` from the pages in `benchmarks/results`; each section names its command.
All attacks have the same images, pool of starting points and seed. "PSJ / attack" is the ratio of queries at which the
medians (on CIFAR-10: the geometric means) of the border distance are equal, with a 95% bootstrap interval over
images; an interval that begins at 0 says that some resamplings never reached the distance. Differences of
log-distances at equal queries are paired by image, with their standard error.
"""


def section(path: Path) -> str:
    """One page of results as a section of this one."""
    title, *rest = path.read_text(encoding="utf-8").splitlines()
    body = [line for line in rest if not line.startswith("![")]
    return f"## {title.removeprefix('# Queries: ').removeprefix('# ')}\n" + "\n".join(body).rstrip() + "\n"


def page() -> str:
    """The whole page."""
    return "\n".join([HEADER, *(section(path) for path in sorted(RESULTS.glob("queries-*.md")))])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
