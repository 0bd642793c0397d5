"""The code blocks and commands of a page in Markdown."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks_of(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands_of(page: Path, program: str) -> list[str]:
    """Lines that begin with the program, in blocks without a language."""
    text = "".join(body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind in ("", "bash"))
    return [line for line in text.splitlines() if line.startswith(f"{program} ")]
