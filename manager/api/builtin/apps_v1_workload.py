# Made by scripts/generate-api-models; do not edit.
"""Types of apps/v1: DaemonSetSpec, DeploymentSpec, StatefulSetSpec."""

from __future__ import annotations

from typing import Annotated

from manager.api.builtin.core_v1_claim import PersistentVolumeClaim
from manager.api.builtin.core_v1_pod import PodTemplateSpec
from manager.api.builtin.meta_v1_selector import LabelSelector
from manager.api.builtin.part import Part
from manager.api.schema import Int32, IntOrString, atomic_list

__all__ = [
    "DaemonSetSpec",
    "DaemonSetUpdateStrategy",
    "DeploymentSpec",
    "DeploymentStrategy",
    "RollingUpdateDaemonSet",
    "RollingUpdateDeployment",
    "RollingUpdateStatefulSetStrategy",
    "StatefulSetOrdinals",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetSpec",
    "StatefulSetUpdateStrategy",
]


class RollingUpdateDaemonSet(Part):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DaemonSetUpdateStrategy(Part):
    type: str | None = None
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Part):
    selector: LabelSelector
    template: PodTemplateSpec
    update_strategy: DaemonSetUpdateStrategy | None = None
    min_ready_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None


class RollingUpdateDeployment(Part):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(Part):
    type: str | None = None
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Part):
    replicas: Int32 | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    strategy: DeploymentStrategy | None = None
    min_ready_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None
    paused: bool | None = None
    progress_deadline_seconds: Int32 | None = None


class RollingUpdateStatefulSetStrategy(Part):
    partition: Int32 | None = None
    max_unavailable: IntOrString | None = None


class StatefulSetUpdateStrategy(Part):
    type: str | None = None
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Part):
    when_deleted: str | None = None
    when_scaled: str | None = None


class StatefulSetOrdinals(Part):
    start: Int32 | None = None


class StatefulSetSpec(Part):
    replicas: Int32 | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    volume_claim_templates: Annotated[list[PersistentVolumeClaim] | None, atomic_list()] = None
    service_name: str | None = None
    pod_management_policy: str | None = None
    update_strategy: StatefulSetUpdateStrategy | None = None
    revision_history_limit: Int32 | None = None
    min_ready_seconds: Int32 | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None
