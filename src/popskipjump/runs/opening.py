"""Loading of stored results: a report file, or the folder of a run."""

from __future__ import annotations

from pathlib import Path

from popskipjump import Report
from popskipjump.evaluation.saved import load_report
from popskipjump.runs.data import load as load_run
from popskipjump.runs.keep import report_of


def load(path: str | Path) -> Report:
    """The report in a file that `Report.save` wrote, or of the finished images of a run's folder.

    Raises:
        DataError: the file is no report.
        StorageError: the folder is no run, or it is damaged.
    """
    place = Path(path)
    return report_of(load_run(place)) if place.is_dir() else load_report(place)
