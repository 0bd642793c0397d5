from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import popskipjump
from popskipjump import noise
from popskipjump.attacks import ATTACKS
from popskipjump.cli.app import COMMANDS
from popskipjump.cli.commands import attacks, noises
from popskipjump.cli.progress import Bar

from .conftest import Psj

NAMES = [command.__name__ for command in COMMANDS]


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_every_command_has_an_example(psj: Psj, name: str) -> None:
    result = psj(name, "--help")
    assert result.exit_code == 0
    assert f"psj {name}" in result.output.partition("Example")[2]


@pytest.mark.parametrize("words", [(), *((name,) for name in NAMES)])
def test_a_flag_is_not_shown_as_taking_a_value(psj: Psj, words: tuple[str, ...]) -> None:
    assert "bool" not in psj(*words, "--help").output


def test_the_many_options_of_an_attack_are_in_groups(psj: Psj) -> None:
    shown = psj("attack", "--help").stdout
    groups = ["Options", "How the attack runs", "Values of an input", "Speed", "Workers on Ray"]
    places = [shown.index(f"─ {name} ─") for name in groups]
    assert places == sorted(places)
    assert shown.index("--budget") < places[1] < shown.index("--votes") < places[2] < shown.index("--mask") < places[3]
    assert places[3] < shown.index("--threads") < places[4] < shown.index("--workers")


def test_the_command_alone_says_where_to_start(psj: Psj) -> None:
    result = psj()
    assert result.exit_code == 0
    assert "psj demo" in result.stdout
    assert "psj --help" in result.stdout


def test_exit_codes_and_completion_are_part_of_the_help(psj: Psj) -> None:
    shown = psj("--help").output
    assert "130" in shown
    assert "--install-completion" in shown


def test_a_folder_without_runs_is_named_in_full(psj: Psj, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = psj("runs", ".")
    assert f"no runs in the folder {tmp_path.resolve()}" in result.output


def test_runs_are_looked_for_here_and_where_reproduce_keeps_them(
    psj: Psj, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"no runs in the folder {tmp_path.resolve()}" in psj("runs").output
    assert psj("attack", "--images", 1, "--budget", 60, "--out", "psj-reproduce/runs/kept").exit_code == 0
    assert "kept" in psj("runs").output
    assert psj("attack", "--images", 1, "--budget", 60, "--out", "mine").exit_code == 0
    assert "mine" in psj("runs").output
    assert "kept" not in psj("runs").output


def test_the_last_line_of_progress_names_the_attack() -> None:
    log = io.StringIO()
    with Bar(Console(file=log, force_terminal=True, width=100)) as bar:
        bar.stage("qsj, 3 images")
        bar.queries(5)
        bar.within("border distances", 0.1, 0.5)
        bar.done("qsj, 3 images")
    assert "qsj, 3 images" in log.getvalue().splitlines()[-2]  # after it the cursor is shown again


def test_a_log_gets_a_line_every_thirty_seconds() -> None:
    now = [0.0]
    log = io.StringIO()
    with Bar(Console(file=log, force_terminal=False), clock=lambda: now[0]) as bar:
        bar.stage("qsj, 3 images")
        for second in range(0, 100, 10):
            now[0] = float(second)
            bar.queries(50)
            bar.share(second / 100)
    lines = [line for line in log.getvalue().splitlines() if "qsj, 3 images:" in line]
    assert len(lines) == 3  # after 30, 60 and 90 seconds
    assert "350 queries" in lines[1]


def test_the_version_is_that_of_the_package(psj: Psj) -> None:
    assert psj("--version").stdout == f"popskipjump {popskipjump.__version__}\n"


def test_an_unknown_option_is_exit_code_2(psj: Psj) -> None:
    assert psj("attack", "--no-such-option").exit_code == 2


def test_the_listed_attacks_are_those_that_exist(psj: Psj) -> None:
    assert attacks.ATTACKS.keys() == ATTACKS.keys()
    assert all(name in psj("attacks").stdout for name in ATTACKS)


def test_the_listed_noises_are_spelled_as_the_library_reads_them(psj: Psj) -> None:
    listed = psj("noises").stdout
    for name in noises.NOISES:
        assert noise.describe(name) == name
        assert name in listed


def test_every_noise_that_has_a_spelling_is_listed() -> None:
    with pytest.raises(popskipjump.UnknownNameError) as caught:
        noise.noise_of("no such noise")
    known = re.search(r"choose one of (.*)\.$", str(caught.value))
    assert known is not None
    assert set(known.group(1).split(", ")) == set(noises.NOISES)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "popskipjump", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"popskipjump {popskipjump.__version__}\n"


def test_ctrl_c_during_the_import_leaves_no_traceback() -> None:
    code = """
import builtins, runpy, sys
real = builtins.__import__
def stopped(name, *rest, **named):
    if name == "typer":
        raise KeyboardInterrupt
    return real(name, *rest, **named)
builtins.__import__ = stopped
runpy.run_module("popskipjump", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted: nothing was done.\n"
