"""Mapping of kinds to URL paths by the API server's discovery."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

import msgspec

from manager.api.resource import GroupVersionKind
from manager.kube.decoding import Decoder
from manager.kube.errors import KubeError, NoMatch, NoSubresource, NotFound, ProtocolError
from manager.kube.transport import Transport

_plain_segment = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]*").fullmatch


@dataclass(frozen=True, slots=True)
class RestMapping:
    """The place of one kind in the API.

    Attributes:
        gvk: the kind.
        plural: the resource's name in paths and in RBAC rules.
        namespaced: whether its objects are in namespaces.
        subresources: names of its subresources, such as "status" and "scale".
    """

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    subresources: frozenset[str]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the percent-encoded path of an object, or of the collection if there is no name.

        Args:
            namespace: "" for all namespaces; ignored for a cluster-scoped kind.
            name: the object's name, "" for the collection.
            subresource: such as "status"; "" for the object itself.

        Raises:
            ValueError: `name` is given without a namespace for a namespaced kind, or a name is not valid.
        """
        path = f"{_group_path(self.gvk.group, self.gvk.version)}/"
        if self.namespaced:
            if namespace:
                segment = namespace if _plain_segment(namespace) else _segment(namespace)
                path = f"{path}namespaces/{segment}/"
            elif name:
                raise ValueError(f"{self.gvk} is namespaced: {name!r} needs a namespace")
        path += self.plural
        if name:
            path = f"{path}/{name if _plain_segment(name) else _segment(name)}"
        return f"{path}/{subresource}" if subresource else path


class RestMapper:
    """A resolver of kinds by discovery, with a cache per group and version.

    Missing kinds are not cached, because their CRDs may be installed at any time.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[tuple[str, str], dict[str, RestMapping]] = {}
        """The mappings by kind, of each group and version."""
        self._loading: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def resolve(self, gvk: GroupVersionKind) -> RestMapping:
        """Return the mapping of a kind; concurrent callers share one discovery request.

        Raises:
            NoMatch: the API server does not serve the kind.
            ApiError, TransportError, ProtocolError: discovery itself failed.
        """
        group = gvk.group, gvk.version
        known = self._known.get(group)
        if known is not None and (mapping := known.get(gvk.kind)) is not None:
            return mapping
        async with self._loading[group]:
            # Another caller may have loaded the group during the wait; the answer is new enough.
            found = self._known.get(group)
            if found is None or found is known:
                found = self._known[group] = await self._discover(gvk)
        if (mapping := found.get(gvk.kind)) is None:
            raise NoMatch(f"the API server does not serve {gvk}")
        return mapping

    def forget(self, gvk: GroupVersionKind) -> None:
        """Discover this kind, and others in its group and version, again at the next use."""
        self._known.pop((gvk.group, gvk.version), None)

    async def explain_not_found(self, error: NotFound, gvk: GroupVersionKind, subresource: str) -> KubeError:
        """Return `error`, or NoSubresource if the kind lacks `subresource`; raises errors of `resolve`."""
        if not subresource:
            return error
        self.forget(gvk)  # the kind's CustomResourceDefinition may have changed
        mapping = await self.resolve(gvk)
        if subresource in mapping.subresources:
            return error
        name = f"{mapping.plural}.{gvk.group}".rstrip(".")
        return NoSubresource(
            f"the definition {name} has no subresource {subresource} in version {gvk.version}: "
            f"the API server does not serve {mapping.plural}/{subresource}"
        )

    async def _discover(self, gvk: GroupVersionKind) -> dict[str, RestMapping]:
        path = _group_path(gvk.group, gvk.version)
        try:
            found = _decode(await self._transport.request("GET", path)).resources
        except NotFound:
            return {}
        except ProtocolError as error:
            raise ProtocolError(f"GET {path}: {error}") from None
        mappings: dict[str, RestMapping] = {}
        for resource in found:
            if "/" in resource.name:
                continue
            prefix = f"{resource.name}/"
            mappings[resource.kind] = RestMapping(
                gvk=GroupVersionKind(gvk.group, gvk.version, resource.kind),
                plural=resource.name,
                namespaced=resource.namespaced,
                subresources=frozenset(
                    other.name.removeprefix(prefix) for other in found if other.name.startswith(prefix)
                ),
            )
        return mappings


class _ApiResource(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] = []


_decode = Decoder(_ApiResourceList, "a list of resources")


@cache
def _group_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _segment(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError(f"{name!r} cannot be a name")
    return quote(name, safe=":")
