"""`psj resume`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.console import notes, output, plain_errors, say
from popskipjump.cli.engine import Address, Memory, Name, Timeout, WorkerCpus, WorkerGpus, Workers, engine_of
from popskipjump.cli.progress import Bar

KEPT = "what was answered is kept; go on with the same command"

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; see `psj runs`.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder or npz file of the images.", show_default="where it was before")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.PY:FACTORY",
        help="The model, if it comes from a Python file. The file is run: name only files that you trust.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="X.SAFETENSORS", help="File of weights for the torch module.", show_default="where they were before"
    ),
]
Threads = Annotated[
    int,
    typer.Option(min=1, help="Number of torch threads. One is fastest for small networks, whose calls are short."),
]


def resume(
    runs: Runs,
    data: Data = None,
    model: Model = None,
    weights: Weights = None,
    threads: Threads = 1,
    engine: Name = None,
    address: Address = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = 1.0,
    worker_gpus: WorkerGpus = 0.0,
    memory: Memory = None,
    timeout: Timeout = None,
) -> None:
    """Go on with interrupted runs until every image that was asked for is done. No answered query is asked again."""
    from popskipjump.attacks import Retry
    from popskipjump.cli.endpoint import overlapping
    from popskipjump.oracles.speed import threads as using
    from popskipjump.runs.collect import resume as go_on
    from popskipjump.runs.collect import source_at
    from popskipjump.runs.keep import write_results
    from popskipjump.runs.room import bytes_of
    from popskipjump.storage import RunFolder

    with plain_errors(KEPT), using(threads):
        chosen, missing = engine_of(engine, address, workers, worker_cpus, worker_gpus), []
        limit = None if memory is None else bytes_of(memory)
        for run in runs:  # what cannot be used is said before the first query
            with RunFolder.reading(run) as folder:
                missing.append(len(set(folder.asked()) - set(folder.finished())))
        with Bar(notes(), max(sum(missing), 1)) as bar:
            for run, work in zip(runs, missing, strict=True):
                bar.stage(run.resolve().name, work)
                if not work:
                    continue
                source = replace(source_at(run, data, model, weights), retry=Retry(timeout=timeout))
                with overlapping(source.model, run, work, chosen) as asked:
                    go_on(
                        run,
                        source=source,
                        engine=asked,
                        memory=limit,
                        on_queries=bar.queries,
                        on_progress=lambda now: bar.share(now.share),
                        on_note=say,
                    )
                write_results(run)
            bar.done()
        for run, work in zip(runs, missing, strict=True):
            output().print(f"{run}: {f'{work} images were missing, ' if work else ''}all are done.", markup=False)
