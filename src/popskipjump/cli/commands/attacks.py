"""`psj attacks`."""

from __future__ import annotations

from rich.table import Table

from popskipjump.cli.console import AsJson, output, tell_json

ATTACKS = {
    "qsj": "QuickSkipJump, the default: PSJ's distances for a fraction of its queries; set --budget",
    "psj": "PopSkipJump as published: queries as often as the noise demands, often 20,000 times per image",
    "hsj": "HopSkipJump as published, for classifiers without noise; with --votes r it is HSJ-r",
    "boundary": "the boundary attack: a random walk; with --votes r it is BA-r",
    "psj-true-gradient": "PopSkipJump with the white-box gradient, for comparison: needs a torch module with logits",
}


def attacks(as_json: AsJson = False) -> None:
    """List the attacks."""
    if as_json:
        tell_json(ATTACKS)
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, meaning in ATTACKS.items():
        table.add_row(name, meaning)
    output().print(table)
