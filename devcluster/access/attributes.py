"""The attributes of a request that authorization looks at, and its decision."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING

from devcluster.errors import StatusError, forbidden

if TYPE_CHECKING:
    from devcluster.http_call import User

__all__ = ["Attributes", "Decision", "refusal"]

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_NEEDS_NO_ESCAPE = re.compile(r"[ !#-\[\]-~]*\Z")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """An action on a resource or, with a `path`, on a server path that belongs to no resource.

    `verb` is `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or whatever a
    role may say; for a path it is the HTTP method in lower case.
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The result of an authorization: whether the action is allowed, and the reason."""

    allowed: bool
    reason: str = ""


def refusal(user: User, wanted: Attributes, decision: Decision | None = None) -> StatusError:
    """Build the 403 for an action that is not allowed."""
    detail = f"User {quoted(user.name)} cannot {wanted.verb} "
    if wanted.path:
        detail += f"path {quoted(wanted.path)}"
    else:
        resource = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
        where = f"in the namespace {quoted(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
        detail += f"resource {quoted(resource)} in API group {quoted(wanted.group)} {where}"
    detail = detail.translate(_MARKUP)
    if decision is not None and decision.reason:
        detail += f": {decision.reason}"
    if wanted.path:
        error = StatusError(403, "Forbidden", f"forbidden: {detail}")
        error.empty_details = True
        return error
    return forbidden(wanted.group, wanted.resource, wanted.name, detail)


def quoted(text: str) -> str:
    """Quote a text in double quotes; unprintable characters are escaped."""
    return f'"{text}"' if _NEEDS_NO_ESCAPE.match(text) else json.dumps(text, ensure_ascii=False)
