"""Debug pages: what the process is doing, and where it waits."""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

TASKS, PROFILE = "/debug/tasks", "/debug/profile"

_LONGEST = 30.0
"""The longest profile, in seconds: it slows everything down."""

_BAD_REQUEST, _CONFLICT = 400, 409
_DEEPEST = 100
_LINES = 60
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def debug_pages() -> Mapping[str, Handler]:
    """The debug pages by path: tasks with their stacks, and a profile of the event loop's thread."""
    profiling = asyncio.Lock()

    async def tasks(_: web.Request) -> web.StreamResponse:
        return web.Response(text="\n".join(_tasks()), headers=_HEADERS)

    async def profile(request: web.Request) -> web.StreamResponse:
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST:
            text = f"?seconds=SECONDS is expected, at most {_LONGEST:g}\n"
            return web.Response(status=_BAD_REQUEST, text=text, headers=_HEADERS)
        if profiling.locked():
            return web.Response(status=_CONFLICT, text="there is a profile under way\n", headers=_HEADERS)
        async with profiling:
            profiler = cProfile.Profile()
            profiler.enable()
            try:
                await asyncio.sleep(seconds)
            finally:
                profiler.disable()
        text = await asyncio.to_thread(_printed, profiler)
        return web.Response(text=text, headers=_HEADERS)

    return {TASKS: tasks, PROFILE: profile}


def _tasks() -> Iterator[str]:
    found = sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    yield f"{len(found)} tasks\n"
    for task in found:
        yield ascii(task.get_name())[1:-1]  # there may be anybody's names in it
        yield from (f"    {line}" for line in _waits(task.get_coro()))
        yield ""


def _waits(coroutine: Any) -> Iterator[str]:
    """The frames of a suspended coroutine, outermost first."""
    for _ in range(_DEEPEST):
        for kind in ("cr", "gi", "ag"):
            if (frame := getattr(coroutine, f"{kind}_frame", None)) is not None:
                yield f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
                coroutine = getattr(coroutine, f"{kind}_{'yieldfrom' if kind == 'gi' else 'await'}")
                break
        else:
            if coroutine is not None:
                yield f"for {type(coroutine).__name__}"
            return


def _printed(profiler: cProfile.Profile) -> str:
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("cumulative").print_stats(_LINES)
    return out.getvalue()
