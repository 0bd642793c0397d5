"""The options of `psj attack` that describe a space of allowed changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from popskipjump import Pool
    from popskipjump.cli.inputs import Selection

Mask = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.NPY",
        help="1 where a feature may change, 0 where not: shape of an input, or (N, ...) for each image of the data.",
        show_default="all may change",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="SCALE",
        help="The change of a feature that counts as 1: range (of the bounds), std (of the data), a number, or a "
        "FILE.NPY with one for each feature.",
        show_default="1",
    ),
]
Columns = Annotated[
    Path | None,
    typer.Option(
        metavar="COLUMNS.JSON", help="Bounds, kinds and scales of a table's columns.", show_default="none: numbers"
    ),
]


def space_arguments(
    columns: Path | None,
    mask: Path | None,
    scale: str | None,
    bounds: tuple[float, float],
    pool: Pool | None,
) -> dict[str, Any]:
    """`space`, `mask`, `scale` and `bounds` for `evaluate`; the mask is that of all images of the data."""
    from popskipjump import InputError, Space

    if columns is not None and (scale is not None or bounds != (0.0, 1.0)):
        raise InputError("--columns holds bounds and scales: leave out --bounds and --scale.")
    space = None if columns is None else Space.from_columns(columns)
    return {"space": space, "mask": mask_of(mask), "scale": _scale(scale, pool), "bounds": bounds}


def mask_of(mask: Path | None) -> Any:
    """The array that --mask names."""
    return None if mask is None else _array(mask, "--mask")


def masks_for(masks: np.ndarray, chosen: Selection) -> Any:
    """Of masks for each image of the data, those of the chosen ones; one mask for all is left as it is."""
    from popskipjump import InputError

    if masks.ndim != chosen.images.ndim or len(masks) < 2:
        return masks
    if chosen.image_ids.max() >= len(masks):
        raise InputError(f"--mask has masks for {len(masks)} images, and image {chosen.image_ids.max()} is asked for.")
    return masks[chosen.image_ids]


def scale_of(text: str | None) -> Any:
    """What --scale says: a word, a number, or an array."""
    if text in (None, "range", "std"):
        return text
    try:
        return float(str(text))
    except ValueError:
        return _array(Path(str(text)), "--scale")


def _scale(text: str | None, pool: Pool | None) -> Any:
    from popskipjump import InputError

    if text == "std":
        if pool is None:
            raise InputError("--scale std takes the deviations of the data: leave out --starts noise.")
        spread = pool.images.double().std(dim=0, correction=0).numpy()
        spread[spread == 0] = 1.0  # a constant feature has no unit of its own
        return spread
    return scale_of(text)


def _array(path: Path, option: str) -> np.ndarray:
    import numpy as np

    from popskipjump import DataError

    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{option}: {path} cannot be read as a .npy file ({error}).") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise DataError(f"{option}: {path} must be one .npy array of numbers.")
    return array
