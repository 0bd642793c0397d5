"""Mutated files against every reader: typed errors only, no hang, no memory.

    python benchmarks/fuzz.py --mutants 100000 --out benchmarks/results/fuzz.md

The mutants are shared out over the kinds of files. Mutant n of a kind follows from the seed and n alone, so that one
that breaks a reader can be made again. With --seconds each kind stops at its share of the time.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from common import command, header, markdown, peak_mb, save

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "unit" / "storage"))
from mutants import TARGETS, Outcome, fuzz

CHUNK = 500  # mutants between two looks at the clock
MOST_SECONDS, MOST_MB = 10, 1024
MOST_ADDRESS = 6 << 30  # bytes; an attempt to allocate more is a MemoryError, and so a finding


def run(kind: str, count: int, seed: int, seconds: float) -> list[Outcome]:
    """What becomes of the mutants of one kind."""
    outcomes: list[Outcome] = []
    end = time.perf_counter() + seconds
    while len(outcomes) < count and time.perf_counter() < end:
        with tempfile.TemporaryDirectory() as folder:
            numbers = range(len(outcomes), min(len(outcomes) + CHUNK, count))
            outcomes += fuzz(TARGETS[kind], Path(folder), seed, numbers)
    return outcomes


def main() -> None:
    """Fuzz all kinds; the exit code says whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="in all")
    parser.add_argument("--kinds", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS, MOST_ADDRESS))
    rows, untyped = [], []
    share = -(-options.mutants // len(options.kinds))
    for kind in options.kinds:
        outcomes = run(kind, share, options.seed, options.seconds / len(options.kinds))
        bad = [outcome.kind for outcome in outcomes if not outcome.typed]
        slowest = max(outcome.seconds for outcome in outcomes)
        counts = Counter(outcome.kind for outcome in outcomes if outcome.typed)
        ends = ", ".join(f"{name} {number:,}" for name, number in counts.most_common())
        rows.append((kind, f"{len(outcomes):,}", ends, len(bad), f"{slowest:.2f}"))
        untyped += [f"{kind}: {words}" for words in bad]
        print(*rows[-1], flush=True)
    total = sum(int(row[1].replace(",", "")) for row in rows)
    columns = ("file", "mutants", "ends", "untyped", "slowest, s")
    summary = f"\n{total:,} mutants, {len(untyped)} untyped errors, peak memory {peak_mb():,.0f} MB.\n"
    found = "".join(f"\n- {line}" for line in untyped[:50])
    save(options.out, header("Mutated files", command()) + markdown(columns, rows) + summary + found)
    slow = max(float(row[4]) for row in rows)
    raise SystemExit(bool(untyped) or slow > MOST_SECONDS or peak_mb() > MOST_MB)


if __name__ == "__main__":
    main()
