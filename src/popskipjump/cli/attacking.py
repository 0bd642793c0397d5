"""Implementation of `psj attack`: a direct evaluation, or a run in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer

from popskipjump import Hooks, InputError, OracleError, Pool, PopSkipJumpError, Report, Status, evaluate
from popskipjump.attacks import Retry
from popskipjump.cli.console import INTERRUPTED, notes, output, say, tell_files, tell_json
from popskipjump.cli.endpoint import at_once, is_address, overlapping, tell_outcomes
from popskipjump.cli.inputs import Selection, load_images, load_model
from popskipjump.cli.output import folder_for
from popskipjump.cli.progress import Bar
from popskipjump.cli.space import mask_of, masks_for, space_arguments
from popskipjump.cli.table import attack_table, is_table, with_space, write_table
from popskipjump.evaluation.hooks import BORDER_ROWS
from popskipjump.evaluation.spaced import described, wants_space
from popskipjump.runs.collect import collect, source_of
from popskipjump.runs.engine import Engine
from popskipjump.runs.keep import evaluate_in, report_content, report_of, write_results
from popskipjump.runs.source import Source

_USUAL = 13_000  # queries of an image, for attacks without a budget
NOISE = "noise"  # of --starts
PASSED = ("attack", "noise", "norm", "votes", "iterations", "budget", "seed", "stop_distance", "verdict")


def attack_at_once(
    given: dict[str, Any],
    *,
    columns: Path | None = None,
    mask: Path | None = None,
    retry: Retry | None = None,
    as_json: bool = False,
) -> None:
    """Attack and show the summary.

    Args:
        given: the options of the command.
        columns: `--columns`.
        mask: `--mask`.
        retry: what happens when a call to the model fails.
        as_json: show what report.json says instead of the summary.
    """
    if is_table(given["data"]):
        _attack_table(given, columns, mask, retry, as_json)
        return
    chosen = _chosen(given, columns)
    within = space_arguments(columns, mask, given["scale"], given["bounds"], chosen.pool)
    if within["mask"] is not None:
        within["mask"] = masks_for(within["mask"], chosen)
    network = load_model(given["model"], given["weights"], optimize=given["optimize"])
    after = BORDER_ROWS / (given["budget"] or _USUAL)  # border distances take so much longer
    with Bar(notes(), 1.0 + after) as bar, _whose_images(given, chosen.images.shape[1:]):
        name = f"{given['attack']}, {len(chosen.images)} images"
        bar.stage(name)
        spaced = any(within[name] is not None for name in ("space", "mask", "scale"))
        asked = evaluate if spaced else at_once(network, len(chosen.images))
        report = asked(
            network,
            chosen.images,
            chosen.labels,
            targets=chosen.targets,
            starts=chosen.pool,
            image_ids=chosen.image_ids,
            keep_trace=False,
            retry=retry,
            hooks=Hooks(
                on_progress=bar.iteration,
                on_queries=bar.queries,
                on_border=partial(bar.within, "border distances", after),
            ),
            **{name: given[name] for name in PASSED},
            **within,
        )
        stopped = Status.INTERRUPTED in report.status
        if not stopped:
            bar.done(name)
    if as_json:
        tell_json(report_content(report, chosen.image_ids, {"spec": given}))
    else:
        output().print(str(report), markup=False)
    tell_outcomes(network, None, as_json)
    if stopped:
        raise typer.Exit(INTERRUPTED)


def _attack_table(
    given: dict[str, Any],
    columns: Path | None,
    mask: Path | None,
    retry: Retry | None,
    as_json: bool,
    out: Path | None = None,
) -> None:
    """`attack_at_once` for a table with a header; its results go into the empty folder `out`, if there is one."""
    with Bar(notes()) as bar:
        passed = {name: given[name] for name in PASSED}
        report, chosen = attack_table(given, passed, columns, mask_of(mask), retry, bar)
        bar.done()
    if as_json:
        tell_json(report_content(report, chosen, {"spec": with_space(given, report)}))
    else:
        output().print(str(report), markup=False)
    if out is not None:
        tell_files(write_table(out, report, chosen, given), as_json)
    if Status.INTERRUPTED in report.status:
        raise typer.Exit(INTERRUPTED)


def attack_in_folder(
    out: Path,
    given: dict[str, Any],
    *,
    columns: Path | None = None,
    mask: Path | None = None,
    force: bool = False,
    engine: Engine | None = None,
    memory: int | None = None,
    retry: Retry | None = None,
    as_json: bool = False,
) -> None:
    """Attack in a run's folder, from where it is, and write the results beside it."""
    table = is_table(given["data"])
    if engine is not None and (table or is_address(given["model"])):
        raise InputError("workers cannot attack a server, nor a .csv file: leave out --engine and --workers.")
    if table:
        say("a run on a .csv file cannot be resumed: the folder gets the results.")
        _attack_table(given, columns, mask, retry, as_json, folder_for(out, force=force))
        return
    with Bar(notes()) as bar:
        try:
            report = (
                _served(out, given, columns, mask, bar, retry, as_json)
                if is_address(given["model"])
                else _collected(out, given, columns, mask, bar, force, engine, memory, retry, as_json)
            )
        except KeyboardInterrupt:
            with suppress(PopSkipJumpError):  # no image may be finished yet
                write_results(out, given)
            raise
        bar.done()
    files = write_results(out, given)
    if as_json:
        tell_json(json.loads(files[0].read_bytes()))
    else:
        output().print(str(report), markup=False)
    tell_files(files, as_json)


def _collected(
    out: Path,
    given: dict[str, Any],
    columns: Path | None,
    mask: Path | None,
    bar: Bar,
    force: bool,
    engine: Engine | None,
    memory: int | None,
    retry: Retry | None,
    as_json: bool,
) -> Report:
    """A run on a model that its spec can name."""
    data, model = given["data"], given["model"]
    dataset = "mnist" if data is None else "file" if columns is None else "table"
    source = source_of(
        dataset,
        data,
        model or "mnist-cnn",
        given["weights"],
        given["bounds"],
        targeted=given["targeted"],
        optimize=given["optimize"],
    )
    source = replace(_in_space(source, given, columns, mask), retry=retry)
    wanted = _wanted(given, source.labels)
    _say_how_many(given, len(wanted))
    choices = {name: given[name] for name in PASSED if name != "iterations" or given[name] is not None}
    spec = source.spec(**choices, starts="noise" if given["starts"] == NOISE else "pool")
    out = out.resolve()
    if not (out / "spec.json").is_file():
        folder_for(out, ("lock",), force=force)
    bar.stage(f"{given['attack']}, {len(wanted)} images")
    whose = _whose_images(given, source.images.shape[1:])
    with whose, overlapping(source.model, out, len(wanted), engine, as_json) as chosen:
        found = collect(
            spec,
            wanted,
            out.parent,
            source=source,
            name=out.name,
            force=force,
            engine=chosen,
            memory=memory,
            on_queries=bar.queries,
            on_progress=lambda now: bar.share(now.share),
            on_note=say,
        )
    return report_of(found)


def _in_space(source: Source, given: dict[str, Any], columns: Path | None, mask: Path | None) -> Source:
    """The source with the space that --columns, --mask and --scale describe."""
    pool = None if given["starts"] == NOISE else Pool(torch.from_numpy(source.images), torch.from_numpy(source.labels))
    within = space_arguments(columns, mask, given["scale"], given["bounds"], pool)
    if not wants_space(**within):
        return source
    given_masks = within["mask"]
    if given_masks is not None and given_masks.ndim == source.images.ndim and 1 < len(given_masks) < len(source.images):
        raise InputError(f"--mask has masks for {len(given_masks)} images, and the data has {len(source.images)}.")
    space, masks = described(**within, shape=source.images.shape)
    place = source.place if masks is None else source.place._replace(mask=str(Path(str(mask)).resolve()))
    return replace(source, space=space, masks=masks, place=place)


def _served(
    out: Path,
    given: dict[str, Any],
    columns: Path | None,
    mask: Path | None,
    bar: Bar,
    retry: Retry | None,
    as_json: bool,
) -> Report:
    """A run on a server, which is known by its address; the same command goes on with it."""
    chosen = _chosen(given, columns)
    within = space_arguments(columns, mask, given["scale"], given["bounds"], chosen.pool)
    if within["mask"] is not None:
        within["mask"] = masks_for(within["mask"], chosen)
    network = load_model(given["model"], given["weights"], optimize=given["optimize"])
    bar.stage(f"{given['attack']}, {len(chosen.images)} images")
    with overlapping(network, out, len(chosen.images), None, as_json) as engine:
        return evaluate_in(
            out,
            network,
            chosen.images,
            chosen.labels,
            targets=chosen.targets,
            starts=chosen.pool,
            **within,
            engine=engine,
            name=str(given["model"]).rstrip("/").rpartition("/")[2],
            digest=str(given["model"]).partition("://")[2].replace("/", ":"),
            retry=retry,
            on_queries=bar.queries,
            on_progress=lambda now: bar.share(now.share),
            on_note=say,
            **{name: given[name] for name in PASSED},
        )


def _chosen(given: dict[str, Any], columns: Path | None) -> Selection:
    """The images of the command; with columns, the rows of the file as they are."""
    chosen = load_images(
        given["data"],
        given["images"],
        given["start_index"],
        targeted=given["targeted"],
        from_noise=given["starts"] == NOISE,
        bounds=None if columns is not None else given["bounds"],
    )
    _say_how_many(given, len(chosen.images))
    return chosen


def _wanted(given: dict[str, Any], labels: Any) -> list[int]:
    """The numbers of the images to attack."""
    first, count = given["start_index"], len(labels)
    if first >= count:
        raise InputError(f"--start-index {first} is beyond the last of {count} images, counted from 0.")
    if given["starts"] != NOISE and len(set(labels.tolist())) < 2:
        raise InputError("all images are of one class, so none can be the start of another: pass --starts noise.")
    return list(range(first, min(first + given["images"], count)))


def _say_how_many(given: dict[str, Any], count: int) -> None:
    if count < given["images"]:
        say(f"only {count} images from number {given['start_index']} on, not the {given['images']} asked for.")


@contextmanager
def _whose_images(given: dict[str, Any], shape: tuple[int, ...]) -> Iterator[None]:
    """Name the images as the likely cause if a model of the user's own fails on every one of the embedded ones."""
    try:
        yield
    except OracleError as error:
        if given["model"] is None or given["data"] is not None:
            raise
        raise OracleError(
            f"{error} No --data was given, so that the embedded MNIST images were used, of shape {tuple(shape)}: pass "
            "--data with images that the model was made for."
        ) from error
