# Made by scripts/generate-kinds; do not edit.
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.core_v1 import ObjectReference, ObjectReferenceDict
from manager_kinds.factory import Part

__all__ = [
    "Endpoint",
    "EndpointConditions",
    "EndpointConditionsDict",
    "EndpointDict",
    "EndpointHints",
    "EndpointHintsDict",
    "EndpointPort",
    "EndpointPortDict",
    "EndpointSlice",
    "ForNode",
    "ForNodeDict",
    "ForZone",
    "ForZoneDict",
]

class Endpoint(Part[EndpointDict]):
    addresses: list[str]
    conditions: EndpointConditions | None = None
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    deprecated_topology: dict[str, str] | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None

class EndpointDict(TypedDict, total=False):
    addresses: Required[list[str]]
    conditions: EndpointConditionsDict
    hostname: str
    targetRef: ObjectReferenceDict
    deprecatedTopology: dict[str, str]
    nodeName: str
    zone: str
    hints: EndpointHintsDict

class EndpointConditions(Part[EndpointConditionsDict]):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None

class EndpointConditionsDict(TypedDict, total=False):
    ready: bool
    serving: bool
    terminating: bool

class EndpointHints(Part[EndpointHintsDict]):
    for_zones: list[ForZone] | None = None
    for_nodes: list[ForNode] | None = None

class EndpointHintsDict(TypedDict, total=False):
    forZones: list[ForZoneDict]
    forNodes: list[ForNodeDict]

class EndpointPort(Part[EndpointPortDict]):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None

class EndpointPortDict(TypedDict, total=False):
    name: str
    protocol: str
    port: int
    appProtocol: str

class EndpointSlice(Resource, group="discovery.k8s.io", version="v1", plural="endpointslices"):
    """EndpointSlice of discovery.k8s.io/v1."""

    address_type: str
    endpoints: list[EndpointDict] | None = None
    ports: list[EndpointPortDict] | None = None

class ForNode(Part[ForNodeDict]):
    name: str

class ForNodeDict(TypedDict, total=False):
    name: Required[str]

class ForZone(Part[ForZoneDict]):
    name: str

class ForZoneDict(TypedDict, total=False):
    name: Required[str]
