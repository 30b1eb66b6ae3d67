"""One request to one resource, as the verbs see it."""

from __future__ import annotations

import dataclasses
import unicodedata

from devcluster.exchange import ApiRequest, User
from devcluster.kinds.resource import Resource
from devcluster.storage.records import Key

__all__ = ["Call", "add_warning"]

_MOST_WARNINGS = 300
"""More than fit into the headers of an answer."""


def add_warning(warnings: list[str], text: str) -> None:
    """Add what the client is to be told, unless it says nothing, is there already or fits no header."""
    if not text or text in warnings or len(warnings) >= _MOST_WARNINGS:
        return
    if not any(unicodedata.category(each) == "Cc" for each in text):
        warnings.append(text)


@dataclasses.dataclass(slots=True, kw_only=True)
class Call:
    """What is asked, by whom, of which resource. `warnings` collects what the client is to be told."""

    request: ApiRequest
    resource: Resource
    user: User
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def key(self) -> Key:
        """Of the object it names."""
        return self.key_of(self.name)

    def key_of(self, name: str) -> Key:
        """Of another object in the same place."""
        group, plural = self.resource.stored
        return Key(group, plural, self.namespace if self.resource.namespaced else "", name)

    @property
    def user_agent(self) -> str:
        """The program that asks."""
        return self.request.headers.get("user-agent", "")

    @property
    def patches(self) -> bool:
        """Whether the body is a patch."""
        return self.request.method == "PATCH"

    def warn(self, text: str) -> None:
        """Tell the client, once."""
        add_warning(self.warnings, text)
