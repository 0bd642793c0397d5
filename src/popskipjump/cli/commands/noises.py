"""`psj noises`."""

from __future__ import annotations

from rich.table import Table

from popskipjump.cli.console import AsJson, output, tell_json

NOISES = {
    "none": "the model's own answers",
    "flip:0.1": "10% of all answers are replaced by one of the other labels",
    "logit:1": "the answer is drawn from softmax(logits / T), here T = 1",
    "dropout:0.5": "the dropout layers stay on, each with this rate",
    "smoothing:0.1": "Gaussian noise of this standard deviation on every input value",
    "cropping:24": "a random square of 24 x 24 pixels, resized to the whole image",
    "rnd:0.1": "random noise defence: as smoothing, clipped to valid inputs (rnd:0.1,-1,1: inputs from -1 to 1)",
    "boundary-defence:0.9,2": "N(0, 2^2) on each logit where the largest probability is below 0.9",
    "feature-noise:0.5,fc1": "Gaussian noise of this standard deviation after the layer fc1",
    "resize-pad:0.8,1": "shrunk to a random size, 0.8 to 1 of the image, and put at a random place",
    "bit-depth:1,4": "rounded to a random number of bits, 1 to 4",
    "jpeg:5,50": "compressed as by JPEG, with a random quality of 5 to 50",
}


def noises(as_json: AsJson = False) -> None:
    """List the noise models, each with an example of its level."""
    if as_json:
        tell_json(NOISES)
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, meaning in NOISES.items():
        table.add_row(name, meaning)
    output().print(table)
