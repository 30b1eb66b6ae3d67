from __future__ import annotations

from typing import Any

import pytest

from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Strategy
from devcluster.schema.node import Schema
from devcluster.types import schema_for

WIDGET_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A widget is a thing.",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What it should be.",
            "properties": {
                "size": {"type": "integer", "description": "How big.", "default": 3, "minimum": 1},
                "color": {"type": "string", "nullable": True, "enum": ["red", "green"]},
                "port": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                },
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        }
    },
}


def builtin(group: str, version: str, kind: str, plural: str, **more: Any) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        schema=schema_for(group, version, kind),
        strategy=Strategy(),
        storage_version=version,
        **more,
    )


def custom(kind: str = "Widget", *, version: str = "v1", **more: Any) -> Resource:
    more.setdefault("schema", Schema(type="object", source=WIDGET_SCHEMA))
    return Resource(
        group="types.example.com",
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        list_kind=f"{kind}List",
        strategy=Strategy(),
        storage_version="v1",
        custom=True,
        **more,
    )


@pytest.fixture
def registry() -> Registry:
    return Registry(
        [
            builtin("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
            builtin(
                "", "v1", "Namespace", "namespaces", namespaced=False, subresources=("finalize", "status")
            ),
            builtin("", "v1", "Pod", "pods", subresources=("eviction", "log", "proxy", "status")),
            builtin(
                "apps",
                "v1",
                "Deployment",
                "deployments",
                short_names=("deploy",),
                categories=("all",),
                subresources=("scale", "status"),
            ),
            custom(subresources=("status", "scale"), short_names=("wd",), categories=("all", "ty")),
            custom("Gadget", namespaced=False),
            custom(version="v1beta1"),
        ]
    )
