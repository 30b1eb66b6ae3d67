"""Continue tokens of paged lists."""

from __future__ import annotations

import base64
import binascii
import dataclasses

import orjson

from devcluster.api.json_errors import describe
from devcluster.errors import StatusError, bad_request

__all__ = ["Continuation", "expired_continuation"]

_FORMAT = "meta.k8s.io/v1"
_INVALID = "invalid continue token: "
_NOT_VALID = _INVALID + "continue key is not valid: "


@dataclasses.dataclass(frozen=True, slots=True)
class Continuation:
    """The start of a list's next page: after an object, in the state of a version (-1: the current one)."""

    version: int
    after: tuple[str, str]
    """(namespace, name)."""

    def encode(self, *, in_namespace: bool) -> str:
        """Encode the token; `in_namespace` for a list of one namespace or of a cluster-scoped resource."""
        namespace, name = self.after
        start = name if in_namespace or not namespace else f"{namespace}/{name}"
        document = {"v": _FORMAT, "rv": self.version, "start": f"{start}\0"}
        return base64.urlsafe_b64encode(orjson.dumps(document)).rstrip(b"=").decode()

    @classmethod
    def decode(cls, token: str, namespace: str) -> Continuation:
        """Read a token.

        Raises:
            StatusError: 400, it is none.
        """
        if (bad := _bad_byte(token)) < len(token):
            raise bad_request(f"{_NOT_VALID}illegal base64 data at input byte {bad}")
        try:
            text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            raise bad_request(f"{_NOT_VALID}illegal base64 data at input byte {_bad_byte(token)}") from None
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise bad_request(_NOT_VALID + describe(text)) from None
        version = document.get("v", "") if isinstance(document, dict) else ""
        if not isinstance(document, dict) or version != _FORMAT:
            raise bad_request(f"{_NOT_VALID}server does not recognize this encoded version {version}")
        version, start = document.get("rv"), document.get("start", "")
        if not isinstance(version, int) or version == 0:
            raise bad_request(f"{_NOT_VALID}incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        if not isinstance(start, str) or not start:
            raise bad_request(f"{_NOT_VALID}encoded start key empty (version meta.k8s.io/v1)")
        start = start.removeprefix("/").removesuffix("\0")
        found, slash, name = start.partition("/")
        return cls(version, (found, name) if slash else (namespace, found))


def expired_continuation(after: tuple[str, str], *, in_namespace: bool) -> StatusError:
    """Build the 410 for an expired token, with a token that continues in the current state."""
    error = StatusError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and "
        "now may show up in the list.",
    )
    error.metadata = {"continue": Continuation(-1, after).encode(in_namespace=in_namespace)}
    return error


def _bad_byte(token: str) -> int:
    alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    whole = len(token) - (len(token) % 4 == 1)  # a single last character has no data
    return next((place for place, each in enumerate(token) if each not in alphabet), whole)
