"""The resources of a definition, one for each served version."""

from __future__ import annotations

import functools
from typing import Any

import orjson

from devcluster.crd.conversion import CallWebhook, webhook_conversion
from devcluster.crd.strategy import CustomStrategy
from devcluster.kinds.registry import version_priority
from devcluster.kinds.resource import Column, Resource, ScalePaths
from devcluster.schema.node import Schema
from devcluster.schema.structural import parse
from devcluster.schema.versions import CustomVersions

__all__ = ["resources_of"]

Object = dict[str, Any]


def resources_of(
    definition: Object, *, metadata: Schema | None = None, call_webhook: CallWebhook | None = None
) -> list[Resource]:
    """Return the resources of an established definition.

    Args:
        definition: The CustomResourceDefinition, its names accepted.
        metadata: The schema of ObjectMeta.
        call_webhook: Calls conversion webhooks; without it, versions differ in their name only.
    """
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    closing = (spec["group"], names["plural"]) if "deletionTimestamp" in definition["metadata"] else None
    stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
    conversion = spec.get("conversion") or {}
    convert = None
    if conversion.get("strategy") == "Webhook" and call_webhook is not None:
        convert = webhook_conversion(conversion, call_webhook)
    versions = _versions(definition)
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=spec["scope"] == "Namespaced",
            storage_version=stored,
            convert=convert,
            custom=True,
            custom_versions=versions,
            closing=closing is not None,
            deprecation=_deprecation(version, spec, names["kind"]),
            selectable_fields=tuple(each["jsonPath"] for each in version.get("selectableFields") or ()),
            **_parts(version, metadata, closing),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _parts(version: Object, metadata: Schema | None, closing: tuple[str, str] | None) -> dict[str, Any]:
    source = _source(version)
    subresources = version.get("subresources") or {}
    status, scale = subresources.get("status") is not None, _scale(subresources.get("scale"))
    schema, strategy = _made_of(orjson.dumps(source), metadata, status, scale, closing)
    return {
        "schema": schema,
        "strategy": strategy,
        "subresources": tuple(
            name for name, there in (("status", status), ("scale", scale is not None)) if there
        ),
        "scale": scale,
        "columns": tuple(_column(each) for each in version.get("additionalPrinterColumns") or ()),
    }


@functools.lru_cache(maxsize=64)
def _made_of(
    source: bytes,
    metadata: Schema | None,
    status: bool,
    scale: ScalePaths | None,
    closing: tuple[str, str] | None,
) -> tuple[Schema, CustomStrategy]:
    """Parse a definition's schema; cached, since every cluster of a process may have the same definition."""
    bare = _parsed(source)
    schema = bare if metadata is None else parse(bare.source, metadata=metadata)
    return schema, CustomStrategy(bare, status=status, scale=scale, closing=closing)


@functools.lru_cache(maxsize=64)
def _parsed(source: bytes) -> Schema:
    return parse(orjson.loads(source))


def _scale(scale: Object | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""
    )


def _column(column: Object) -> Column:
    path = column["jsonPath"]
    return Column(
        column["name"],
        column["type"],
        column.get("format") or "",
        column.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        column.get("priority") or 0,
        path,
    )


def _versions(definition: Object) -> CustomVersions:
    spec, metadata = definition["spec"], definition["metadata"]
    # Without a change of the definition, or if written after the last one, objects have the current schema.
    changed = metadata.get("generation", 1) > 1
    schemas = {
        f"{spec['group']}/{each['name']}": _parsed(orjson.dumps(_source(each))) for each in spec["versions"]
    }
    return CustomVersions(
        schemas,
        stale_until=int(metadata.get("resourceVersion") or 0) if changed else 0,
    )


def _source(version: Object) -> Object:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _deprecation(version: Object, spec: Object, kind: str) -> str:
    """Return the warning of a deprecated version, which recommends the best newer version."""
    if not version.get("deprecated"):
        return ""
    if given := version.get("deprecationWarning"):
        return str(given)
    above = [
        each["name"]
        for each in spec["versions"]
        if each.get("served")
        and not each.get("deprecated")
        and version_priority(each["name"]) < version_priority(version["name"])
    ]
    group = spec["group"]
    better = f"; use {group}/{min(above, key=version_priority)} {kind}" if above else ""
    return f"{group}/{version['name']} {kind} is deprecated{better}"
