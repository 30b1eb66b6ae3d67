"""What can be said of the pet store when the manager starts.

Imports nothing of the store: the flags are known whether the operator runs or not.
"""

from __future__ import annotations

from manager.address import parse_address
from manager.duration import parse_duration
from manager.setting import Setting, parse_text

__all__ = ["PETSTORE_ADDRESS", "PETSTORE_CHECK_INTERVAL", "PETSTORE_TIMEOUT", "PETSTORE_TLS"]


def _some_time(text: str) -> float:
    """Seconds. Raises ValueError unless it is a duration above 0."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError("a duration above 0 is expected")
    return seconds


PETSTORE_ADDRESS = Setting(
    "petstore-address",
    parse_address,
    default="localhost:6742",
    description="where the pet store is that Pets are kept in",
    placeholder="HOST:PORT",
)
PETSTORE_TIMEOUT = Setting(
    "petstore-timeout",
    _some_time,
    default="5s",
    description="how long to wait for an answer of the pet store",
    placeholder="DURATION",
)
PETSTORE_CHECK_INTERVAL = Setting(
    "petstore-check-interval",
    _some_time,
    default="5m",
    description="how often to look for records of Pets that were changed or lost in the pet store",
    placeholder="DURATION",
)
PETSTORE_TLS = (
    Setting(
        "petstore-tls-ca-file",
        parse_text,
        description="talk to the pet store over TLS, and trust these authorities (PEM)",
        placeholder="FILE",
    ),
    Setting(
        "petstore-tls-cert-file",
        parse_text,
        description="the certificate to show the pet store (PEM)",
        placeholder="FILE",
    ),
    Setting(
        "petstore-tls-key-file",
        parse_text,
        description="the key of --petstore-tls-cert-file (PEM)",
        placeholder="FILE",
    ),
    Setting(
        "petstore-tls-server-name",
        parse_text,
        description="whom the pet store's certificate is for; default the host of --petstore-address",
        placeholder="NAME",
    ),
)
"""Authorities, certificate, key, and name; files are read again when they are renewed."""
