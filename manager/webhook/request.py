"""The request of an admission review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from manager.api import GroupVersionKind

JsonObject = dict[str, Any]
"""The JSON of one object. Any value may have any type: check types, and do not change what you cannot read,
so that the user gets the schema's message.
"""


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user that makes the request."""

    name: str = ""
    """The name in the API server: `jane`, `system:serviceaccount:team-a:builder`."""

    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further information from the authenticator."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The request that the API server is about to process, and its user."""

    uid: str
    """The identifier of this review, in the API server's log and in ours."""

    operation: Operation
    kind: GroupVersionKind
    """The kind and version of the objects in this review."""

    resource: str
    """The plural, as in the URL: `pets`."""

    name: str = ""
    """The object's name; "" before the server has generated it from `generateName`."""

    namespace: str = ""
    """The object's namespace; "" for an object without one."""

    user: UserInfo = UserInfo()
    dry_run: bool = False
    """Whether nothing will be stored, so that you must not change anything elsewhere."""

    subresource: str = ""
    """`status`, `scale`; "" for the object itself."""

    requested_kind: GroupVersionKind | None = None
    """The kind and version that the user sent, if it differs from `kind`."""

    options: JsonObject = field(default_factory=dict, repr=False)
    """The CreateOptions, UpdateOptions or DeleteOptions of the request."""

    # Not shown: log lines and messages must not contain an object's content.
    object: JsonObject | None = field(default=None, repr=False)
    """The new object, or a connection's options; None on delete. A defaulting function gets this object."""

    old_object: JsonObject | None = field(default=None, repr=False)
    """The stored object, on update and delete."""
