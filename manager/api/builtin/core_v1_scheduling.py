# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: Affinity, NodeSelector, Toleration, TopologySpreadConstraint."""

from __future__ import annotations

from typing import Annotated

from manager.api.builtin.meta_v1_selector import LabelSelector
from manager.api.builtin.part import Part
from manager.api.schema import Int32, Int64, atomic_list, atomic_map

__all__ = [
    "Affinity",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PreferredSchedulingTerm",
    "Toleration",
    "TopologySpreadConstraint",
    "WeightedPodAffinityTerm",
]


class NodeSelectorRequirement(Part):
    key: str
    operator: str
    values: Annotated[list[str] | None, atomic_list()] = None


class NodeSelectorTerm(Part, json_schema_extra=atomic_map()):
    match_expressions: Annotated[list[NodeSelectorRequirement] | None, atomic_list()] = None
    match_fields: Annotated[list[NodeSelectorRequirement] | None, atomic_list()] = None


class NodeSelector(Part, json_schema_extra=atomic_map()):
    node_selector_terms: Annotated[list[NodeSelectorTerm], atomic_list()]


class PreferredSchedulingTerm(Part):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Part):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[PreferredSchedulingTerm] | None,
        atomic_list(),
    ] = None


class PodAffinityTerm(Part):
    label_selector: LabelSelector | None = None
    namespaces: Annotated[list[str] | None, atomic_list()] = None
    topology_key: str
    namespace_selector: LabelSelector | None = None
    match_label_keys: Annotated[list[str] | None, atomic_list()] = None
    mismatch_label_keys: Annotated[list[str] | None, atomic_list()] = None


class WeightedPodAffinityTerm(Part):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Part):
    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm] | None,
        atomic_list(),
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm] | None,
        atomic_list(),
    ] = None


class PodAntiAffinity(Part):
    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm] | None,
        atomic_list(),
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm] | None,
        atomic_list(),
    ] = None


class Affinity(Part):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Part):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Part):
    max_skew: Int32
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: Annotated[list[str] | None, atomic_list()] = None
