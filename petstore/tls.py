"""Certificates of both sides, from files that may be renewed at any time."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

__all__ = ["Tls", "TlsContent", "TlsFiles", "TlsUnusable"]

_log = logging.getLogger("petstore.tls")


class TlsUnusable(Exception):
    """A file is missing or wrong; the text says why, and `file` which of `TlsFiles` it is."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(reason)
        self.file = file


@dataclass(frozen=True, slots=True)
class TlsContent:
    """What is in the files, each PEM."""

    ca: bytes | None = None
    certificates: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where one side finds whom it trusts, and the certificate that it shows, with its key."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def read(self) -> TlsContent:
        """Read and check them; blocks. Raises TlsUnusable."""
        for one, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise TlsUnusable(other, f"is missing, with {getattr(self, one)} alone")
        ca, certificates, key = (self._content(each) for each in ("ca_file", "cert_file", "key_file"))
        if ca is not None:
            _certificates("ca_file", self.ca_file, ca)
        if certificates is not None and key is not None:
            first = _certificates("cert_file", self.cert_file, certificates)[0]
            try:
                public = load_pem_private_key(key, None).public_key()
            except TypeError:
                raise TlsUnusable("key_file", f"{self.key_file}: the key is encrypted") from None
            except Exception:  # noqa: BLE001 -- of several libraries, for all that may be in a file
                raise TlsUnusable("key_file", f"{self.key_file}: there is no private key in PEM") from None
            if public != first.public_key():
                raise TlsUnusable("key_file", f"{self.key_file} is not the key of {self.cert_file}")
        return TlsContent(ca, certificates, key)

    def stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Differs when a file was written or replaced; blocks."""
        return tuple(_stamp(path) for path in (self.ca_file, self.cert_file, self.key_file))

    def _content(self, name: str) -> bytes | None:
        path: Path | None = getattr(self, name)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise TlsUnusable(name, f"{path}: {error.strerror}") from None


class Tls:
    """The content of the files as it was when last it could be used."""

    def __init__(self, files: TlsFiles, *, needs: str) -> None:
        """`needs` is the file that there has to be. Blocks. Raises TlsUnusable."""
        if getattr(files, needs) is None:
            raise TlsUnusable(needs, "is missing: without it there is no TLS")
        self._files = files
        self._stamp = files.stamp()
        self.content = files.read()

    @classmethod
    def of_client(cls, files: TlsFiles) -> Self | None:
        """What a client talks with: it has to trust somebody. None where no file is named."""
        return None if files == TlsFiles() else cls(files, needs="ca_file")

    @classmethod
    def of_server(cls, files: TlsFiles) -> Self | None:
        """What a server listens with: it has to show something. None where no file is named."""
        return None if files == TlsFiles() else cls(files, needs="cert_file")

    def look(self) -> bool:
        """Whether the content is another one now; blocks. What cannot be used is said in the log, once."""
        stamp = self._files.stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            content = self._files.read()
        except TlsUnusable as error:
            _log.warning("the certificates are used as they were: %s", error)
            return False
        changed, self.content = content != self.content, content
        return changed


def _certificates(name: str, path: Path | None, content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise TlsUnusable(name, f"{path}: there is no certificate in PEM") from None


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
