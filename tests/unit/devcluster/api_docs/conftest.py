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


def resource(kind: str, *, group: str = "", version: str = "v1", **more: Any) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        list_kind=f"{kind}List",
        strategy=Strategy(),
        storage_version="v1",
        **more,
    )


def builtin(kind: str, *, group: str = "", **more: Any) -> Resource:
    return resource(kind, group=group, schema=schema_for(group, "v1", kind), **more)


def custom(kind: str = "Widget", **more: Any) -> Resource:
    more.setdefault("schema", Schema(type="object", source=WIDGET_SCHEMA))
    return resource(kind, group="types.example.com", custom=True, **more)


@pytest.fixture
def registry() -> Registry:
    return Registry(
        [
            builtin("ConfigMap", short_names=("cm",)),
            builtin("Namespace", namespaced=False, subresources=("finalize", "status")),
            builtin("Pod", subresources=("eviction", "log", "proxy", "status")),
            builtin(
                "Deployment",
                group="apps",
                short_names=("deploy",),
                categories=("all",),
                subresources=("scale", "status"),
            ),
            custom(subresources=("status", "scale"), short_names=("wd",), categories=("all", "ty")),
            custom("Gadget", namespaced=False),
            custom(version="v1beta1"),
        ]
    )
