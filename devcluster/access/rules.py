"""A rule of a role, and a check whether it allows an action."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import TYPE_CHECKING, Any, Self

from devcluster.access.attributes import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        """Read a rule from a role."""
        return cls(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, wanted: Attributes) -> bool:
        """Return whether the rule covers the action."""
        if wanted.verb not in self.verbs and _ANY not in self.verbs:
            return False
        if wanted.path:
            return any(_path_matches(path, wanted.path) for path in self.paths)
        return (
            (wanted.group in self.groups or _ANY in self.groups)
            and self._has_resource(wanted.resource, wanted.subresource)
            and (not self.names or wanted.name in self.names)
        )

    def parts(self) -> Iterator[Rule]:
        """Split the rule into rules with one verb and one resource, name or path each."""
        names: list[tuple[str, ...]] = [(name,) for name in self.names] or [()]
        for group, resource, verb, name in product(self.groups, self.resources, self.verbs, names):
            yield Rule(verbs=(verb,), groups=(group,), resources=(resource,), names=name)
        for path, verb in product(self.paths, self.verbs):
            yield Rule(verbs=(verb,), paths=(path,))

    def covers(self, part: Rule) -> bool:
        """Return whether the rule covers another one, which must be from `parts`."""
        if not _has(self.verbs, part.verbs[0]):
            return False
        if part.paths:
            return any(_path_matches(path, part.paths[0]) for path in self.paths)
        resource, slash, subresource = part.resources[0].partition("/")
        return (
            _has(self.groups, part.groups[0])
            and (
                _has(self.resources, part.resources[0])
                or (bool(slash) and resource != _ANY and f"*/{subresource}" in self.resources)
            )
            and (not self.names or (bool(part.names) and part.names[0] in self.names))
        )

    def with_verbs(self, verbs: Iterable[str]) -> Rule:
        """Return the same rule with other verbs."""
        return dataclasses.replace(self, verbs=tuple(verbs))

    def __str__(self) -> str:
        """Format the rule as Go prints it."""
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        shown = (f"{name}:[{' '.join(map(quoted, each))}]" for name, each in fields.items() if each)
        return f"{{{', '.join(shown)}}}"

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if _ANY in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def _has(these: tuple[str, ...], one: str) -> bool:
    return one in these or _ANY in these


def _path_matches(pattern: str, path: str) -> bool:
    if pattern.endswith(_ANY):
        return path.startswith(pattern.rstrip(_ANY))
    return pattern == path
