"""Responses of the console: templates and static files, and the debug pages."""

from __future__ import annotations

import asyncio
import cProfile
import hashlib
import io
import pstats
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from aiohttp.typedefs import Handler
from aiohttp.web import Request, Response

from manager.api import ObjectKey
from manager.telemetry.logs import on_one_line, shortened
from manager.telemetry.watchdog import frames_of
from manager.util.duration import format_duration
from manager.util.loop import in_thread
from manager.util.program import Program
from manager_console.diagnosis.explanation import ago, next_run, owner_text, reason_of

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

_LONGEST = 2000
"""The maximum number of characters that are shown of a text."""

_LONGEST_PROFILE, _PROFILE_LINES = 30.0, 60
"""The maximum length of a profile in seconds, because it slows everything down; and its number of lines."""

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_POLICY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with a stricter policy, forms would have no Origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def audience_of(program: Program) -> str:
    """Return the audience of tokens that are valid only for the program's console."""
    return f"{program.name}-console"


def answer(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    """Return a response with these headers, in addition to those of every response."""
    return Response(status=status, headers={**_HEADERS, **headers}, body=body)


def plain(text: str, status: int = 200, content_type: str = "text/plain") -> Response:
    """Return a response with a text; the default type is plain text."""
    return answer(status, {"Content-Type": f"{content_type}; charset=utf-8"}, text.encode())


def html(text: str, status: int = 200) -> Response:
    """Return a response with a page that loads and runs nothing from other sites."""
    return answer(status, {**_POLICY, "Content-Type": "text/html; charset=utf-8"}, text.encode())


class Assets(NamedTuple):
    """The templates of pages, and the files that pages load."""

    environment: Environment
    files: Mapping[str, bytes]
    version: str


@cache
def read_assets() -> Assets:
    """Read the static files and compile the templates, at the first request of a browser."""
    from jinja2 import Environment as Made  # noqa: PLC0415 - 20 ms, 1 MB, for the first browser
    from jinja2 import FileSystemLoader, StrictUndefined  # noqa: PLC0415 - as above

    paths = sorted(path for path in (_HERE / "static").iterdir() if path.suffix in _TYPES)
    files = {path.name: path.read_bytes() for path in paths}
    environment = Made(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_printable,
    )
    filters = {"ago": ago, "said": reason_of, "next_run": next_run, "owner": owner_text}
    environment.filters |= {**filters, "taking": _taking, "address": object_address}
    for name in environment.list_templates():
        environment.get_template(name)
    return Assets(environment, files, hashlib.sha256(b"".join(files.values())).hexdigest()[:8])


async def _assets() -> Assets:
    # Reconcilers may occupy all threads of `asyncio.to_thread` for long.
    return read_assets() if read_assets.cache_info().currsize else await in_thread(read_assets)


async def render(name: str, shown: dict[str, Any], part: str | None = None) -> str:
    """Return a rendered template, or one block of it."""
    assets = await _assets()
    template = assets.environment.get_template(name)
    if part is None:
        return template.render(version=assets.version, **shown)
    return "".join(template.blocks[part](template.new_context(shown)))


async def static_file(request: Request) -> Response:
    """Return a file that browsers may cache for a day, because its address contains a version."""
    name = request.match_info["name"]
    body = (await _assets()).files.get(name)
    if body is None:
        return plain("no such file\n", 404)
    kept = {
        "Cache-Control": "public, max-age=86400",
        "Content-Type": f"{_TYPES[Path(name).suffix]}; charset=utf-8",
    }
    return answer(200, {**_POLICY, **kept}, body)


def object_address(key: ObjectKey, resource: str) -> str:
    """Return the path of an object's page."""
    return "/".join(["/objects", *(quote(each, safe="") for each in (resource, *key) if each)])


def _printable(value: Any) -> Any:
    """Return a text without bidirectional and invisible characters; the template escapes the rest."""
    return on_one_line(shortened(value, _LONGEST)) if type(value) is str else value


def _taking(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds else "0"
    return format_duration(round(seconds, 1 if seconds < 10 else None))  # noqa: PLR2004 - readable digits


def debug_pages() -> Mapping[str, Handler]:
    """Return the debug pages by path: tasks with their stacks, and a profile of the event loop's thread."""
    profiling = asyncio.Lock()

    async def tasks(_: Request) -> Response:
        return plain("\n".join(_tasks()))

    async def profile(request: Request) -> Response:
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST_PROFILE:
            return plain(f"?seconds=SECONDS is expected, at most {_LONGEST_PROFILE:g}\n", 400)
        if profiling.locked():
            return plain("another profile is running\n", 409)
        async with profiling:
            with cProfile.Profile() as profiler:
                await asyncio.sleep(seconds)
        out = io.StringIO()
        await in_thread(
            lambda: pstats.Stats(profiler, stream=out).sort_stats("cumulative").print_stats(_PROFILE_LINES)
        )
        return plain(out.getvalue())

    return {"/debug/tasks": tasks, "/debug/profile": profile}


def _tasks() -> Iterator[str]:
    found = sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    yield f"{len(found)} tasks\n"
    for task in found:
        yield ascii(task.get_name())[1:-1]  # a name may contain any characters
        for frame in frames_of(task):
            code = frame.f_code
            yield f"    {code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        yield ""
