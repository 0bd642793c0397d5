"""Everything this package raises on purpose.

PopSkipJumpError
├── InputError          what was passed cannot be used (also a ValueError)
│   ├── DataError       a file or folder does not hold what its format promises
│   └── UnknownNameError  no attack, noise model or norm of that name
├── OracleError         the classifier's answer cannot be used
├── AssumptionError     the answers contradict what was declared of the classifier
├── BudgetError         a query would exceed the budget (a part forgot to ask first)
├── StorageError        a run's folder cannot be read or written; nothing in it was overwritten
│   ├── NotARunError    no run, or a run of another spec or of another version of the files
│   ├── DamagedRunError a file of the run does not hold what was written to it
│   └── BusyRunError    another process is at work in the folder
├── EngineError         processes that should attack images cannot be started, or keep dying
└── MissingExtraError   an optional dependency is not installed (also an ImportError)
"""

from __future__ import annotations

from collections.abc import Iterable


class PopSkipJumpError(Exception):
    """Base of every error raised on purpose."""


class InputError(PopSkipJumpError, ValueError):
    """What was passed cannot be used; raised before the first query."""


class DataError(InputError):
    """A file or folder does not hold what its format promises."""


class UnknownNameError(InputError):
    """No such name; the message lists the known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}: choose one of {', '.join(sorted(known))}.")


class OracleError(PopSkipJumpError):
    """The classifier's answer cannot be used."""

    report: object = None  # of what was found before, where an evaluation was under way: a `Report`


class AssumptionError(PopSkipJumpError):
    """The answers contradict what was declared of the classifier; no result can be given."""


class BudgetError(PopSkipJumpError):
    """A query would exceed the budget; nothing was asked."""


class StorageError(PopSkipJumpError):
    """A run's folder cannot be read or written; nothing in it was overwritten."""


class NotARunError(StorageError):
    """The folder holds no run, or one of another spec or of another version of the files."""


class DamagedRunError(StorageError):
    """A file of the run does not hold what was written to it."""


class BusyRunError(StorageError):
    """Another process is at work in the folder."""


class EngineError(PopSkipJumpError):
    """Processes that should attack images cannot be started, or keep dying; what was answered is kept."""


class MissingExtraError(PopSkipJumpError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f'{package} is not installed: pip install "popskipjump[{extra}]".')
