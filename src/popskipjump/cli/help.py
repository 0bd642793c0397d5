"""Layout of the help texts: options in groups, flags without a value, an example for every command."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("psj demo --images 4",),
    "attack": (
        "psj attack --images 5 --noise flip:0.1",
        "psj attack --model mine.py:make --data mine.npz --budget 2000 --out run",
        "psj attack --attack hsj --votes 3 --iterations 20",
    ),
    "attacks": ("psj attacks",),
    "noises": ("psj noises",),
    "reproduce": ("psj reproduce table-1 --quick", "psj reproduce --list"),
    "runs": ("psj runs", "psj runs psj-reproduce/runs"),
    "resume": ("psj resume run", "psj resume run --model mine.py:make"),
    "report": ("psj report run --out page.html",),
    "watch": ("psj watch run", "psj watch run --out steps.html"),
    "check": ("psj check --model mine.py:make --data mine.npz",),
    "compare": ("psj compare embedded embedded --defended-noise dropout:0.5",),
    "certify": ("psj certify --sigma 0.25 --images 5",),
    "curve": ("psj curve run --eta 0.5 1 2",),
    "gate": ("psj gate robustness.toml",),
    "card": ("psj card run --out card",),
    "serve": ("psj serve --noise flip:0.1 --port 8000",),
    "human": ("psj human --images 1 --budget 100 --study my-study",),
}
EXIT_CODES = (
    "Exit codes: 0 done; 2 wrong input; 130 stopped by Ctrl-C; 143 stopped by SIGTERM. "
    "`psj gate`: 1 worse than the limits; 3 undecided."
)
START = """Measure how robust a classifier is, using only its predicted labels, even when they are noisy.

Where to start:
  psj demo                                 four attacks side by side: a table and two pictures, in minutes
  psj attack --images 5                    the embedded network: how far is its border? Seconds
  psj attack --model mine.py:make --data mine.npz --out run
                                           your own model; the same command goes on after Ctrl-C
  psj check --model mine.py:make --data mine.npz
                                           is this classifier noisy, and how?
  psj report run                           a run as one page to look at
  psj watch run                            a run under way, iteration by iteration, in the browser

Usage: psj COMMAND [OPTIONS]. All commands: psj --help. Shell completion: psj --install-completion
"""
_NO_VALUE = " "  # typer writes <bool> beside a flag that has no metavar, as if it took a value
_SPEED, _RAY = "threads optimize memory timeout", "engine address workers worker_cpus worker_gpus"
# The groups below the plain options, for commands that have many: name of the group -> the options in it.
_PANELS: dict[str, dict[str, str]] = {
    "attack": {
        "How the attack runs": "targeted starts votes iterations stop_distance verdict seed",
        "Values of an input": "bounds mask scale columns",
        "Speed": _SPEED,
        "Workers on Ray": _RAY,
    },
    "resume": {"Speed": _SPEED, "Workers on Ray": _RAY},
    "reproduce": {"Workers on Ray": _RAY},
}


def examples_of(name: str) -> str:
    """The examples of a command, for the end of its help."""
    given = EXAMPLES.get(name, ())
    return "\n\n".join(("Example:" if len(given) == 1 else "Examples:", *(f"    {line}" for line in given)))


def _shown(params: list[Any], command: str | None) -> list[Any]:
    """The parameters as help shows them: flags as flags, options in groups."""
    panels = {name: panel for panel, names in _PANELS.get(command or "", {}).items() for name in names.split()}
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = _NO_VALUE
        if param.name in panels:
            param.rich_help_panel = panels[param.name]
    return params


class Command(TyperCommand):
    """A command whose help is easy to read."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, `--help` included."""
        return _shown(super().get_params(ctx), self.name)


class Group(TyperGroup):
    """`psj` itself, likewise."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, `--help` included."""
        return _shown(super().get_params(ctx), None)
