"""Every page of documentation that is kept in the repository."""

from __future__ import annotations

from pathlib import Path

from tests.support.markdown import Page

_PLACES = ("*.md", "docs/**/*.md", "examples/**/*.md")

PAGES = [Page(path) for place in _PLACES for path in sorted(Path().glob(place))]
