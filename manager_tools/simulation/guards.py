"""Guards against an operator's nondeterminism in a simulation; a report names the file and line.

During a run, functions that read the machine's clock or randomness, start threads or processes, or use the
network check their caller. The caller is the nearest frame outside of the standard library and installed
packages. operator-manager and modules such as `logging` may call such functions, an operator may not.
"""

from __future__ import annotations

import _thread
import asyncio
import datetime
import os
import random
import secrets
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

_CLOCK = "reads the machine's clock; a simulation has its own: use manager.util.clock.now() or monotonic()"
_WAIT = "waits in real time: use asyncio.sleep()"
_CHANCE = "is not the same in each run: use self.manager.rng, or ctx.token() for secrets"
_THREAD = "starts a thread, which the simulation does not control: use asyncio.to_thread()"
_SOCKET = "leaves the simulation, which has no network: pass `services` to fake HTTP servers"
_PROCESS = "starts a process, which the simulation does not control"

_Guard = tuple[Any, str, str, str]

_FUNCTIONS: tuple[_Guard, ...] = (
    *(
        (time, clock + unit, f"time.{clock}{unit}", _CLOCK)
        for clock in ("time", "monotonic", "perf_counter", "process_time")
        for unit in ("", "_ns")
    ),
    (time, "sleep", "time.sleep", _WAIT),
    *(
        (random, name, f"random.{name}", _CHANCE)
        for name, value in sorted(vars(random).items())
        if getattr(value, "__self__", None) is random._inst
    ),
    (random, "_urandom", "random.SystemRandom", _CHANCE),
    (os, "urandom", "os.urandom", _CHANCE),
    (os, "getrandom", "os.getrandom", _CHANCE),
    *(
        (secrets, name, f"secrets.{name}", _CHANCE)
        for name in ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe")
    ),
    (uuid, "uuid1", "uuid.uuid1", _CHANCE),
    (uuid, "uuid4", "uuid.uuid4", _CHANCE),
    (threading.Thread, "start", "threading.Thread.start", _THREAD),
    (_thread, "start_new_thread", "_thread.start_new_thread", _THREAD),
    *(
        (socket, name, f"socket.{name}", _SOCKET)
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")
    ),
    *(
        (socket.socket, name, f"socket.socket.{name}", _SOCKET)
        for name in ("connect", "connect_ex", "bind", "sendto")
    ),
    *(
        (asyncio.BaseEventLoop, name, f"loop.{name}", _PROCESS)
        for name in ("subprocess_exec", "subprocess_shell")
    ),
    (subprocess.Popen, "__init__", "subprocess.Popen", _PROCESS),
    *((os, name, f"os.{name}", _PROCESS) for name in ("fork", "posix_spawn", "system")),
)

_STARTED_IN = f"{Path.cwd()}{os.sep}"

_RUNTIME = ("manager", "manager_kinds", "manager_shards", "manager_tools", "devcluster")
_MAY = {*_RUNTIME, "logging", "structlog", "importlib", "warnings"}
"""Packages that may call guarded functions, whatever called them: they run the simulation or only report."""
_LOOP, _IN_THREAD = "manager_tools.simulation.loop", "work"
_RUNS_OTHERS = ("_run_once", _IN_THREAD)
"""Functions of the module `_LOOP` that run other code: in the loop, and in a thread."""

_in_thread = threading.local()
"""The operator's source line on whose behalf the current thread works."""


class NotRepeatable(AssertionError):
    """An error: an operator's action has a result that differs from run to run."""


@contextmanager
def guarded() -> Iterator[list[str]]:
    """Raise NotRepeatable in an operator that calls a guarded function.

    The error is raised again at the end of the block, because the operator may have caught it.
    """
    found: list[str] = []
    with ExitStack() as stack:
        replaced: dict[int, Any] = {}
        for owner, name, shown, why in _FUNCTIONS:
            original = getattr(owner, name, None)
            if original is not None:
                guard = _guard(original, shown, why, found)
                replaced[id(original)] = guard
                _replace(stack, owner, name, guard)
        _replace(stack, random.Random, "seed", _seeded(random.Random.seed, found))
        replaced |= _dates(found)
        for module in list(sys.modules.values()):
            if is_operators(getattr(module, "__file__", None) or "<>"):
                for name, value in list(vars(module).items()):
                    if id(value) in replaced:
                        _replace(stack, module, name, replaced[id(value)])
                    elif type(value) is random.Random:
                        _replace(stack, module, name, _made_before(name, found))
        try:
            yield found
        finally:
            if found:
                raise NotRepeatable(found[0]) from None


def _replace(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    own = vars(owner).get(name)
    if own is None:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, own)
    setattr(owner, name, value)


def _guard(original: Any, shown: str, why: str, found: list[str]) -> Any:
    @wraps(original)
    def guard(*args: Any, **named: Any) -> Any:
        _ask(f"{shown}({_where(args) if why == _SOCKET else ''})", why, found)
        return original(*args, **named)

    return guard


def _where(args: tuple[Any, ...]) -> str:
    return ", ".join(repr(each) for each in args[:2] if not isinstance(each, socket.socket))


def _seeded(original: Callable[..., None], found: list[str]) -> Callable[..., None]:
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None:
            _ask("random.Random() without a seed", _CHANCE, found)
        original(self, a, version)

    return seed


def _made_before(name: str, found: list[str]) -> random.Random:
    """Return a guarded random generator; the module's own one has a state that depends on earlier runs."""
    made = random.Random(0)
    for method in ("random", "getrandbits"):
        setattr(made, method, _guard(getattr(made, method), f"{name}.{method}", _CHANCE, found))
    return made


def _dates(found: list[str]) -> dict[int, Any]:
    """Return guarded copies of `datetime` and its classes, by the originals' ids; C types refuse patches."""

    class Alike(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, cls.__mro__[1])

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, cls.__mro__[1])

    module = types.ModuleType("datetime")
    vars(module).update(vars(datetime))
    made: dict[int, Any] = {id(datetime): module}
    for kind, names in ((datetime.datetime, ("now", "utcnow", "today")), (datetime.date, ("today",))):
        shown = f"datetime.{kind.__name__}"
        members: dict[str, Any] = {
            name: staticmethod(_guard(getattr(kind, name), f"{shown}.{name}", _CLOCK, found))
            for name in names
        }
        members["__new__"] = lambda _, *args, _kind=kind, **named: _kind(*args, **named)
        made[id(kind)] = Alike(kind.__name__, (kind,), members)
        setattr(module, kind.__name__, made[id(kind)])
    return made


def _ask(shown: str, why: str, found: list[str]) -> None:
    """Raise NotRepeatable if an operator made the call, or if an installed package uses the network."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == _LOOP and frame.f_code.co_name in _RUNS_OTHERS:
            if why == _SOCKET or frame.f_code.co_name == _IN_THREAD:
                break
            return
        if module.partition(".")[0] in _MAY:
            return
        if is_operators(frame.f_code.co_filename):
            break
        frame = frame.f_back
    line = operators_line()
    if line is None and why != _SOCKET:
        return
    found.append(f"{f'{line}: ' if line else ''}{shown} {why}")
    raise NotRepeatable(found[-1])


def operators_line() -> str | None:
    """Return file and line of the operator's code that causes the current call; None if unknown.

    The code is on the stack, or it started the current task or thread.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_operators(frame.f_code.co_filename):
            return _line(frame)
        if frame.f_globals.get("__name__") == _LOOP and frame.f_code.co_name in _RUNS_OTHERS:
            break
        frame = frame.f_back
    try:
        task: Any = asyncio.current_task()
    except RuntimeError:
        line: str | None = getattr(_in_thread, "line", None)
        return line
    while task is not None:
        found, awaited = None, task.get_coro()
        while awaited is not None:
            frame = getattr(awaited, "cr_frame", None)
            if frame is not None and is_operators(frame.f_code.co_filename):
                found = _line(frame)
            awaited = getattr(awaited, "cr_await", None)
        if found is not None:
            return found
        task = starter() if (starter := getattr(task, "started_by", None)) is not None else None
    return None


def _line(frame: types.FrameType) -> str:
    return f"{frame.f_code.co_filename.removeprefix(_STARTED_IN)}:{frame.f_lineno}"


@contextmanager
def in_thread(line: str | None) -> Iterator[None]:
    """Attribute the thread's calls to this source line of an operator; None means unknown."""
    _in_thread.line = line
    try:
        yield
    finally:
        _in_thread.line = None


@cache
def is_operators(file: str) -> bool:
    """Return whether a file belongs to an operator, and not to Python, a package or this library."""
    if file.startswith("<") or {"site-packages", "dist-packages"} & set(Path(file).parts):
        return False
    return not file.startswith(_not_theirs())


@cache
def _not_theirs() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [str(Path(sys.modules[name].__file__ or "").parent) for name in _RUNTIME]
    return tuple(f"{each}{os.sep}" for each in folders)
