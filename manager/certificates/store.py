"""Storage of certificates that outlives a process: a Secret shared by replicas, or a local folder."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from manager.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from manager.kube.transport import Transport
from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable, KeyPair
from manager.util.program import Program
from manager.util.small_file import read_small_file
from manager.webhook.configurations import field_manager_of

_ENTRIES = "tls.crt", "tls.key", "ca.crt", "ca.key"

_DEADLINE = 10.0
"""Seconds for a request about the Secret."""

_READ_FIRST, READ_EVERY = 1.0, 5.0
"""Seconds between a replica's reads of the Secret, without a certificate and with one."""

_FILE, _BUNDLE, _LOCK = "certificates.json", "ca.crt", ".lock"

_log = get_logger("webhook.certificates")


@dataclass(frozen=True, slots=True)
class Material:
    """PEM texts as stored; any of them may be empty, damaged or written by another program."""

    certificate: bytes = b""
    """`tls.crt`: the certificate that servers present."""

    key: bytes = field(default=b"", repr=False)
    """`tls.key`: its private key."""

    bundle: bytes = b""
    """`ca.crt`: the authorities for clients to trust, the newest first."""

    authority_keys: bytes = field(default=b"", repr=False)
    """`ca.key`: the private keys of the authorities that still sign."""

    @classmethod
    def decode(cls, data: Mapping[str, Any] | None) -> Material:
        """Return the material in the data of a kubernetes.io/tls Secret; damaged entries count as missing."""
        texts = []
        for name in _ENTRIES:
            try:
                texts.append(base64.b64decode((data or {}).get(name, ""), validate=True))
            except (ValueError, TypeError):
                texts.append(b"")
        return cls(*texts)

    def encode(self) -> dict[str, str]:
        """Return the certificates and keys as the `data` of a Secret."""
        texts = (self.certificate, self.key, self.bundle, self.authority_keys)
        return {name: base64.b64encode(text).decode() for name, text in zip(_ENTRIES, texts, strict=True)}

    @property
    def pair(self) -> KeyPair | None:
        """Return the certificate and key that servers present; None if one of them is missing."""
        return KeyPair(self.certificate, self.key) if self.certificate and self.key else None


class StoreUnusable(Exception):
    """The store cannot be read or written; the one-line message gives the reason, but no content."""


class Changed(Exception):
    """Another process has changed the object since it was read, so this write did not happen."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a store at the time of reading."""

    material: Material

    version: Any = field(repr=False)
    """The store's own version, by which a write detects a change in between."""


class Store(Protocol):
    """A storage for one `Material`."""

    def __str__(self) -> str:
        """Return the name of the storage, for messages."""

    async def read(self) -> Snapshot:
        """Return the current content; an empty material if nothing is stored.

        Raises `StoreUnusable` for a problem that only a person can solve, otherwise a `KubeError`.
        """

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        """Replace the content `instead_of`, which was read before; raises `Changed` if it has changed since.

        Raises the errors of `read`, too; the write may have succeeded in spite of such an error.
        """


class SecretStore:
    """A `Store` in a Secret of type kubernetes.io/tls, and the `CertificateSource` of every replica.

    The Secret contains the bundle in `ca.crt`, as with cert-manager, and `ca.key`. Other entries, labels and
    annotations are not changed. A replica polls the Secret every five seconds instead of watching: one GET by
    name costs little, and a certificate is renewed a month before it expires.
    """

    def __init__(
        self,
        transport: Transport,
        program: Program,
        *,
        namespace: str,
        name: str,
        read_every: float = READ_EVERY,
    ) -> None:
        """Create a store; `read_every` is the number of seconds between reads once there is a certificate."""
        self._transport = transport
        self._program = program
        self._namespace = namespace
        self._name = name
        self._read_every = read_every
        self._pair: KeyPair | None = None
        self._problem = f"{self} has not been read yet"
        self._collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"
        self._object = f"{self._collection}/{quote(name, safe='')}"

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> Snapshot:
        try:
            body = await self._transport.request("GET", self._object, deadline=_DEADLINE)
        except NotFound:
            return Snapshot(Material(), None)
        except Forbidden as error:
            raise StoreUnusable(f"{self} cannot be read: {error}") from error
        secret = _mapping(body)
        if secret is None:
            raise StoreUnusable("the API server's answer is no Secret")
        return Snapshot(Material.decode(secret.get("data")), secret)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        known: dict[str, Any] | None = instead_of.version
        if known is None:
            labels = {**self._program.labels, "app.kubernetes.io/managed-by": self._program.name}
            metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
            secret: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": metadata,
            }
            method, path = "POST", self._collection
        else:
            # The metadata contain the version that was read, so that the write replaces only that version.
            method, path, secret = "PUT", self._object, dict(known)
        secret["data"] = (secret.get("data") or {}) | material.encode()
        query = {"fieldManager": field_manager_of(self._program)}
        try:
            await self._transport.request(
                method, path, query=query, body=orjson.dumps(secret), deadline=_DEADLINE
            )
        except (Conflict, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and known is None:
                raise StoreUnusable(f"{self} cannot be created: {error}") from error
            raise Changed(str(error)) from error
        except (Forbidden, Invalid) as error:
            # An invalid Secret is immutable, or its type requires other entries; neither can be changed.
            raise StoreUnusable(f"{self} cannot be written: {_without_values(error)}") from error

    def pair(self, now: datetime) -> KeyPair:
        """Return the pair that `follow` has read last; does not block."""
        del now
        if self._pair is None:
            raise CertificateUnusable(self._problem)
        return self._pair

    async def follow(self) -> None:
        """Poll the Secret until cancelled; log each new error."""
        logged = ""
        while True:
            try:
                self._pair = (await self.read()).material.pair
                self._problem = problem = "" if self._pair else _not_made(self)
            except (StoreUnusable, KubeError) as error:
                # Keep serving the last certificate, which is valid even if the API server is unreachable.
                self._problem = problem = str(error)
                if problem != logged:
                    _log.warning("cannot read the certificate of the webhooks", error=problem)
            logged = problem
            await asyncio.sleep(_READ_FIRST if self._pair is None else self._read_every)


class FolderStore:
    """A `Store` and `CertificateSource` in one file of a private folder.

    `certificates.json` contains certificates and keys like a Secret, so readers never see one without the
    other. `ca.crt` beside it is a copy of the bundle for manual calls of the webhooks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder / _FILE)

    def look(self) -> Snapshot:
        """Return the current content, as `read` does; blocks."""
        try:
            self._check_folder()
            content = read_small_file(self._folder / _FILE)
        except FileNotFoundError:
            return Snapshot(Material(), None)
        except OSError as error:
            raise StoreUnusable(f"{self} cannot be read: {error.strerror}") from error
        return Snapshot(Material.decode(_mapping(content)), content)

    def pair(self, now: datetime) -> KeyPair:
        del now
        try:
            found = self.look().material.pair
        except StoreUnusable as error:
            raise CertificateUnusable(str(error)) from error
        if found is None:
            raise CertificateUnusable(_not_made(self))
        return found

    async def read(self) -> Snapshot:
        return await asyncio.to_thread(self.look)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        await asyncio.to_thread(self._replace, material, instead_of)

    def _replace(self, material: Material, instead_of: Snapshot) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            with os.fdopen(os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # locked until the file is closed, however the process ends
                if self.look().version != instead_of.version:
                    raise Changed(f"{self} was changed by another process")
                self._put(_FILE, orjson.dumps(material.encode(), option=orjson.OPT_INDENT_2))
                self._put(_BUNDLE, material.bundle)
        except OSError as error:
            raise StoreUnusable(f"{self} cannot be written: {error.strerror}") from error

    def _check_folder(self) -> None:
        """Raise `StoreUnusable` if other users could put their own CA into the folder."""
        found = self._folder.stat()
        if found.st_uid not in {os.geteuid(), 0}:
            raise StoreUnusable(f"{self._folder} belongs to another user")
        if found.st_mode & 0o022:
            raise StoreUnusable(f"others may write to {self._folder}: chmod go-w {self._folder}")

    def _put(self, name: str, content: bytes) -> None:
        """Replace a file atomically, under the lock: readers see either the old or the new content."""
        new = self._folder / f".{name}"
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / name)


def _not_made(store: Store) -> str:
    return f"{store} has no certificate yet: the leader creates it"


def _mapping(body: bytes) -> dict[str, Any] | None:
    """Decode a JSON object; return None for anything else, without an error that quotes the content."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _without_values(error: Forbidden | Invalid) -> str:
    """Return the error's message; for an invalid Secret, only the names of the fields, without values."""
    if isinstance(error, Forbidden):
        return str(error)
    causes = error.details.get("causes") or []
    fields = [str(cause["field"]) for cause in causes if isinstance(cause, dict) and cause.get("field")]
    return f"the API server finds it invalid ({', '.join(fields) or 'it does not say where'})"
