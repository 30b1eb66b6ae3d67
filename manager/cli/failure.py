"""Whether there is an API server that knows us, and what ended the process, in one line."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import orjson

from manager.cli.arguments import CannotRun
from manager.kube.config import ClusterConfig, load_config
from manager.kube.errors import ApiError, Forbidden, KubeError, TransportError, Unauthorized
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.leader.lease import LeadershipLost
from manager.logs import on_one_line
from manager.manager import CannotStart
from manager.metrics import Metrics
from manager.program import Program
from manager.settings import SettingsError

_START_PATIENCE = 5.0
"""Seconds in which the API server has to answer once: enough for a pod whose network comes up late."""


class ServerUnusable(Exception):
    """The API server does not answer, refuses our credentials, or is none at all: one line that names it."""


@asynccontextmanager
async def connected(
    program: Program, command: str, *, kubeconfig: str | None, context: str | None
) -> AsyncIterator[tuple[Transport, ClusterConfig]]:
    """A way to the API server, for one command, and what leads there.

    Raises `ConfigError` and `ServerUnusable`.
    """
    config = await load_config(kubeconfig=kubeconfig, context=context, environ=os.environ)
    agent = f"{program.agent} {command}"
    transport = Transport(HttpWire(config), metrics=Metrics(), rng=random.Random(), user_agent=agent)
    try:
        await server_version(transport, config)
        yield transport, config
    finally:
        await transport.aclose()


async def server_version(transport: Transport, config: ClusterConfig) -> str:
    """The API server's version. Raises `ServerUnusable` when it does not tell it."""
    server = f"the API server {config.server} ({config.source})"
    try:
        answer = await transport.request("GET", "/version", deadline=_START_PATIENCE)
        return str(orjson.loads(answer)["gitVersion"])
    except Forbidden:
        return "unknown"  # it is there and knows us
    except Unauthorized as error:
        raise ServerUnusable(f"{server} does not accept the credentials: {error}") from error
    except TransportError as error:
        raise ServerUnusable(f"{server} does not answer: {error}") from error
    except (ApiError, ValueError, KeyError, TypeError) as error:
        raise ServerUnusable(f"{server} does not answer like an API server: {error}") from error


@contextmanager
def ended_in_one_line(command: str) -> Iterator[None]:
    """Raises `CannotRun` in place of an error of which the message alone tells a person what to do."""
    try:
        yield
    except Exception as error:
        cause = cause_of(error)
        if isinstance(cause, BrokenPipeError):
            raise cause from error  # whoever reads our output has enough of it
        if is_expected(cause):
            raise CannotRun(f"{command}: {in_one_line(cause)}") from error
        raise


def cause_of(error: BaseException) -> BaseException:
    """The first single error in a group of them, or `error` itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_expected(error: BaseException) -> bool:
    """Whether the message alone tells a person what to do; else the traceback is needed as well."""
    return isinstance(
        error, ServerUnusable | CannotStart | KubeError | LeadershipLost | OSError | SettingsError
    )


def in_one_line(error: BaseException) -> str:
    """What to tell a person of an error that is expected. No terminal obeys what a server has said in it."""
    text = on_one_line(" ".join(str(error).split()))
    return f"no longer the leader: {text}" if isinstance(error, LeadershipLost) else text
