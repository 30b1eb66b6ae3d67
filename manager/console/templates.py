"""Templates and static files of the pages, read when the first browser comes."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from manager.api import ObjectKey
from manager.console.explanation import ago, next_run, owner_text, reason_of
from manager.telemetry.logs import on_one_line, shortened
from manager.util.duration import format_duration

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

_LONGEST = 2000
"""Characters that are shown of a text."""


class Templates:
    """The pages' templates, and the files that pages load."""

    def __init__(self) -> None:
        self._environment: Environment | None = None
        self._files: dict[str, bytes] = {}
        self._version = ""

    async def file(self, name: str) -> tuple[bytes, str] | None:
        """Return a static file and its content type."""
        await self._opened()
        return (self._files[name], _TYPES[Path(name).suffix]) if name in self._files else None

    async def render(self, name: str, shown: dict[str, Any], part: str | None = None) -> str:
        """Render a template, or one block of it."""
        template = (await self._opened()).get_template(name)
        if part is None:
            return template.render(version=self._version, **shown)
        return "".join(template.blocks[part](template.new_context(shown)))

    async def _opened(self) -> Environment:
        if self._environment is None:
            files, environment = await asyncio.to_thread(read_templates)
            self._version = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
            self._files, self._environment = files, environment
        return self._environment


def read_templates() -> tuple[dict[str, bytes], Environment]:
    """Read the static files and the templates, and compile these."""
    # Imported only for the first browser: 24 ms, 2 MB.
    from jinja2 import DictLoader, Environment, StrictUndefined  # noqa: PLC0415

    files = {path.name: path.read_bytes() for path in (_HERE / "static").iterdir() if path.suffix in _TYPES}
    templates = {path.name: path.read_text() for path in (_HERE / "templates").iterdir()}
    environment = Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_printable,
    )
    environment.filters |= {
        "ago": ago,
        "said": reason_of,
        "next_run": next_run,
        "owner": owner_text,
        "taking": _taking,
        "address": object_address,
    }
    for name in templates:
        environment.get_template(name)
    return dict(sorted(files.items())), environment


def object_address(key: ObjectKey, resource: str) -> str:
    """Return the path of an object's page."""
    return "/".join(["/objects", *(quote(each, safe="") for each in (resource, *key) if each)])


def _printable(value: Any) -> Any:
    """Return a text without bidirectional and invisible characters; it is escaped after this."""
    return on_one_line(shortened(value, _LONGEST)) if type(value) is str else value


def _taking(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds else "0"
    return format_duration(round(seconds, 1 if seconds < 10 else None))  # noqa: PLR2004 - as people round
