"""A request to a resource, as the handlers of the verbs get it."""

from __future__ import annotations

import dataclasses
import unicodedata

from devcluster.http_call import ApiRequest, User
from devcluster.kinds.resource import Resource
from devcluster.storage.records import Key

__all__ = ["Call", "add_warning"]

_MOST_WARNINGS = 300
"""More than fit into the headers of an answer."""


def add_warning(warnings: list[str], text: str) -> None:
    """Add a warning for the client, unless it is empty, a duplicate, unfit for a header, or one too many."""
    if not text or text in warnings or len(warnings) >= _MOST_WARNINGS:
        return
    if not any(unicodedata.category(each) == "Cc" for each in text):
        warnings.append(text)


@dataclasses.dataclass(slots=True, kw_only=True)
class Call:
    """A request, its user and its resource. `warnings` collects warnings for the client."""

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
        """Tell the client, once."""
        add_warning(self.warnings, text)
