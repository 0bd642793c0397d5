"""`psj demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from popskipjump.cli.console import notes, output, plain_errors
from popskipjump.cli.progress import Bar

if TYPE_CHECKING:
    from popskipjump.experiments.demo import Row
    from popskipjump.metrics import Summary

PICTURES = ("images.png", "curves.png")


def demo(
    images: Annotated[int, typer.Option(min=1, help="Number of images, of those classified correctly.")] = 16,
    iterations: Annotated[int, typer.Option(min=1, help="Number of steps of each attack.")] = 32,
    out: Annotated[Path, typer.Option(help=f"Folder for {' and '.join(PICTURES)}.")] = Path("psj-demo"),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    threads: Annotated[
        int, typer.Option(min=1, help="Number of torch threads. One is fastest for a network this small.")
    ] = 1,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that already holds other files.")] = False,
) -> None:
    """PSJ, QSJ, HSJ and HSJ with 3 votes on embedded images, 10% of all answers flipped: a table and two pictures."""
    from popskipjump.cli.output import folder_for
    from popskipjump.experiments.demo import ENTRIES, NOISE, row_of, run_entry, sample_images
    from popskipjump.experiments.drawing import draw_curves, draw_images, save
    from popskipjump.oracles.speed import threads as using

    with plain_errors(), using(threads):
        sample = sample_images(images)
        folder = folder_for(out, PICTURES, force=force)
        outcomes = []
        with Bar(notes(), sum(entry.work for entry in ENTRIES)) as bar:
            for entry in ENTRIES:
                bar.stage(entry.name, entry.work)
                outcomes.append(run_entry(entry, sample, iterations, seed, bar.iteration, bar.queries))
            bar.done()
        output().print(_table([row_of(outcome) for outcome in outcomes], NOISE), soft_wrap=False)
        figures = (draw_images(sample, outcomes), draw_curves(outcomes))
        for name, figure in zip(PICTURES, figures, strict=True):
            save(figure, folder / name)
        output().print(f"pictures: {' and '.join(str(folder / name) for name in PICTURES)}", markup=False)


def _table(rows: list[Row], noise: str) -> Table:
    """The rows for people, within 80 columns."""
    table = Table(box=SIMPLE_HEAD, title_justify="left", caption_justify="left", pad_edge=False, collapse_padding=True)
    table.title = f"{rows[0].images} images, noise {noise}: medians [40th, 60th percentile]"
    table.add_column("attack", no_wrap=True)
    for name in ("distance\nof point", "border\ndistance", "queries", "P(adv.)", "sure\n> 1/2", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.distance.median:.2f}",
            _spread(row.border),
            f"{row.queries:,.0f}",
            f"{row.adversarial:.2f}",
            f"{row.sure}/{row.images}",
            f"{row.seconds:.1f}",
        )
    table.caption = (
        "border distance: where the classifier without noise changes its answer on the ray through the point; ∞ if it "
        "does not within the bounds. P(adv.): share of adversarial answers at the point while it was "
        "confirmed; sure: above 1/2 with 95% confidence."
    )
    return table


def _spread(values: Summary) -> str:
    """Median and percentiles, with infinities as a sign."""
    median, low, high = (f"{v:.2f}".replace("inf", "∞") for v in (values.median, values.low, values.high))
    return f"{median} [{low}, {high}]"
