"""Where a server listens: `:8080`, `127.0.0.1:8080`, `[::]:8080`; `0` for nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from manager.address import split_address

_EXPECTED = 'an address such as ":8080", "127.0.0.1:8080" or "[::1]:8080" is expected, or "0" for none'


@dataclass(frozen=True, slots=True)
class BindAddress:
    """A host and a port to listen on."""

    host: str
    """An IP address without brackets, a host name, or "" for all interfaces."""

    port: int
    """0 lets the system choose a free port."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> BindAddress | None:
    """The address written in `text`; None when it is `0`, which turns the server off.

    Raises `ValueError`, with a message that says what is expected.
    """
    if text == "0":
        return None
    parts = split_address(text)
    if parts is None:
        raise ValueError(_EXPECTED)
    return BindAddress(*parts)
