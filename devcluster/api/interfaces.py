"""The interfaces of the parts that the API server is given."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator
from typing import Any, Protocol

from devcluster.access.attributes import Attributes, Decision
from devcluster.access.rbac import Rule
from devcluster.http_call import ApiRequest, User
from devcluster.kinds.resource import Resource

__all__ = ["Admission", "AdmissionInfo", "Authenticator", "Authorizer", "Logs", "Reviews", "Tokens"]

Object = dict[str, Any]


class Authenticator(Protocol):
    """An authenticator of requests."""

    def authenticate(self, request: ApiRequest) -> User:
        """Return the request's user; raises StatusError, 401, for unknown credentials."""
        ...


class Authorizer(Protocol):
    """An authorizer of actions."""

    def authorize(self, user: User, wanted: Attributes) -> Decision:
        """Decide whether the user may take the action."""
        ...

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Return the user's rules in the namespace, and a text about missing information."""
        ...

    def rules_of_role(self, role: Object, namespace: str) -> tuple[tuple[Rule, ...], str]:
        """Return the rules of the role in a binding's `roleRef`, or the reason why they are unknown."""
        ...


@dataclasses.dataclass(slots=True, kw_only=True)
class AdmissionInfo:
    """A write, as admission sees it. Objects are of the version of `resource`, the requested one."""

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


class Admission(Protocol):
    """The plugins and webhooks that admit writes."""

    def handles(self, info: AdmissionInfo) -> bool:
        """Return whether asynchronous admission applies to the write; False saves copies of the objects."""
        ...

    async def mutate(self, info: AdmissionInfo) -> Object | None:
        """Return the object as admission changed it; raises StatusError to deny the write."""
        ...

    async def validate(self, info: AdmissionInfo) -> None:
        """Validate the write; raises StatusError to deny it."""
        ...


class Reviews(Protocol):
    """The answers to create-only kinds such as TokenReview and SubjectAccessReview."""

    async def review(self, kind: str, obj: Object, user: User) -> Object:
        """Return the object with its status; raises StatusError."""
        ...


class Tokens(Protocol):
    """The issuer of ServiceAccount tokens."""

    def issue(self, account: Object, request: Object) -> Object:
        """Return the TokenRequest with its status; raises StatusError."""
        ...


class Logs(Protocol):
    """The source of container logs."""

    def stream(
        self,
        pod: Object,
        container: str,
        *,
        follow: bool,
        tail_lines: int | None,
        since: datetime.datetime | None,
        timestamps: bool,
        previous: bool,
    ) -> AsyncIterator[bytes]:
        """Return a container's lines, with `follow` also future ones; raises StatusError at once."""
        ...
