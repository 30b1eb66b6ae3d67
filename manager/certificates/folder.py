"""A folder on this machine, and the certificate in it, for a manager that runs beside its developer."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import orjson

from manager.certificates.store import Changed, Material, Snapshot, StoreUnusable
from manager.tls.key_pair import CertificateUnusable, KeyPair
from manager.util.small_file import read_small_file

_ALL = "certificates.json"
_BUNDLE = "ca.crt"
_LOCK = ".lock"


class FolderStore:
    """`Store` in one file of a private folder of ours.

    `certificates.json` has certificates and keys, named and encoded as in a Secret, so readers never see one
    without the other, however many processes write. `ca.crt` beside it is a copy of the bundle for manual
    calls of the webhooks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder / _ALL)

    def look(self) -> Snapshot:
        """Read like `read`, but block."""
        try:
            self._check_folder()
            content = read_small_file(self._folder / _ALL)
        except FileNotFoundError:
            return Snapshot(Material(), None)
        except OSError as error:
            raise StoreUnusable(f"{self} cannot be read: {error.strerror}") from error
        return Snapshot(Material.of(_entries(content)), content)

    async def read(self) -> Snapshot:
        """See `Store`."""
        return await asyncio.to_thread(self.look)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        """See `Store`."""
        await asyncio.to_thread(self._replace, material, instead_of)

    def _replace(self, material: Material, instead_of: Snapshot) -> None:
        entries = {name: base64.b64encode(text).decode() for name, text in material.entries().items()}
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            with self._locked():
                if self.look().version != instead_of.version:
                    raise Changed(f"{self} was changed by another process")
                self._put(_ALL, orjson.dumps(entries, option=orjson.OPT_INDENT_2))
                self._put(_BUNDLE, material.bundle)
        except OSError as error:
            raise StoreUnusable(f"{self} cannot be written: {error.strerror}") from error

    def _check_folder(self) -> None:
        """Raise `StoreUnusable` if other users could put a CA of theirs into the folder."""
        found = self._folder.stat()
        if found.st_uid not in {os.geteuid(), 0}:
            raise StoreUnusable(f"{self._folder} belongs to another user")
        if found.st_mode & 0o022:
            raise StoreUnusable(f"others may write to {self._folder}: chmod go-w {self._folder}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing; the lock goes with the process, however that ends."""
        handle = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _put(self, name: str, content: bytes) -> None:
        """Replace a file atomically: readers see either the old or the new content."""
        made = self._folder / f".{name}.{secrets.token_hex(4)}"
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            made.replace(self._folder / name)
        except OSError:
            made.unlink(missing_ok=True)
            raise


class FolderCertificate:
    """`CertificateSource` with the file of a `FolderStore`."""

    def __init__(self, store: FolderStore) -> None:
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`."""
        del now
        try:
            found = self._store.look().material.pair
        except StoreUnusable as error:
            raise CertificateUnusable(str(error)) from error
        if found is None:
            raise CertificateUnusable(f"{self._store} has no certificate yet: the leader makes it")
        return found


def _entries(content: bytes) -> dict[str, bytes]:
    """Decode a file's entries; a damaged file counts as empty and is then written anew."""
    try:
        found = orjson.loads(content)
        return {name: base64.b64decode(text, validate=True) for name, text in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
