"""One rule of a role, and what it allows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from devcluster.access.attributes import Attributes

__all__ = ["Rule"]

_ANY = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A PolicyRule, ready to be asked."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: dict[str, Any]) -> Self:
        """From what stands in a role."""
        return cls(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, wanted: Attributes) -> bool:
        """Whether it covers the action."""
        if wanted.verb not in self.verbs and _ANY not in self.verbs:
            return False
        if wanted.path:
            return any(_path_matches(path, wanted.path) for path in self.paths)
        return (
            (wanted.group in self.groups or _ANY in self.groups)
            and self._has_resource(wanted.resource, wanted.subresource)
            and (not self.names or wanted.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if _ANY in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    if pattern.endswith(_ANY):
        return path.startswith(pattern.rstrip(_ANY))
    return pattern == path
