"""The certificates of a client or a server, in files that may be renewed while the program runs."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Self

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from manager.util.small_file import read_small_file

_RSA_BITS: Final = 2048
_KNOWN_KEYS: Final = f"a key on the curve P-256 or P-384, or of RSA with at least {_RSA_BITS} bits,"

_log = logging.getLogger("petstore.tls")


class TlsUnusable(Exception):
    """An error: a TLS file is missing or invalid; the text is the reason, `file` the field in `TlsFiles`."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(reason)
        self.file = file


@dataclass(frozen=True, slots=True)
class TlsContent:
    """The contents of a server's or a client's TLS files, in PEM."""

    ca: bytes | None = None
    certificates: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The paths of a client's or a server's files: trusted certificate authorities, certificate, and key."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def read(self) -> TlsContent:
        """Read and check the files; blocks. Raises TlsUnusable."""
        for one, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise TlsUnusable(other, f"is missing, with {getattr(self, one)} alone")
        ca, certificates, key = (self._content(each) for each in ("ca_file", "cert_file", "key_file"))
        if ca is not None:
            _certificates("ca_file", self.ca_file, ca)
        if certificates is not None and key is not None:
            first = _certificates("cert_file", self.cert_file, certificates)[0]
            try:
                private = load_pem_private_key(key, None)
            except TypeError:
                raise TlsUnusable("key_file", f"{self.key_file}: the key is encrypted") from None
            except Exception:  # noqa: BLE001 -- several libraries raise different errors for invalid files
                raise TlsUnusable("key_file", f"{self.key_file}: there is no private key in PEM") from None
            if not _is_known(private):
                raise TlsUnusable("key_file", f"{self.key_file}: {_KNOWN_KEYS} is expected")
            if private.public_key() != first.public_key():
                raise TlsUnusable("key_file", f"{self.key_file} is not the key of {self.cert_file}")
        return TlsContent(ca, certificates, key)

    def stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return a value that changes if a file is written or replaced; blocks."""
        return tuple(_stamp(path) for path in (self.ca_file, self.cert_file, self.key_file))

    def _content(self, name: str) -> bytes | None:
        path: Path | None = getattr(self, name)
        if path is None:
            return None
        try:
            return read_small_file(path)
        except OSError as error:
            raise TlsUnusable(name, f"{path}: {error.strerror}") from None


class Tls:
    """The last valid contents of a client's or a server's TLS files."""

    look_every: ClassVar[float] = 10.0
    """The minimum seconds between two checks of the files, which calls or new connections cause."""

    def __init__(self, files: TlsFiles, *, needs: str) -> None:
        if getattr(files, needs) is None:
            raise TlsUnusable(needs, "is missing: without it there is no TLS")
        self._files = files
        self._stamp = files.stamp()
        self._use(files.read())

    @classmethod
    def of_client(cls, files: TlsFiles) -> Self | None:
        """Return a client's TLS, which needs `ca_file`; None without paths. Blocks. Raises TlsUnusable."""
        return None if files == TlsFiles() else cls(files, needs="ca_file")

    def look(self) -> bool:
        """Reload changed files; return whether usable content is new. Blocks. Logs unusable files once."""
        stamp = self._files.stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            content = self._files.read()
            if content == self.content:
                return False
            self._use(content)
        except TlsUnusable as error:
            _log.warning("cannot use the new certificates, continuing with the earlier ones: %s", error)
            return False
        return True

    def _use(self, content: TlsContent) -> None:
        self.content = content


class ServerTls(Tls):
    """A server's TLS, which needs a certificate, and may require client certificates."""

    @classmethod
    def of_server(cls, files: TlsFiles) -> Self | None:
        """Return a server's TLS; None if `files` has no paths. Blocks. Raises TlsUnusable."""
        return None if files == TlsFiles() else cls(files, needs="cert_file")

    def credentials(self) -> grpc.ServerCredentials:
        """Return gRPC's server credentials; new connections use renewed files."""
        self._looked = time.monotonic()
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._renewed,  # type: ignore[arg-type]  # None means: keep the previous configuration
            require_client_authentication=self.content.ca is not None,
        )

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        content = self.content
        assert content.key is not None
        assert content.certificates is not None
        return grpc.ssl_server_certificate_configuration(
            [(content.key, content.certificates)], root_certificates=content.ca
        )

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        now = time.monotonic()
        if now - self._looked < self.look_every:
            return None
        self._looked = now
        return self._configuration() if self.look() else None


def _is_known(key: PrivateKeyTypes) -> bool:
    """Return whether most peers support this type of key; connections with other types may fail."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.key_size >= _RSA_BITS
    return isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, (ec.SECP256R1, ec.SECP384R1))


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
