"""What is asked in an admission review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from manager.api import GroupVersionKind

JsonObject = dict[str, Any]
"""The JSON of one object. Below the top there may be anything anywhere: whoever reads it checks types, and
leaves alone what it cannot read, so that the schema's own message reaches the user."""


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who makes the request."""

    name: str = ""
    """As the API server knows the user: `jane`, `system:serviceaccount:team-a:builder`."""

    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the way of signing in has added."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """What the API server is about to do, and for whom."""

    uid: str
    """Names this one question, in the API server's log and in ours."""

    operation: Operation
    kind: GroupVersionKind
    """The kind and version in which the objects are shown to us."""

    resource: str
    """The plural, as in the URL: `pets`."""

    name: str = ""
    """Of the object; "" while the server has yet to make it from `generateName`."""

    namespace: str = ""
    """Of the object; "" for one without."""

    user: UserInfo = UserInfo()
    dry_run: bool = False
    """Nothing will be stored, so nothing must be changed outside."""

    subresource: str = ""
    """`status`, `scale`; "" for the object itself."""

    requested_kind: GroupVersionKind | None = None
    """What the user sent, where that is another version than `kind`."""

    options: JsonObject = field(default_factory=dict, repr=False)
    """The CreateOptions, UpdateOptions or DeleteOptions of the request."""

    # Not shown: a log line or a message must not have what an object holds.
    object: JsonObject | None = field(default=None, repr=False)
    """The object as it is to be, for creations and updates. A defaulting function is given the same one."""

    old_object: JsonObject | None = field(default=None, repr=False)
    """The object as it is, for updates and deletions."""
