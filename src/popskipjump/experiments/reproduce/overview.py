"""Overview of all experiments: our numbers beside the paper's, and a verdict on each claim of its introduction."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from popskipjump.errors import DataError
from popskipjump.experiments.reproduce.base import Table
from popskipjump.experiments.reproduce.numbers import all_of
from popskipjump.experiments.reproduce.pages import SCHEMA, WORDS, markdown_of, sample_of
from popskipjump.experiments.reproduce.registry import EXPERIMENTS

Result = Mapping[str, Any]  # the content of a result.json


PLACES = {"--data": "DIR", "--weights": "FILE", "--out": "DIR"}  # options that name a place on one machine
CLAIMS = (  # the contributions that the paper's introduction names
    "PSJ outperforms majority voting on repeated queries.",
    "PSJ adapts its queries to keep HSJ's output quality at every iteration over growing noise.",
    "PSJ converges to HSJ's query efficiency as answers become deterministic.",
    "PSJ works with various noise models.",
)


def read_results(folders: Iterable[Path]) -> dict[str, Result]:
    """The results of every experiment, from the folders of one or several reproductions; a later folder counts."""
    found: dict[str, Result] = {}
    for folder in folders:
        for name in EXPERIMENTS:
            path = folder / name / "result.json"
            if not path.is_file():
                continue
            try:
                result = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise DataError(f"{path} cannot be read ({error}): repeat `psj reproduce {name}`.") from error
            if not isinstance(result, dict) or result.get("schema") != SCHEMA:
                raise DataError(f"{path} is not of schema {SCHEMA}: repeat `psj reproduce {name}` with this version.")
            found[name] = result
    return found


def tests_of(number: int, results: Mapping[str, Result]) -> dict[str, bool | None]:
    """What each experiment says of one of the claims, counted from 1."""
    return {name: result["claims"][str(number)] for name, result in results.items() if str(number) in result["claims"]}


def verdict_on(number: int, results: Mapping[str, Result]) -> bool | None:
    """Supported if every test supports it, refuted if one does not, else undecided."""
    tests = tests_of(number, results)
    return all_of(tests.values()) if tests else None


def overview_of(results: Mapping[str, Result], pictures: Mapping[str, str]) -> str:
    """The page, in Markdown.

    Args:
        results: by the name of the experiment.
        pictures: of some experiments, the address of the figure.
    """
    missing = [name for name in EXPERIMENTS if name not in results]
    lines = [*_claims(results), "", "## Every table and figure", "", *sections_of(results, pictures)]
    lines += ["", f"Not run: {', '.join(missing)}."] if missing else []
    return "\n".join([*lines, ""])


def sections_of(results: Mapping[str, Result], pictures: Mapping[str, str]) -> list[str]:
    """The lines on each experiment; see `overview_of`."""
    lines: list[str] = []
    for name in (name for name in EXPERIMENTS if name in results):
        lines += ["", f"### {name}: {results[name]['title']}", "", *_section(results[name], pictures.get(name))]
    return lines[1:]


def _claims(results: Mapping[str, Result]) -> list[str]:
    lines = ["## The claims of the introduction", "", "| claim | supported | tests |", "|---|---|---|"]
    for number, claim in enumerate(CLAIMS, start=1):
        tests = [f"{name}: {WORDS[value]}" for name, value in tests_of(number, results).items()]
        shown = WORDS[verdict_on(number, results)]
        lines.append(f"| ({number}) {claim} | **{shown}** | {', '.join(tests) or 'not run'} |")
    lines += ["", *_reasons(results), ""] if any(result.get("reasons") for result in results.values()) else [""]
    lines += [
        "A claim is supported if all its tests are, and not supported if one test is not. A test looks at the part of "
        "an experiment that the claim speaks of, so that its answer may differ from the experiment's own below. "
        "Undecided: the images are too few to tell, or the queries were capped.",
    ]
    return lines


def _reasons(results: Mapping[str, Result]) -> list[str]:
    """What each answer hangs on, claim by claim."""
    lines = []
    for number in range(1, len(CLAIMS) + 1):
        words = [
            f"{name}, {results[name]['images']}: {results[name]['reasons'][str(number)]}"
            for name in tests_of(number, results)
            if str(number) in results[name].get("reasons", {})
        ]
        lines += [f"- ({number}) {'. '.join(words)}."] if words else []
    return lines


def _section(result: Result, picture: str | None) -> list[str]:
    if "section" in result:  # of an earlier version, whose numbers are gone
        return [str(result["section"])]
    table = Table(tuple(result["columns"]), [tuple(row) for row in result["rows"]])
    lines = [
        f"**Claim.** {result['claim']}",
        "",
        f"**Supported: {WORDS[result['supported']]}.** {result['finding']}",
        "",
        *([f"**Our own attack.** {result['ours']}", ""] if result.get("ours") else []),
        f"{sample_of(result)} `{for_all_machines(result['origin']['command'])}`",
        *[f"{note}" for note in result["notes"]],
    ]
    if picture:
        lines += ["", f"![{result['title']}]({picture})"]
    return [*lines, "", *_folded(markdown_of(table), len(table.rows))]


def _folded(table: str, rows: int, most: int = 16) -> Sequence[str]:
    """A long table behind a click."""
    if rows <= most:
        return [table]
    return ['<details markdown="1"><summary>The table</summary>', "", table, "", "</details>"]


def for_all_machines(command: str) -> str:
    """A command as others may type it: files and folders of one machine become words for what they are."""
    words = shlex.split(command)
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if equals and option in PLACES:
            words[place] = f"{option}={PLACES[option]}"
        elif place and words[place - 1] in PLACES:
            words[place] = PLACES[words[place - 1]]
        elif place and words[place - 1] == "--model":
            words[place] = word.rpartition("/")[2]
        elif equals and option == "--model":
            words[place] = f"{option}={value.rpartition('/')[2]}"
    return shlex.join(words)
