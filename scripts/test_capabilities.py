"""Run the tests of the attacks under every instruction set of torch that this processor has, and several threads.

    python scripts/test_capabilities.py          # all tests of the attacks: minutes for each
    python scripts/test_capabilities.py --quick  # a choice of them, of which every walk is a part: seconds for each

Last digits differ between instruction sets, and with them the walks of the attacks: what the tests claim must hold on
all of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import torch

CAPABILITIES = {"DEFAULT": "default", "AVX2": "avx2", "AVX512": "avx512"}  # what torch says, what it is told
THREADS = (1, 2, 4)
ALL = ("tests/unit/attacks", "-m", "not slow", "-n", "2", "--dist", "worksteal")
QUICK = (
    "tests/unit/evaluation/test_trust.py",
    "tests/unit/attacks/test_boundary_walk.py",
    "tests/unit/attacks/test_boundary_attack.py",
    "tests/unit/attacks/test_straight_steps.py",
    "tests/unit/attacks/test_warm_started_search.py",
    "tests/unit/attacks/test_quick_skip_jump.py::test_a_targeted_attack_ends_in_its_target",
    "-m", "not slow",
)  # fmt: skip


def capabilities() -> list[str]:
    """The instruction sets that this processor has, the one that torch picks by itself last."""
    names = list(CAPABILITIES)
    mine = torch.backends.cpu.get_cpu_capability()
    return [CAPABILITIES[name] for name in names[: names.index(mine) + 1]] if mine in names else ["default"]


def settings(quick: bool) -> list[tuple[str, int]]:
    """Instruction sets and threads to test: in a quick run each set once, with another number of threads."""
    found = capabilities()
    if quick:
        return [(name, THREADS[place % len(THREADS)]) for place, name in enumerate(found)]
    return [(name, threads) for name in found for threads in THREADS]


def passed(capability: str, threads: int, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass in this setting."""
    print(f"tests of the attacks with ATEN_CPU_CAPABILITY={capability}, {threads} threads", flush=True)
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability, "POPSKIPJUMP_TEST_THREADS": str(threads)}
    environment["OMP_NUM_THREADS"] = str(threads)
    environment["OMP_WAIT_POLICY"] = "PASSIVE"  # threads that wait actively take turns on a busy machine, for minutes
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    return subprocess.run(command, env=environment, check=False).returncode == 0  # noqa: S603


def main() -> int:
    """The exit code: 0 if all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a choice of the tests")
    options = parser.parse_args()
    every = [passed(*setting, QUICK) for setting in settings(options.quick)]
    if not options.quick:  # what torch picks by itself, the other tests have just run with
        every += [passed(name, 1, ALL) for name in capabilities()[:-1]]
    return 0 if all(every) else 1


if __name__ == "__main__":
    sys.exit(main())
