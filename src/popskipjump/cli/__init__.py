"""The command `psj`: one file for each command, and no logic."""

from popskipjump.cli.app import app, main

__all__ = ["app", "main"]
