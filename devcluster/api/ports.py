"""What the API server asks of the parts that are given to it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator
from typing import Any, Protocol

from devcluster.access.attributes import Attributes, Decision
from devcluster.access.rules import Rule
from devcluster.exchange import ApiRequest, User
from devcluster.kinds.resource import Resource

__all__ = ["Admission", "AdmissionInfo", "Authenticator", "Authorizer", "Logs", "Reviews", "Tokens"]

Object = dict[str, Any]


class Authenticator(Protocol):
    """Who asks."""

    def authenticate(self, request: ApiRequest) -> User:
        """The user; raises StatusError 401 for credentials that nobody has."""
        ...


class Authorizer(Protocol):
    """What a user may do."""

    def authorize(self, user: User, wanted: Attributes) -> Decision:
        """Whether it is allowed."""
        ...

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """All that they may do there; and what could not be found out."""
        ...

    def rules_of_role(self, role: Object, namespace: str) -> tuple[tuple[Rule, ...], str]:
        """What the `roleRef` of a binding there allows, or why that is not known."""
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
    """To be added to."""


class Admission(Protocol):
    """Plugins and webhooks that look at writes."""

    def handles(self, info: AdmissionInfo) -> bool:
        """Whether anything but what is synchronous would look at it: False saves the copies."""
        ...

    async def mutate(self, info: AdmissionInfo) -> Object | None:
        """The object as it is to be; raises StatusError to refuse."""
        ...

    async def validate(self, info: AdmissionInfo) -> None:
        """Raises StatusError to refuse."""
        ...


class Reviews(Protocol):
    """Answers the create-only kinds: TokenReview, SubjectAccessReview and their like."""

    async def review(self, kind: str, obj: Object, user: User) -> Object:
        """The object with its status; raises StatusError."""
        ...


class Tokens(Protocol):
    """Makes ServiceAccount tokens."""

    def issue(self, account: Object, request: Object) -> Object:
        """The TokenRequest with its status; raises StatusError."""
        ...


class Logs(Protocol):
    """What containers print."""

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
        """Lines, and with `follow` those to come; raises StatusError at once."""
        ...
