"""Write the tree of the source into docs/architecture.md, from the first line of every docstring.

usage: python scripts/write_tree.py

A test compares the page with the files, so that it is always true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree: written by scripts/write_tree.py -->", "<!-- end of the tree -->"
_COLUMN = 34  # where descriptions begin


def summary(path: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0]


def lines(folder: Path, depth: int = 0) -> Iterator[str]:
    """A folder, its files and the folders in it."""
    yield f"{'  ' * depth}{folder.name}/".ljust(_COLUMN) + summary(folder / "__init__.py")
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield f"{'  ' * (depth + 1)}{path.name}".ljust(_COLUMN) + summary(path)
    for inside in sorted(path for path in folder.iterdir() if (path / "__init__.py").exists()):
        yield from lines(inside, depth + 1)


def page() -> str:
    """The whole page, with the tree as the files are."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    tree = "\n".join(line.rstrip() for line in lines(ROOT / "src" / "popskipjump"))
    return f"{before}{BEGIN}\n```\n{tree}\n```\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
