"""A look at a token before anybody is asked about it."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import msgspec

from manager.clock import now

__all__ = ["has_expired"]

SLACK = 300.0
"""Seconds that our clock may be ahead of the API server's, and what that allows in its turn."""

_PARTS = 3


class _Head(msgspec.Struct):
    alg: str


class _Claims(msgspec.Struct):
    exp: float


def has_expired(token: str) -> bool:
    """Whether it is a JSON Web Token whose time was over a while ago, by what it says itself.

    Nobody may accept such a one (RFC 7519, 4.1.4). Any other text may be a token: the API server may know it
    from a file or ask somebody else, so neither length nor alphabet says that it is none.
    """
    parts = token.split(".")
    if len(parts) != _PARTS:
        return False
    try:
        msgspec.json.decode(_decoded(parts[0]), type=_Head)
        expires = msgspec.json.decode(_decoded(parts[1]), type=_Claims).exp
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return False
    return expires + SLACK < now().timestamp()


def _decoded(part: str) -> bytes:
    if "=" in part or "+" in part or "/" in part:
        raise ValueError("not base64url without padding")
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
