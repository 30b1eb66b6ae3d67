"""Credentials of this process for the API server: fixed, from a file or from a program, with renewal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import orjson

from manager.kube.errors import ConfigError
from manager.kube.tls import Pem
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.loop import in_thread
from manager.util.nesting import TOO_DEEP, is_too_deep

_log = get_logger("kube")

FOREVER = float("inf")

RETRY_INTERVAL = 3.0
"""Seconds before the next attempt after a failed renewal, or after a renewal because of a 401: several
attempts fit into the time in which a leader has to renew its lease."""


@dataclass(frozen=True, slots=True)
class Obtained:
    """Credentials from a source; equal ones have the same header and the same certificate.

    Attributes:
        header: the Authorization header; None for no header.
        lifetime: seconds after which new credentials are obtained.
        validity: seconds for which these credentials may be used while new ones are being obtained.
        certificate: a client certificate and its key, if the source returns them.
    """

    header: str | None
    lifetime: float = field(default=FOREVER, compare=False)
    validity: float = field(default=FOREVER, compare=False)
    certificate: tuple[Pem, Pem] | None = None


NO_CREDENTIALS = Obtained(None)


def one_line(header: str, label: str) -> str:
    """Return the header if it is valid; otherwise raise `ConfigError` without quoting the header.

    `label` names the header's origin in messages.
    """
    if header.isascii() and header.isprintable():
        return header
    raise ConfigError(f"{label}: the token must be one line of printable ASCII characters")


class Credentials(ABC):
    """A cache of credentials from `obtain` for their lifetime; concurrent callers share a successful call.

    Attributes:
        REJECTED_INTERVAL: minimum seconds between two calls of `obtain` because of a 401.
        latest: the last credentials obtained, None before the first.
        renew_at: the loop time at which new credentials have to be obtained.
    """

    REJECTED_INTERVAL = RETRY_INTERVAL

    def __init__(self) -> None:
        self.latest: Obtained | None = None
        self.renew_at = 0.0
        self._good_until = 0.0
        self._rejected_at = -FOREVER
        self._renewing = asyncio.Lock()

    @abstractmethod
    async def obtain(self) -> Obtained:
        """Get credentials from their source; raise `ConfigError` if they cannot be obtained."""

    async def current(self, *, rejected: Obtained | str | None = None) -> Obtained:
        """Return the latest credentials, after a renewal if one is due.

        If a renewal fails, earlier credentials stay in use: the server decides whether they are still valid.

        Args:
            rejected: the credentials that the server has just answered with 401, or only their header. The
                result differs if `obtain`, called at most every `REJECTED_INTERVAL` seconds, returns others.

        Raises:
            ConfigError: credentials could not be obtained, and there are no earlier ones.
        """
        now = asyncio.get_running_loop().time()
        is_good = now < self.renew_at or (self._renewing.locked() and now < self._good_until)
        if rejected is None and self.latest is not None and is_good:
            return self.latest
        async with self._renewing:
            return await self._renewed(rejected)

    async def _renewed(self, rejected: Obtained | str | None) -> Obtained:
        clock = asyncio.get_running_loop().time
        if self.latest is not None:
            is_due = clock() >= self.renew_at
            if rejected is not None:
                # Many requests may get a 401 at once, and a server may reject any credentials.
                is_due = clock() >= self._rejected_at + self.REJECTED_INTERVAL
                is_due = is_due and rejected in (self.latest, self.latest.header)
            if not is_due:
                return self.latest
        try:
            obtained = await self.obtain()
        except ConfigError as error:
            if self.latest is None:
                raise
            _log.warning("cannot renew the credentials; continuing with the earlier ones", error=str(error))
            self.renew_at = clock() + RETRY_INTERVAL
            return self.latest
        finally:
            if rejected is not None:
                self._rejected_at = clock()
        self.latest = obtained
        self.renew_at = clock() + obtained.lifetime
        self._good_until = clock() + obtained.validity
        return obtained


class FixedCredentials(Credentials):
    """Credentials that never change, or none."""

    def __init__(self, header: str | None) -> None:
        super().__init__()
        self._header = header

    async def obtain(self) -> Obtained:
        """Return the same header each time."""
        return Obtained(self._header)


class TokenFile(Credentials):
    """A bearer token in a file that another program renews, such as the kubelet for a service account."""

    # A token is replaced long before it expires.
    LIFETIME = 60.0
    # Reading a file costs less than the rejected request, and the file may have a new token.
    REJECTED_INTERVAL = 0.0

    def __init__(self, path: Path, *, label: str) -> None:
        """Create a source for the file `path`; messages name it `label`."""
        super().__init__()
        self._path = path
        self._label = label

    async def obtain(self) -> Obtained:
        """Read the current token from the file."""
        content = await in_thread(Pem(self._label, path=self._path).read)
        # Many token files end with a newline, which must not get into a header.
        token = content.decode("utf-8", "replace").strip()
        if not token:
            raise ConfigError(f"{self._label}: {self._path} is empty")
        return Obtained(one_line(f"Bearer {token}", f"{self._label}: {self._path}"), self.LIFETIME)


TIMEOUT = 120.0
"""Seconds for the program, which may have to ask a person to log in."""

MARGIN = 60.0
"""Seconds before the expiry of credentials at which they are renewed, or less for a short lifetime."""

LARGEST = 1_000_000
"""Bytes that the program may print: a token, or a certificate and its key."""

_COMPLAINT = 2_000
"""Bytes that are kept of the end of the program's error output."""

_STDERR = 2

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _EnvironmentVariable(msgspec.Struct):
    name: _Text
    value: str | None = None


class ExecSpec(msgspec.Struct, rename="camel"):
    """The `exec` of a kubeconfig's user; values that kubectl refuses are refused before the program runs."""

    command: _Text
    api_version: Literal["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]
    args: list[str] | None = None
    env: list[_EnvironmentVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: Literal["", "Never", "IfAvailable", "Always"] | None = None

    def __post_init__(self) -> None:
        if not self.interactive_mode and self.api_version.endswith("/v1"):
            raise ValueError("interactiveMode is missing: one of Never, IfAvailable, Always")


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    status: _Status


class _Output(asyncio.SubprocessProtocol):
    """The output of the program; `complete` is set when both have ended, or the output is too long."""

    def __init__(self) -> None:
        self.printed = bytearray()
        self.complaint = bytearray()
        self.complete = asyncio.Event()
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self.complaint += data
            del self.complaint[:-_COMPLAINT]
        elif not self.complete.is_set():
            self.printed += data
            if len(self.printed) > LARGEST:
                self.complete.set()

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.complete.set()


class ExecCredentials(Credentials):
    """Credentials from a program (`exec` of a kubeconfig's user), used until they expire.

    The program is killed after `TIMEOUT`, or when its caller is cancelled; the next caller starts it again.
    """

    def __init__(
        self, spec: ExecSpec, label: str, folder: Path, cluster: Mapping[str, Any], environ: Mapping[str, str]
    ) -> None:
        """Create a source; `label` is for messages, and a relative path in the command starts at `folder`."""
        super().__init__()
        self.spec, self.label, self.folder, self.cluster, self.environ = spec, label, folder, cluster, environ

    async def obtain(self) -> Obtained:
        """Run the program and parse its output."""
        output = await self._output()
        if is_too_deep(output):
            raise ConfigError(f"{self.label}: prints no ExecCredential: {TOO_DEEP}")
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.label}: prints no ExecCredential: {error}") from error
        if credential.kind != "ExecCredential" or credential.api_version != self.spec.api_version:
            printed = " ".join(f"{credential.kind} of {credential.api_version}".split())[:500]
            expected = f"an ExecCredential of {self.spec.api_version}"
            raise ConfigError(f"{self.label}: has to print {expected}, and prints {printed}")
        return self._obtained(credential.status)

    async def _output(self) -> bytes:
        loop, command = asyncio.get_running_loop(), self.spec.command
        if os.sep in command:
            # Not `folder / command`: for "." and "./plugin", the result would be "plugin", which is searched
            # in PATH.
            command = os.path.join(self.folder, command)  # noqa: PTH118
        try:
            transport, output = await loop.subprocess_exec(
                _Output,
                command,
                *(self.spec.args or ()),
                env=self._environment(),
                stdin=None if self._interactive() else asyncio.subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            hint = f" ({' '.join(self.spec.install_hint.split())})" if self.spec.install_hint else ""
            # A ValueError means text that cannot be an argument of a program.
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"{self.label}: cannot be started: {reason}{hint}") from error
        try:
            async with asyncio.timeout(TIMEOUT):
                await output.complete.wait()
        except TimeoutError:
            raise ConfigError(f"{self.label}: not finished after {TIMEOUT:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                transport.kill()
            await output.ended.wait()
            # Child processes may still use the program's pipes.
            transport.close()
        if len(output.printed) > LARGEST:
            raise ConfigError(f"{self.label}: prints more than {LARGEST} bytes")
        if (code := transport.get_returncode()) != 0:
            said = " ".join(output.complaint.decode("utf-8", "replace").split())[-500:]
            raise ConfigError(f"{self.label}: ended with exit code {code}: {said}")
        return bytes(output.printed)

    def _interactive(self) -> bool:
        mode = self.spec.interactive_mode
        available = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not available:
            raise ConfigError(f"{self.label}: needs interactive input, and standard input is not a terminal")
        return available and mode != "Never"

    def _environment(self) -> dict[str, str]:
        wanted: dict[str, Any] = {"interactive": self._interactive()}
        if self.spec.provide_cluster_info:
            wanted["cluster"] = self.cluster
        request = {"apiVersion": self.spec.api_version, "kind": "ExecCredential", "spec": wanted}
        own = {variable.name: variable.value or "" for variable in self.spec.env or ()}
        return {**self.environ, **own, "KUBERNETES_EXEC_INFO": orjson.dumps(request).decode()}

    def _obtained(self, status: _Status) -> Obtained:
        certificate = None
        if status.client_certificate_data and status.client_key_data:
            certificate = (
                Pem(f"{self.label}: clientCertificateData", data=status.client_certificate_data.encode()),
                Pem(f"{self.label}: clientKeyData", data=status.client_key_data.encode()),
            )
        elif not status.token:
            raise ConfigError(f"{self.label}: gives neither a token nor a client certificate with its key")
        validity = FOREVER
        if (expiry := status.expiration_timestamp) is not None:
            validity = max(0.0, (expiry - clock.now()).total_seconds())
        header = one_line(f"Bearer {status.token}", self.label) if status.token else None
        lifetime = validity - min(MARGIN, validity / 5) if validity < FOREVER else FOREVER
        return Obtained(header, lifetime, validity, certificate)
