"""`psj noises`."""

from __future__ import annotations

from rich.table import Table

from popskipjump.cli.console import output

NOISES = {
    "none": "the model's own answers",
    "flip:0.1": "10% of all answers are replaced by one of the other labels",
    "logit:1": "the answer is drawn from softmax(logits / T), here T = 1",
    "dropout:0.5": "the dropout layers stay on, each with this rate",
    "smoothing:0.1": "Gaussian noise of this standard deviation on every input value",
    "cropping:24": "a random square of 24 x 24 pixels, resized to the whole image",
}


def noises() -> None:
    """List the noise models, each with an example of its level."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, meaning in NOISES.items():
        table.add_row(name, meaning)
    output().print(table)
