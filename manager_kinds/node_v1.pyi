# Made by scripts/generate-kinds; do not edit.
from typing import TypedDict

from manager.api import Quantity, Resource
from manager_kinds.core_v1 import Toleration, TolerationDict
from manager_kinds.factory import Part

__all__ = ["Overhead", "OverheadDict", "RuntimeClass", "Scheduling", "SchedulingDict"]

class Overhead(Part[OverheadDict]):
    pod_fixed: dict[str, Quantity] | None = None

class OverheadDict(TypedDict, total=False):
    podFixed: dict[str, Quantity]

class RuntimeClass(Resource, group="node.k8s.io", version="v1", plural="runtimeclasses", namespaced=False):
    """RuntimeClass of node.k8s.io/v1, cluster-scoped."""

    handler: str
    overhead: OverheadDict | None = None
    scheduling: SchedulingDict | None = None

class Scheduling(Part[SchedulingDict]):
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None

class SchedulingDict(TypedDict, total=False):
    nodeSelector: dict[str, str]
    tolerations: list[TolerationDict]
