"""Requests in the form for handlers, and the protocols (interfaces) of the API server's other parts."""

from __future__ import annotations

import dataclasses
import datetime
import unicodedata
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol

from devcluster.errors import StatusError, forbidden
from devcluster.http_call import ApiRequest, User
from devcluster.kinds.resource import Resource
from devcluster.storage.records import Key

_MOST_WARNINGS = 300
"""The maximum number of warnings, which exceeds the room in a response's headers."""


def add_warning(warnings: list[str], text: str) -> None:
    """Add a warning; ignore an empty, repeated or unprintable text, and any above the maximum number."""
    if not text or text in warnings or len(warnings) >= _MOST_WARNINGS:
        return
    if not any(unicodedata.category(each) == "Cc" for each in text):
        warnings.append(text)


@dataclasses.dataclass(slots=True, kw_only=True)
class Call:
    """Request with its user and its resource; `warnings` collects warnings for the client."""

    request: ApiRequest
    resource: Resource
    user: User
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def key(self) -> Key:
        """Return the store key of the object that the request names."""
        return self.key_of(self.name)

    def key_of(self, name: str) -> Key:
        """Return the store key of another object in the same namespace."""
        group, plural = self.resource.stored
        return Key(group, plural, self.namespace if self.resource.namespaced else "", name)

    @property
    def user_agent(self) -> str:
        """The request's user agent."""
        return self.request.headers.get("user-agent", "")

    @property
    def patches(self) -> bool:
        """Whether the body is a patch."""
        return self.request.method == "PATCH"

    def warn(self, text: str) -> None:
        add_warning(self.warnings, text)


Object = dict[str, Any]


@dataclasses.dataclass(slots=True, kw_only=True)
class AdmissionInfo:
    """Description of a write for admission; the objects have the API version of the request."""

    operation: str
    """`CREATE`, `UPDATE`, `DELETE` or `CONNECT`."""
    resource: Resource
    subresource: str
    kind: tuple[str, str, str]
    """(group, version, kind) of `obj`, which with a subresource may differ from the resource's."""
    namespace: str
    name: str
    obj: Object | None
    old: Object | None
    options: Object | None
    dry_run: bool
    user: User
    warnings: list[str]
    """Warnings for the client; admission appends to them."""

    @classmethod
    def of(
        cls,
        call: Call,
        operation: str,
        obj: Object | None,
        *,
        old: Object | None = None,
        kind: tuple[str, str, str] | None = None,
        options: Object | None = None,
        dry_run: bool = False,
    ) -> AdmissionInfo:
        """Describe the write of a request for admission; `kind` defaults to the resource's own kind."""
        resource = call.resource
        name = call.name or ((obj or {}).get("metadata") or {}).get("name", "")
        is_written = operation != "DELETE" and resource.name == "namespaces"
        return cls(
            operation=operation,
            resource=resource,
            subresource=call.subresource,
            kind=kind or (resource.group, resource.version, resource.kind),
            namespace=call.namespace or (name if is_written else ""),
            name=name,
            obj=obj,
            old=old,
            options=options,
            dry_run=dry_run,
            user=call.user,
            warnings=call.warnings,
        )

    def creates(self, *resources: str) -> bool:
        """Return whether the write creates an object of one of these resources."""
        return self.operation == "CREATE" and not self.subresource and self.resource.name in resources

    def updates(self, *resources: str) -> bool:
        """Return whether the write updates an object of one of these resources."""
        return self.operation == "UPDATE" and not self.subresource and self.resource.name in resources

    def refusal(self, why: str) -> StatusError:
        """Build the 403 for a write that admission denies."""
        return forbidden(self.resource.group, self.resource.plural, self.name, why)


class Admission(Protocol):
    """The plugins and webhooks that admit writes."""

    def handles(self, info: AdmissionInfo) -> bool:
        """Return whether admission applies to the write; if False, the caller need not copy the objects."""
        ...

    async def mutate(self, info: AdmissionInfo) -> Object | None:
        """Return the object as admission changed it; raise StatusError to deny the write."""
        ...

    async def validate(self, info: AdmissionInfo) -> None:
        """Run all checks of the write; raise StatusError to deny it."""
        ...

    def check_quotas(self, info: AdmissionInfo) -> None:
        """Repeat the last check of `validate`; raise StatusError if the write would now exceed a quota.

        If no other task runs between this check and the write, two creations cannot both use the same rest of
        a quota.
        """
        ...


class LogOptions(NamedTuple):
    """Options of a request for a container's log."""

    follow: bool = False
    """Whether to include future lines."""
    tail_lines: int | None = None
    since: datetime.datetime | None = None
    timestamps: bool = False
    previous: bool = False
    """Whether to read the previous run of the container."""


ALL_LINES = LogOptions()
LogSource = Callable[[Object, str, LogOptions], AsyncIterator[bytes]]
"""Returns the log lines of a pod's container; the call itself raises StatusError, not the iteration."""
