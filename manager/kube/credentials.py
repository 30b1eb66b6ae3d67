"""Credentials of this process for the API server: the Authorization header, kept fresh."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from manager.kube.errors import ConfigError
from manager.kube.tls import Pem, in_thread
from manager.telemetry.logs import get_logger

_log = get_logger("kube")

FOREVER = float("inf")

RETRY_INTERVAL = 3.0
"""Seconds after a failed renewal, and between two that the server asks for by its 401: several fit into the
time that a leader has to renew its lease."""


@dataclass(frozen=True, slots=True)
class Obtained:
    """Credentials as they were obtained.

    Attributes:
        header: the Authorization header; None to send none.
        lifetime: seconds after which to obtain new ones.
        validity: seconds for which these will do while new ones are being obtained.
        certificate: a client certificate to present, and its key, if the source gives them.
    """

    header: str | None
    lifetime: float = FOREVER
    validity: float = FOREVER
    certificate: tuple[Pem, Pem] | None = None


def one_line(header: str, label: str) -> str:
    """Return the header if it can be sent; raise `ConfigError` if not, without repeating the header.

    `label` names the header's origin in messages.
    """
    if header.isascii() and header.isprintable():
        return header
    raise ConfigError(f"{label}: the token must be one line of printable ASCII characters")


class Credentials(ABC):
    """Cache of credentials from `obtain` for their lifetime; concurrent callers share one call."""

    REJECTED_INTERVAL = RETRY_INTERVAL
    """Seconds between two calls of `obtain` that the server asks for by its 401."""

    def __init__(self) -> None:
        self._current: Obtained | None = None
        self.renew_at = 0.0
        """The loop time from which on they have to be obtained anew."""
        self._good_until = 0.0
        self._rejected_at = -FOREVER
        self._renewing = asyncio.Lock()

    @abstractmethod
    async def obtain(self, *, rejected: bool) -> Obtained:
        """Get credentials from where they come from.

        Args:
            rejected: the server no longer takes those that this gave before.

        Raises:
            ConfigError: they cannot be obtained.
        """

    def at_hand(self, now: float) -> Obtained | None:
        """Credentials that are good to use at this loop time, if there are any that need no renewal."""
        return self._current if now < self.renew_at else None

    async def current(self, *, rejected: str | None = None) -> Obtained:
        """Credentials that are good to use now.

        A renewal that fails leaves the earlier ones in use, as long as there are any: the server
        is the judge of them.

        Args:
            rejected: the header that the server just answered with 401. The answer holds another
                one if others can be obtained.

        Raises:
            ConfigError: there have never been any.
        """
        now = asyncio.get_running_loop().time()
        if rejected is None:
            if (current := self.at_hand(now)) is not None:
                return current
            if self._current is not None and self._renewing.locked() and now < self._good_until:
                return self._current
        async with self._renewing:
            return await self._renewed(rejected)

    async def _renewed(self, rejected: str | None) -> Obtained:
        now = asyncio.get_running_loop().time()
        if self._current is not None and not self._is_due(now, rejected):
            return self._current
        if rejected is not None:
            self._rejected_at = now
        try:
            obtained = await self.obtain(rejected=rejected is not None)
        except ConfigError as error:
            if self._current is None:
                raise
            _log.warning("cannot renew the credentials; going on with the earlier ones", error=str(error))
            self.renew_at = now + RETRY_INTERVAL
            return self._current
        self._current = obtained
        self.renew_at = now + obtained.lifetime
        self._good_until = now + obtained.validity
        return obtained

    def _is_due(self, now: float, rejected: str | None) -> bool:
        if rejected is None or self._current is None:
            return now >= self.renew_at
        # Many requests may meet a 401 at once, and a server may reject whatever it is given.
        return rejected == self._current.header and now >= self._rejected_at + self.REJECTED_INTERVAL


class FixedCredentials(Credentials):
    """A header that never changes, or none."""

    def __init__(self, header: str | None) -> None:
        super().__init__()
        self._header = header

    async def obtain(self, *, rejected: bool) -> Obtained:  # noqa: ARG002 - there is only this one
        """Return the same header each time."""
        return Obtained(self._header)


class TokenFile(Credentials):
    """Bearer token in a file that another program renews, as the kubelet does for a service account."""

    LIFETIME = 60.0
    """Seconds before the file is read again; a token is replaced long before it expires."""

    REJECTED_INTERVAL = 0.0
    """To read a file costs less than the request that was rejected, and it may be a new one by now."""

    def __init__(self, path: Path, *, label: str) -> None:
        """Read the token from `path`, which messages call `label`."""
        super().__init__()
        self._path = path
        self._label = label

    async def obtain(self, *, rejected: bool) -> Obtained:  # noqa: ARG002 - the file is read anew anyway
        """Read the current token from the file."""
        content = await in_thread(Pem(self._label, path=self._path).read)
        # The line end that many a token file has must not get into a header.
        token = content.decode("utf-8", "replace").strip()
        if not token:
            raise ConfigError(f"{self._label}: {self._path} is empty")
        return Obtained(one_line(f"Bearer {token}", f"{self._label}: {self._path}"), self.LIFETIME)
