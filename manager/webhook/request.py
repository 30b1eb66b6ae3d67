"""The request of an admission review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from manager.api import GroupVersionKind

JsonObject = dict[str, Any]
"""The JSON of one object. Any value may have any type: check types, and leave alone what you cannot read, so
that the user gets the schema's message.
"""


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """User that makes the request."""

    name: str = ""
    """As the API server knows the user: `jane`, `system:serviceaccount:team-a:builder`."""

    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further information of the authenticator."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The request that the API server is about to carry out, and its user."""

    uid: str
    """Identifies this review, in the API server's log and in ours."""

    operation: Operation
    kind: GroupVersionKind
    """The kind and version of the objects in this review."""

    resource: str
    """The plural, as in the URL: `pets`."""

    name: str = ""
    """Of the object; "" before the server has generated it from `generateName`."""

    namespace: str = ""
    """Of the object; "" for one without."""

    user: UserInfo = UserInfo()
    dry_run: bool = False
    """Nothing will be stored, so do not change anything elsewhere."""

    subresource: str = ""
    """`status`, `scale`; "" for the object itself."""

    requested_kind: GroupVersionKind | None = None
    """The version that the user sent, if it is another than `kind`."""

    options: JsonObject = field(default_factory=dict, repr=False)
    """The CreateOptions, UpdateOptions or DeleteOptions of the request."""

    # Not shown: a log line or a message must not have what an object holds.
    object: JsonObject | None = field(default=None, repr=False)
    """The new object, on create and update. A defaulting function gets the same one."""

    old_object: JsonObject | None = field(default=None, repr=False)
    """The stored object, on update and delete."""
