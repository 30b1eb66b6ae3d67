"""Registry of the served resources: built-in ones, and custom ones while their definition exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from devcluster.kinds.resource import Resource

_BUILT_IN_GROUPS = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
"""The built-in groups in the order of discovery; other groups follow by name."""

_GROUP_RANK = {group: rank for rank, group in enumerate(_BUILT_IN_GROUPS)}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {"": 0, "beta": 1, "alpha": 2}


class Registry:
    """Registry of resources, by group, version, plural and kind.

    Every change increments `generation` and calls the subscribers. Caches of documents about the registry use
    `generation` as their key.
    """

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self.generation = 0
        self._by_plural: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str, str], Resource] = {}
        self._versions: dict[tuple[str, str], list[Resource]] = {}
        self._subscribers: list[Callable[[], None]] = []
        for resource in resources:
            self._insert(resource)

    def add(self, resource: Resource) -> None:
        """Serve `resource`; replace a resource with the same group, version and plural."""
        self._insert(resource)
        self._changed()

    def remove(self, resource: Resource) -> None:
        """Stop serving the resource; do nothing if it is not served."""
        if self._discard(resource):
            self._changed()

    def replace(self, group: str, plural: str, resources: Iterable[Resource]) -> None:
        """Serve exactly `resources` as the versions of a resource; an empty list stops serving it."""
        for old in list(self._versions.get((group, plural), ())):
            self._discard(old)
        for new in resources:
            self._insert(new)
        self._changed()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource with this version and plural name, or None."""
        return self._by_plural.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of this kind and version, or None."""
        return self._by_kind.get((group, version, kind))

    def versions(self, group: str, plural: str) -> list[Resource]:
        """Return all versions of a resource, the most stable and newest first; [] if it is unknown."""
        return list(self._versions.get((group, plural), ()))

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, in discovery order; the core group "" is the first one."""
        found: dict[str, set[str]] = {}
        for group, version, _plural in self._by_plural:
            found.setdefault(group, set()).add(version)
        ordered = sorted(found, key=lambda group: (_GROUP_RANK.get(group, len(_GROUP_RANK)), group))
        return {group: sorted(found[group], key=version_priority) for group in ordered}

    def all(self) -> list[Resource]:
        """Return all resources in no particular order."""
        return list(self._by_plural.values())

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` synchronously after each change; return a function that ends the subscription."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _insert(self, resource: Resource) -> None:
        self._discard(resource)
        self._by_plural[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.group, resource.version, resource.kind] = resource
        versions = self._versions.setdefault((resource.group, resource.plural), [])
        versions.append(resource)
        versions.sort(key=lambda each: version_priority(each.version))
        _acquaint(versions)

    def _discard(self, resource: Resource) -> bool:
        old = self._by_plural.pop((resource.group, resource.version, resource.plural), None)
        if old is None:
            return False
        if self._by_kind.get((old.group, old.version, old.kind)) is old:
            del self._by_kind[old.group, old.version, old.kind]
        versions = self._versions[old.group, old.plural]
        versions.remove(old)
        _acquaint(versions)
        if not versions:
            del self._versions[old.group, old.plural]
        return True

    def _changed(self) -> None:
        self.generation += 1
        for callback in list(self._subscribers):
            callback()


def _acquaint(versions: list[Resource]) -> None:
    """Give each version of a resource the schemas of all its versions."""
    schemas = {each.api_version: each.schema for each in versions}
    for each in versions:
        each.schemas = schemas


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key for versions: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then other names."""
    matched = _VERSION.fullmatch(version)
    if matched is None:
        return (3, 0, 0, version)
    major, stability, minor = matched.groups()
    return (_STABILITY[stability or ""], -int(major), -int(minor or 0), "")
