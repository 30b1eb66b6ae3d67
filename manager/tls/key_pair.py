"""A certificate with its private key, and TLS contexts with certificates to present or to trust."""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn


@contextmanager
def as_file(content: bytes, *, name: str) -> Iterator[str]:
    """Yield the path of a file with `content`; the file exists until the end of the block.

    `ssl` loads private keys only from a path, but a key in memory should not be written to a disk. So on
    Linux the file is a memfd, called `name`. Elsewhere it is a temporary file that only our user can read.
    """
    if sys.platform == "linux":
        file: Any = open(os.memfd_create(name), "wb")  # noqa: PTH123, SIM115 - it is closed below
        path = f"/proc/self/fd/{file.fileno()}"
    else:
        file = tempfile.NamedTemporaryFile()  # noqa: SIM115
        path = file.name
    with file:
        file.write(content)
        file.flush()
        yield path


class CertificateUnusable(OSError):
    """A missing or unusable certificate; the one-line message names the problem, and its source if known."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A server's certificate and its key, both PEM."""

    certificates: bytes
    """The server's own certificate, followed by those that lead to an authority."""

    key: bytes = field(repr=False)
    """The private key of the first certificate, not encrypted."""

    def context(self, client_authorities: bytes | None = None, *, required: bool = True) -> ssl.SSLContext:
        """Build a server's TLS context: TLS 1.2, HTTP/1.1. Raises `CertificateUnusable`.

        `client_authorities` has CA certificates in PEM: a client's certificate must be issued by one of them.
        With `required`, a client must present a certificate. Blocks for about a millisecond.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # In TLS 1.3, a client may change keys as often as it likes, in 27 bytes each, and OpenSSL processes
        # all received changes at once: one connection blocked the event loop for as long as it sent them.
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")  # as good as those of TLS 1.3
        # Otherwise one connection could repeat handshakes, whose costly half is ours.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        if client_authorities is not None:
            trust(context, client_authorities)
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        present(context, self.certificates, self.key)
        return context


def present(context: ssl.SSLContext, certificates: bytes, key: bytes) -> None:
    """Load the certificates, and the first one's key, into the context. Raises `CertificateUnusable`."""

    def no_password() -> NoReturn:
        raise CertificateUnusable("the key is encrypted, and the process cannot ask for its password")

    with as_file(certificates + b"\n" + key, name="certificate") as path:
        try:
            context.load_cert_chain(path, password=no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise CertificateUnusable("the key does not match the certificate") from error
            reason = error.reason or error
            raise CertificateUnusable(f"no certificate in PEM with its key ({reason})") from error


def trust(context: ssl.SSLContext, authorities: bytes) -> None:
    """Trust these PEM certificates in the context; raises `CertificateUnusable` if there are none."""
    try:
        # A file may have comments in any language between its certificates.
        context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise CertificateUnusable(f"contains no PEM certificate ({reason})") from error
