"""`psj gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.commands.attack import Threads
from popskipjump.cli.console import AsJson, notes, plain_errors, tell_files
from popskipjump.cli.output import tell_answer
from popskipjump.cli.progress import Bar

KEPT = "what was answered is kept; go on with the same command"

Spec = Annotated[
    Path, typer.Argument(metavar="SPEC.TOML", help="Names model, data, attack and limits. Its model is run.")
]
Root = Annotated[Path, typer.Option(help="Folder of runs: keep it between calls, and nothing is asked twice.")]
Out = Annotated[Path, typer.Option(help="Folder for gate.json, gate.md and gate.html.")]
WriteBaseline = Annotated[
    Path | None, typer.Option(help="Write what was measured as a baseline, to commit.", show_default="none")
]


def gate(
    spec: Spec,
    root: Root = Path("psj-gate") / "runs",
    out: Out = Path("psj-gate"),
    write_baseline: WriteBaseline = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """May it ship? Exit code 0: yes; 1: worse than the limits; 2: wrong input; 3: undecided, more images are needed."""
    from popskipjump.cli.output import folder_for
    from popskipjump.oracles.speed import threads as using
    from popskipjump.questions import gate as judged
    from popskipjump.questions import save
    from popskipjump.questions.gate import baseline_of
    from popskipjump.questions.gate import write_baseline as write
    from popskipjump.runs.collect import load

    with plain_errors(KEPT), using(threads):
        folder = folder_for(out, force=True)  # the same files are written at every call
        with Bar(notes()) as bar:
            bar.stage(f"gate {spec.name}")
            answer = judged(spec, root, on_queries=bar.queries, on_progress=lambda now: bar.share(now.share))
            bar.done()
        tell_answer(answer, as_json)
        paths = save(answer, folder, markdown=True)
        if write_baseline is not None:
            write(write_baseline, baseline_of(load(Path(answer.run))))
            paths.append(write_baseline)
        tell_files(paths, as_json)
    raise typer.Exit(answer.code)
