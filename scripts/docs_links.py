"""For mkdocs: links from the documentation to other files of the repository become the files' names.

The site holds `docs/` alone. A link that leaves it must lead to a file that exists, or the build fails. The theme's
search gets the name that a screen reader needs.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")
SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'
log = logging.getLogger("mkdocs.hooks.docs_links")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    here = (ROOT / "docs" / page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (here / link[3]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if not target.exists():
            log.warning("%s has a link to %s, which does not exist", page.file.src_uri, link[3])
        return f"{link[2]} (`{target.relative_to(ROOT).as_posix()}`)"

    return LINK.sub(named, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Called by mkdocs with the HTML of every page."""
    return output.replace(SEARCH, f'{SEARCH} aria-label="Search"')
