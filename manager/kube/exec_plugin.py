"""Credentials from an external program, as the `exec` of a kubeconfig's user configures.

The program gets cluster information if `provideClusterInfo` is set. It is ended when it takes too long or
no caller waits any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import orjson

from manager.kube.credentials import FOREVER, Credentials, Obtained, one_line
from manager.kube.errors import ConfigError
from manager.kube.tls import Pem
from manager.util import clock
from manager.util.nesting import TOO_DEEP, is_too_deep

TIMEOUT = 120.0
"""Seconds for the program; it may have to ask a person to log in."""

MARGIN = 60.0
"""Seconds before their expiry at which credentials are renewed, or less if they live but shortly."""


LARGEST = 1_000_000
"""Bytes that it may print: a token, or a certificate and its key."""

_STDERR = 2

# How many bytes are kept of the end of what it says as an error.
_COMPLAINT = 2_000


_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")


class _EnvironmentVariable(msgspec.Struct):
    name: str
    value: str


class ExecSpec(msgspec.Struct, rename="camel"):
    """The `exec` part of a user."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_EnvironmentVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    def check(self) -> None:
        """Raise ValueError for what kubectl refuses before it runs the program."""
        if not self.command:
            raise ValueError("command is missing")
        if self.api_version not in _API_VERSIONS:
            known = " or ".join(_API_VERSIONS)
            raise ValueError(f"apiVersion {self.api_version!r} is not {known}")
        if not self.interactive_mode and self.api_version == _API_VERSIONS[0]:
            raise ValueError(f"interactiveMode is missing: one of {', '.join(_MODES)}")
        if self.interactive_mode and self.interactive_mode not in _MODES:
            raise ValueError(f"interactiveMode {self.interactive_mode!r} is none of {', '.join(_MODES)}")
        for variable in self.env or ():
            if not variable.name:
                raise ValueError("env: a variable has no name")


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Credential(msgspec.Struct, rename="camel"):
    """An ExecCredential, as the program prints it."""

    kind: str
    api_version: str
    status: _Status


class _Output(asyncio.SubprocessProtocol):
    """Collected output of the program."""

    def __init__(self) -> None:
        self.printed = bytearray()
        self.complaint = bytearray()
        self.complete = asyncio.Event()
        """Nothing more is to come, or it is too much already."""
        self.ended = asyncio.Event()
        """The program has ended."""

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
    """Credentials from the program, until they expire or the server rejects them."""

    def __init__(
        self,
        spec: ExecSpec,
        label: str,
        folder: Path,
        cluster: Mapping[str, Any],
        environ: Mapping[str, str],
    ) -> None:
        """Configure the program.

        Args:
            spec: how to call it.
            label: what to call it in messages.
            folder: where a command that is a relative path starts from.
            cluster: cluster information for the program, if it asks for that.
            environ: the environment it inherits.
        """
        super().__init__()
        self.spec, self.label, self.folder, self.cluster, self.environ = spec, label, folder, cluster, environ

    async def obtain(self, *, rejected: bool) -> Obtained:  # noqa: ARG002 - the program is asked anew anyway
        """Start the program and wait for what it prints.

        Raises:
            ConfigError: it cannot be started, fails, takes too long or prints something else.
        """
        output = await self._output()
        if is_too_deep(output):
            raise ConfigError(f"{self.label}: prints no ExecCredential: {TOO_DEEP}")
        try:
            credential = msgspec.json.decode(output, type=_Credential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.label}: prints no ExecCredential: {error}") from error
        if credential.kind != "ExecCredential" or credential.api_version != self.spec.api_version:
            printed = f"{credential.kind} of {credential.api_version}"
            expected = f"an ExecCredential of {self.spec.api_version}"
            raise ConfigError(f"{self.label}: has to print {expected}, and prints {printed}")
        return self._obtained(credential.status)

    async def _output(self) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            transport, output = await loop.subprocess_exec(
                _Output,
                self._command(),
                *(self.spec.args or ()),
                env=self._environment(),
                stdin=None if self._interactive() else asyncio.subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            hint = f" ({' '.join(self.spec.install_hint.split())})" if self.spec.install_hint else ""
            raise ConfigError(f"{self.label}: cannot be started: {_reason(error)}{hint}") from error
        try:
            async with asyncio.timeout(TIMEOUT):
                await output.complete.wait()
        except TimeoutError:
            raise ConfigError(f"{self.label}: still not done after {TIMEOUT:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                transport.kill()
            await output.ended.wait()
            # Children of the program may still hold its pipes.
            transport.close()
        if len(output.printed) > LARGEST:
            raise ConfigError(f"{self.label}: prints more than {LARGEST} bytes")
        if (code := transport.get_returncode()) != 0:
            said = " ".join(output.complaint.decode("utf-8", "replace").split())[-500:]
            raise ConfigError(f"{self.label}: ended with exit code {code}: {said}")
        return bytes(output.printed)

    def _command(self) -> str:
        command = self.spec.command
        # Not `folder / command`: of "." and "./plugin" that makes "plugin", which is looked for in PATH.
        return os.path.join(self.folder, command) if os.sep in command else command  # noqa: PTH118

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
        environment = dict(self.environ)
        environment.update((variable.name, variable.value) for variable in self.spec.env or ())
        try:
            environment["KUBERNETES_EXEC_INFO"] = orjson.dumps(request).decode()
        except orjson.JSONEncodeError as error:
            raise ConfigError(f"{self.label}: cannot be told of the cluster: {error}") from error
        return environment

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


def _reason(error: OSError | ValueError) -> str:
    """Why it could not be started; a ValueError is about what no argument of a program can hold."""
    return getattr(error, "strerror", None) or str(error)
