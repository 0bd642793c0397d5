"""Output folders of commands."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from popskipjump.cli.console import output, tell_json
from popskipjump.errors import InputError

if TYPE_CHECKING:
    from popskipjump.questions.answer import Answer


def tell_answer(answer: Answer, as_json: bool) -> None:
    """The answer to a question: in words, or as its file of JSON has it."""
    if not as_json:
        output().print(str(answer), markup=False)
        return
    import json

    from popskipjump.questions.answer import json_text

    tell_json(json.loads(json_text(answer)))


def folder_for(path: Path, own: Collection[str] = (), *, force: bool = False) -> Path:
    """The folder to write to, made if need be; one that holds other files than `own` is refused without `force`.

    Called before the first query, so that no run is lost to a path that cannot be written. Hidden files do not count.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)  # of a run: for its owner alone
        names = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        raise InputError(f"{path} cannot be used as a folder ({error.strerror}): choose another --out.") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"nothing can be written to {path}: choose another --out.")
    others = [name for name in names if name not in own and not name.startswith(".")]
    if others and not force:
        raise InputError(
            f"{path} is not empty (it holds {others[0]}{', ...' if len(others) > 1 else ''}): choose another --out, or "
            "pass --force to write into it all the same."
        )
    return path
