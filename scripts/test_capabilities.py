"""Run the tests of the attacks under every instruction set of torch that this processor has.

    python scripts/test_capabilities.py

Last digits differ between instruction sets, and with them the walks of the attacks: what the tests claim must hold on
all of them. The one that torch picks by itself is left out, because the other tests have just run with it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import torch

CAPABILITIES = {"DEFAULT": "default", "AVX2": "avx2", "AVX512": "avx512"}  # what torch says, what it is told
TESTS = ("tests/unit/attacks", "-m", "not slow", "-n", "2", "--dist", "worksteal")


def others() -> list[str]:
    """The instruction sets below the one that torch picks."""
    names = list(CAPABILITIES)
    mine = torch.backends.cpu.get_cpu_capability()
    return [CAPABILITIES[name] for name in names[: names.index(mine)]] if mine in names else ["default"]


def main() -> int:
    """The exit code: 0 if all passed."""
    for capability in others():
        print(f"tests of the attacks with ATEN_CPU_CAPABILITY={capability}", flush=True)
        environment = os.environ | {"ATEN_CPU_CAPABILITY": capability}
        command = [sys.executable, "-m", "pytest", *TESTS]
        if code := subprocess.run(command, env=environment, check=False).returncode:  # noqa: S603
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
