"""Every block of docs/guide/classifiers.md runs as it stands."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "classifiers.md"
SECTIONS = {
    heading: "\n".join(re.findall(r"```python\n(.*?)```", body, flags=re.DOTALL))
    for heading, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
}


def packages(code: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {item.name.split(".")[0] for item in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("heading", SECTIONS)
def test_the_section_runs(heading: str) -> None:
    code = SECTIONS[heading]
    assert code, "a section without an example"
    missing = sorted(name for name in packages(code) if importlib.util.find_spec(name) is None)
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    space: dict[str, Any] = {"__name__": "page"}
    with torch.random.fork_rng():
        exec(compile(code, f"{PAGE.name}: {heading}", "exec"), space)  # noqa: S102
    report = space.get("report")
    if report is not None:
        if heading != "Hugging Face":  # random weights need not have a second class among the images
            assert all(status.has_point for status in report.status), str(report)
        assert report.queries.max() <= 300


def test_the_contract_of_the_page_holds() -> None:
    space: dict[str, Any] = {"__name__": "page"}
    exec(SECTIONS["Your own adapter"], space)  # noqa: S102
    claims = [name for name in dir(space["TestMine"]) if name.startswith("test_")]
    assert len(claims) >= 5
    for name in claims:
        getattr(space["TestMine"](), name)()
