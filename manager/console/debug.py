"""Debug pages: the tasks of the process, and a profile."""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
from collections.abc import Iterator, Mapping

from manager.console.web import Page, Request, Response, plain
from manager.telemetry.watchdog import frames_of

TASKS, PROFILE = "/debug/tasks", "/debug/profile"

_LONGEST = 30.0
"""The longest profile, in seconds: it slows everything down."""

_BAD_REQUEST, _CONFLICT = 400, 409
_LINES = 60


def debug_pages() -> Mapping[str, Page]:
    """Return the debug pages by path: tasks with their stacks, a profile of the event loop's thread."""
    profiling = asyncio.Lock()

    async def tasks(_: Request) -> Response:
        return plain("\n".join(_tasks()))

    async def profile(request: Request) -> Response:
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST:
            return plain(f"?seconds=SECONDS is expected, at most {_LONGEST:g}\n", _BAD_REQUEST)
        if profiling.locked():
            return plain("there is a profile under way\n", _CONFLICT)
        async with profiling:
            profiler = cProfile.Profile()
            profiler.enable()
            try:
                await asyncio.sleep(seconds)
            finally:
                profiler.disable()
        return plain(await asyncio.to_thread(_printed, profiler))

    return {TASKS: tasks, PROFILE: profile}


def _tasks() -> Iterator[str]:
    found = sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    yield f"{len(found)} tasks\n"
    for task in found:
        yield ascii(task.get_name())[1:-1]  # a name may have any characters
        for frame in frames_of(task):
            code = frame.f_code
            yield f"    {code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        yield ""


def _printed(profiler: cProfile.Profile) -> str:
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("cumulative").print_stats(_LINES)
    return out.getvalue()
