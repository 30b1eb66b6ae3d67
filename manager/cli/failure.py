"""The first request to the API server, and one-line messages for errors that end the process."""

from __future__ import annotations

import asyncio
import random
import ssl

import orjson

from manager.election.coordinator import LeadershipLost
from manager.kube.config import ClusterConfig
from manager.kube.errors import (
    ApiError,
    Forbidden,
    KubeError,
    ProtocolError,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from manager.kube.transport import Transport
from manager.process.manager import CannotStart
from manager.settings import SettingsError
from manager.telemetry.logs import get_logger, on_one_line
from manager.util import clock
from manager.util.backoff import Backoff

_ANSWER_TIMEOUT = 5.0
"""Seconds in which the API server has to answer one attempt: enough for a pod whose network starts late."""

_LONGEST_PAUSE = 5.0
"""The longest pause, in seconds, between two attempts of a manager that waits for the API server."""

_REMIND_EVERY = 300.0
"""Seconds after which a waiting manager logs the reason again."""

_log = get_logger("start")


class ServerUnusable(Exception):
    """The server does not answer, refuses credentials, or is not an API server; the message says which."""


class ServerUnavailable(ServerUnusable):
    """The API server does not answer, or reports a failure, which may be temporary."""


async def server_version(transport: Transport, config: ClusterConfig) -> str:
    """Return the API server's version; "unknown" if the credentials are valid, but may not read it.

    Raises `ServerUnavailable` if a later attempt may succeed, otherwise `ServerUnusable`.
    """
    server = f"the API server {config.server} ({config.source})"
    try:
        answer = await transport.request("GET", "/version", deadline=_ANSWER_TIMEOUT)
        return str(orjson.loads(answer)["gitVersion"])
    except Forbidden:
        return "unknown"  # the server answers and recognises us
    except Unauthorized as error:
        expired = "" if config.tls is None else await config.tls.expired_certificate()
        raise ServerUnusable(f"{server} does not accept the credentials: {expired or error}") from error
    except TransportError as error:
        untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
        kind = ServerUnusable if untrusted else ServerUnavailable
        raise kind(f"{server} does not answer: {error}") from error
    except (ServerError, TooManyRequests) as error:
        raise ServerUnavailable(f"{server} answers with status {error.status}: {error}") from error
    except (ApiError, ProtocolError, ValueError, KeyError, TypeError) as error:
        raise ServerUnusable(f"{server} does not answer like an API server: {error}") from error


class ServerWait:
    """The wait of a starting manager for the first answer of the API server."""

    def __init__(self, transport: Transport, config: ClusterConfig, rng: random.Random) -> None:
        """Create a wait; `config` describes the server of `transport`, and `rng` is the source of jitter."""
        self._transport = transport
        self._config = config
        self._backoff = Backoff(base=0.5, cap=_LONGEST_PAUSE, jitter=0.5, rng=rng)
        self.problem: str | None = "the manager is starting"
        """The reason why the manager is not ready. The caller sets None once the controllers exist."""

    async def version(self) -> str:
        """Wait for the server, however long it takes, and return its version.

        Raises `ServerUnusable` and `ConfigError` if waiting does not help.
        """
        began, remind_at = clock.monotonic(), 0.0
        while True:
            try:
                version = await server_version(self._transport, self._config)
            except ServerUnavailable as error:
                self.problem = in_one_line(error)
                if not self._backoff.failures or clock.monotonic() >= remind_at:
                    _log.warning("waiting for the API server", error=self.problem)
                    remind_at = clock.monotonic() + _REMIND_EVERY
                await asyncio.sleep(self._backoff.next())
            else:
                if self._backoff.failures:
                    _log.info("the API server answers", waited=round(clock.monotonic() - began, 1))
                return version


def cause_of(error: BaseException) -> BaseException:
    """Return the first single error in a group, or `error` itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_expected(error: BaseException) -> bool:
    """Return whether the message alone is enough for users; otherwise the traceback is also needed."""
    return isinstance(
        error, ServerUnusable | CannotStart | KubeError | LeadershipLost | OSError | SettingsError
    )


def in_one_line(error: BaseException) -> str:
    """Return the message of an expected error, without control characters for terminals."""
    text = on_one_line(" ".join(str(error).split()))
    return f"no longer the leader: {text}" if isinstance(error, LeadershipLost) else text
