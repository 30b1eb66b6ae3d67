"""The address on which a server listens: `:6742`, `127.0.0.1:6742`, `[::1]:6742`."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from manager.util import address


@dataclass(frozen=True, slots=True)
class BindAddress(address.BindAddress):
    """A host and a port to listen on."""

    @property
    def reached(self) -> str:
        """Return the address with which a client on this machine connects."""
        return str(self) if self.host else f"localhost{self}"

    @property
    def interface(self) -> str:
        """Return the host; if it is empty, the address of all interfaces: of IPv4 only if IPv6 is missing."""
        if self.host:
            return self.host
        return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 -- the user asked for it

    @property
    def target(self) -> str:
        """Return the address in gRPC's syntax."""
        return str(BindAddress(self.interface, self.port))

    def why_not(self) -> str:
        """Return the reason why no server can listen on the address; "" if one can. Blocks."""
        try:
            for family, *_, where in socket.getaddrinfo(self.interface, self.port, type=socket.SOCK_STREAM):
                # All interfaces include the IPv4 ones, as for the store itself.
                both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
                socket.create_server(where[:2], family=family, dualstack_ipv6=both).close()
        except OSError as error:
            # `socket.create_server` adds text that repeats the address.
            return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        return ""


def parse_address(text: str) -> BindAddress:
    """Parse an address on which a server listens; raise ValueError with the expected form."""
    parts = address.split_address(text)
    if parts is None:
        raise ValueError('an address such as ":6742", "127.0.0.1:6742" or "[::1]:6742" is expected')
    return BindAddress(*parts)
