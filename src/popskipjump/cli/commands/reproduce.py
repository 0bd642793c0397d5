"""`psj reproduce`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from popskipjump.cli.console import notes, output, plain_errors
from popskipjump.cli.engine import Address, Workers, engine_of
from popskipjump.cli.engine import Name as EngineOption
from popskipjump.cli.progress import Bar

if TYPE_CHECKING:
    from popskipjump.experiments.reproduce import Experiment, Size
    from popskipjump.experiments.reproduce.base import WhiteBoxAttack
    from popskipjump.experiments.reproduce.session import Outcome
    from popskipjump.experiments.reproduce.study import Job, Study
    from popskipjump.runs.engine import Engine

MARKS = {True: ("supported", "green"), False: ("not supported", "bold red"), None: ("undecided", "yellow")}

Name = Annotated[str | None, typer.Argument(help="An experiment, or `all`; see --list.", show_default=False)]
List = Annotated[bool, typer.Option("--list", help="List the experiments and the claims that they test.")]
Images = Annotated[int | None, typer.Option(min=1, help="Number of images.", show_default="the preset's")]
Dataset = Annotated[str, typer.Option(help="Data set: mnist or cifar10.")]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE.PY:FACTORY",
        help="mnist-cnn, cifar-resnet20, cifar-densenet121, or a function without arguments that returns a torch "
        "module. The file is run: name only files that you trust.",
        show_default="the data set's",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the data set's files, or an npz file.", show_default="embedded MNIST images"),
]
Weights = Annotated[
    Path | None, typer.Option(metavar="X.SAFETENSORS", help="File of weights of the network.", show_default="embedded")
]
Out = Annotated[Path, typer.Option(help="Folder for the runs, tables, figures and pages.")]
Quick = Annotated[bool, typer.Option("--quick", help="Take minutes: few images, capped queries.")]
Decide = Annotated[
    bool,
    typer.Option("--decide", help="Take an hour or two: images that decide the claims, 200 in the tables."),
]
Paper = Annotated[bool, typer.Option("--paper", help="Take days: 500 images, all levels, only the attacks' own caps.")]
NoCaps = Annotated[
    bool,
    typer.Option("--no-caps", help="Let PSJ ask as much as it wants; with caps, no claim about it is refuted."),
]
Seed = Annotated[int, typer.Option(help="Random seed, also of the choice of images.")]
Threads = Annotated[int, typer.Option(min=1, help="Number of torch threads. One is fastest for networks this small.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that already holds other files.")]


def reproduce(
    name: Name = None,
    listed: List = False,
    images: Images = None,
    dataset: Dataset = "mnist",
    model: Model = None,
    data: Data = None,
    weights: Weights = None,
    out: Out = Path("psj-reproduce"),
    quick: Quick = False,
    decide: Decide = False,
    paper: Paper = False,
    no_caps: NoCaps = False,
    seed: Seed = 0,
    threads: Threads = 1,
    engine: EngineOption = None,
    address: Address = None,
    workers: Workers = None,
    force: Force = False,
) -> None:
    """Repeat a table or figure of the paper: runs, table, figure, and a page that says whether its claim holds here.

    Runs are kept in the folder and shared: what was attacked once is not attacked again, and a command that was
    stopped goes on where it was.
    """
    from popskipjump.cli.output import folder_for
    from popskipjump.errors import InputError
    from popskipjump.experiments.reproduce import EXPERIMENTS, experiments_of
    from popskipjump.experiments.reproduce.study import MEASURED, RUNS, setup_of, study_of
    from popskipjump.oracles.speed import threads as using
    from popskipjump.runs.collect import source_of

    kept = f"what was answered is kept in {out}; the same command goes on from there"
    with plain_errors(kept), using(threads):
        if listed:
            _list(list(EXPERIMENTS.values()))
            return
        if name is None:
            raise InputError(f"name an experiment, or `all`: {', '.join(EXPERIMENTS)}.")
        size = _size(quick=quick, decide=decide, paper=paper, no_caps=no_caps)
        experiments, white_box = _possible(experiments_of(name), alone=name in EXPERIMENTS)
        source = source_of(dataset, data, model, weights)
        folder = folder_for(out, {*EXPERIMENTS, RUNS, MEASURED}, force=force)
        study = study_of(source, setup_of(source, size, images), experiments, seed, folder)
        chosen = engine_of(engine, address, workers)
        for outcome in _run(study, experiments, folder, white_box, chosen):
            _report(outcome)
        if quick:
            notes().print("The quick size shows that everything works; its few images decide no claim.", style="yellow")


def _size(*, quick: bool, decide: bool, paper: bool, no_caps: bool) -> Size:
    from popskipjump.errors import InputError
    from popskipjump.experiments.reproduce import DECIDE, DEFAULT, PAPER, QUICK

    if quick + decide + paper > 1:
        raise InputError("--quick, --decide and --paper exclude each other.")
    size = QUICK if quick else DECIDE if decide else PAPER if paper else DEFAULT
    return size.without_caps() if no_caps else size


def _possible(experiments: list[Experiment], *, alone: bool) -> tuple[list[Experiment], dict[str, WhiteBoxAttack]]:
    """The experiments whose tools are installed, and the tools; one that was named must be possible."""
    from popskipjump.errors import MissingExtraError
    from popskipjump.integrations import foolbox

    if not any(experiment.needs_white_box for experiment in experiments):
        return experiments, {}
    try:
        foolbox.require()
    except MissingExtraError as error:
        if alone:
            raise
        left_out = ", ".join(e.name for e in experiments if e.needs_white_box)
        notes().print(Text(f"left out: {left_out}: {error}", style="yellow"))
        return [e for e in experiments if not e.needs_white_box], {}
    return experiments, foolbox.white_box_attacks()


def _run(
    study: Study,
    experiments: list[Experiment],
    folder: Path,
    white_box: dict[str, WhiteBoxAttack],
    engine: Engine | None,
) -> list[Outcome]:
    """Make the missing runs and write the experiments, under one progress bar."""
    from popskipjump.experiments.reproduce.session import Hooks, reproduce
    from popskipjump.experiments.reproduce.study import jobs_of, still_to_do

    jobs = still_to_do(study, jobs_of(experiments, study.setup), folder)
    with Bar(notes(), sum(job.work for job in jobs) or 1.0) as bar:

        def begin(job: Job) -> None:
            spec = study.spec(job.way)
            votes = f" {spec.votes} votes" if spec.votes > 1 else ""
            bar.stage(
                f"{jobs.index(job) + 1}/{len(jobs)} {spec.attack.name}{votes} {spec.noise or 'no noise'}", job.work
            )

        def write(experiment: Experiment) -> None:
            bar.stage(f"{experiment.name}: table and figure", 0.0)

        hooks = Hooks(begin, bar.queries, lambda progress: bar.share(progress.share), write)
        outcomes = list(reproduce(study, experiments, jobs, folder, _command(), white_box, hooks, engine))
        bar.done()
        return outcomes


def _command() -> str:
    """What the user typed, so that it can be typed again; where it was written to does not matter."""
    words = sys.argv[1:]
    if "--out" in words:
        place = words.index("--out")
        words = words[:place] + words[place + 2 :]
    return shlex.join(["psj", *words])


def _list(experiments: list[Experiment]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for experiment in experiments:
        table.add_row(experiment.name, experiment.claim)
    output().print(table)


def _report(outcome: Outcome) -> None:
    word, style = MARKS[outcome.finding.supported]
    output().print(Text.assemble((outcome.experiment.name, "bold"), f": {outcome.headline}."))
    output().print(Text.assemble("  the paper's claim: ", (word, style), f"; why: {outcome.folder / 'page.md'}"))
