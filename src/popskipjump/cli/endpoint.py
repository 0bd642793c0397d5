"""A server's address on the command line, and what became of the queries that were sent to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from popskipjump.cli.console import output
from popskipjump.errors import InputError

AUTHORIZATION = "PSJ_AUTHORIZATION"  # environment variable: the value of the header Authorization
OUTCOMES = "outcomes.json"


def is_address(model: object) -> bool:
    """Whether `--model` names a server."""
    return isinstance(model, str) and model.startswith(("http://", "https://"))


def remote_model(url: str) -> Any:
    """The oracle of a server; reached here, so that a wrong address is found before the first query."""
    from popskipjump.integrations.http import Endpoint

    secrets = {"Authorization": AUTHORIZATION} if os.environ.get(AUTHORIZATION) else None
    endpoint = Endpoint(url, secrets=secrets)
    endpoint.connect()
    return endpoint


def tell_outcomes(model: Any, folder: Path | None) -> None:
    """Show what became of the queries to a server, write it to `outcomes.json`, and close; nothing for other models."""
    from popskipjump.integrations.http import Endpoint

    if not isinstance(model, Endpoint):
        return
    model.close()
    output().print(f"  {model.tally}", markup=False)
    if folder is not None:
        try:
            (folder / OUTCOMES).write_text(json.dumps(model.tally.as_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the outcomes cannot be written to {folder} ({error.strerror}).") from error
