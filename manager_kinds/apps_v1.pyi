# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Any, Required, TypedDict

from manager.api import IntOrString, Resource
from manager_kinds.core_v1 import (
    EmbeddedPersistentVolumeClaim,
    EmbeddedPersistentVolumeClaimDict,
    PodTemplateSpec,
    PodTemplateSpecDict,
)
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import LabelSelector, LabelSelectorDict
from manager_kinds.methods import DeploymentMethods

__all__ = [
    "ControllerRevision",
    "DaemonSet",
    "DaemonSetCondition",
    "DaemonSetConditionDict",
    "DaemonSetSpec",
    "DaemonSetSpecDict",
    "DaemonSetStatus",
    "DaemonSetStatusDict",
    "DaemonSetUpdateStrategy",
    "DaemonSetUpdateStrategyDict",
    "Deployment",
    "DeploymentCondition",
    "DeploymentConditionDict",
    "DeploymentSpec",
    "DeploymentSpecDict",
    "DeploymentStatus",
    "DeploymentStatusDict",
    "DeploymentStrategy",
    "DeploymentStrategyDict",
    "ReplicaSet",
    "ReplicaSetCondition",
    "ReplicaSetConditionDict",
    "ReplicaSetSpec",
    "ReplicaSetSpecDict",
    "ReplicaSetStatus",
    "ReplicaSetStatusDict",
    "RollingUpdateDaemonSet",
    "RollingUpdateDaemonSetDict",
    "RollingUpdateDeployment",
    "RollingUpdateDeploymentDict",
    "RollingUpdateStatefulSetStrategy",
    "RollingUpdateStatefulSetStrategyDict",
    "StatefulSet",
    "StatefulSetCondition",
    "StatefulSetConditionDict",
    "StatefulSetOrdinals",
    "StatefulSetOrdinalsDict",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetPersistentVolumeClaimRetentionPolicyDict",
    "StatefulSetSpec",
    "StatefulSetSpecDict",
    "StatefulSetStatus",
    "StatefulSetStatusDict",
    "StatefulSetUpdateStrategy",
    "StatefulSetUpdateStrategyDict",
]

class ControllerRevision(Resource, group="apps", version="v1", plural="controllerrevisions"):
    """ControllerRevision of apps/v1."""

    data: dict[str, Any] | None = None
    revision: int

class DaemonSet(Resource, group="apps", version="v1", plural="daemonsets"):
    """DaemonSet of apps/v1."""

    spec: DaemonSetSpecDict = {}
    status: DaemonSetStatusDict = {}

class DaemonSetCondition(Part[DaemonSetConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class DaemonSetConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class DaemonSetSpec(Part[DaemonSetSpecDict]):
    selector: LabelSelector
    template: PodTemplateSpec
    update_strategy: DaemonSetUpdateStrategy | None = None
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None

class DaemonSetSpecDict(TypedDict, total=False):
    selector: LabelSelectorDict
    template: PodTemplateSpecDict
    updateStrategy: DaemonSetUpdateStrategyDict
    minReadySeconds: int
    revisionHistoryLimit: int

class DaemonSetStatus(Part[DaemonSetStatusDict]):
    current_number_scheduled: int
    number_misscheduled: int
    desired_number_scheduled: int
    number_ready: int
    observed_generation: int | None = None
    updated_number_scheduled: int | None = None
    number_available: int | None = None
    number_unavailable: int | None = None
    collision_count: int | None = None
    conditions: list[DaemonSetCondition] | None = None

class DaemonSetStatusDict(TypedDict, total=False):
    currentNumberScheduled: int
    numberMisscheduled: int
    desiredNumberScheduled: int
    numberReady: int
    observedGeneration: int
    updatedNumberScheduled: int
    numberAvailable: int
    numberUnavailable: int
    collisionCount: int
    conditions: list[DaemonSetConditionDict]

class DaemonSetUpdateStrategy(Part[DaemonSetUpdateStrategyDict]):
    type: str | None = None
    rolling_update: RollingUpdateDaemonSet | None = None

class DaemonSetUpdateStrategyDict(TypedDict, total=False):
    type: str
    rollingUpdate: RollingUpdateDaemonSetDict

class Deployment(DeploymentMethods, Resource, group="apps", version="v1", plural="deployments"):
    """Deployment of apps/v1."""

    spec: DeploymentSpecDict = {}
    status: DeploymentStatusDict = {}

class DeploymentCondition(Part[DeploymentConditionDict]):
    type: str
    status: str
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class DeploymentConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastUpdateTime: str
    lastTransitionTime: str
    reason: str
    message: str

class DeploymentSpec(Part[DeploymentSpecDict]):
    replicas: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    strategy: DeploymentStrategy | None = None
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None

class DeploymentSpecDict(TypedDict, total=False):
    replicas: int
    selector: LabelSelectorDict
    template: PodTemplateSpecDict
    strategy: DeploymentStrategyDict
    minReadySeconds: int
    revisionHistoryLimit: int
    paused: bool
    progressDeadlineSeconds: int

class DeploymentStatus(Part[DeploymentStatusDict]):
    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    unavailable_replicas: int | None = None
    terminating_replicas: int | None = None
    conditions: list[DeploymentCondition] | None = None
    collision_count: int | None = None

class DeploymentStatusDict(TypedDict, total=False):
    observedGeneration: int
    replicas: int
    updatedReplicas: int
    readyReplicas: int
    availableReplicas: int
    unavailableReplicas: int
    terminatingReplicas: int
    conditions: list[DeploymentConditionDict]
    collisionCount: int

class DeploymentStrategy(Part[DeploymentStrategyDict]):
    type: str | None = None
    rolling_update: RollingUpdateDeployment | None = None

class DeploymentStrategyDict(TypedDict, total=False):
    type: str
    rollingUpdate: RollingUpdateDeploymentDict

class ReplicaSet(Resource, group="apps", version="v1", plural="replicasets"):
    """ReplicaSet of apps/v1."""

    spec: ReplicaSetSpecDict = {}
    status: ReplicaSetStatusDict = {}

class ReplicaSetCondition(Part[ReplicaSetConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class ReplicaSetConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class ReplicaSetSpec(Part[ReplicaSetSpecDict]):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec | None = None

class ReplicaSetSpecDict(TypedDict, total=False):
    replicas: int
    minReadySeconds: int
    selector: LabelSelectorDict
    template: PodTemplateSpecDict

class ReplicaSetStatus(Part[ReplicaSetStatusDict]):
    replicas: int
    fully_labeled_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    terminating_replicas: int | None = None
    observed_generation: int | None = None
    conditions: list[ReplicaSetCondition] | None = None

class ReplicaSetStatusDict(TypedDict, total=False):
    replicas: int
    fullyLabeledReplicas: int
    readyReplicas: int
    availableReplicas: int
    terminatingReplicas: int
    observedGeneration: int
    conditions: list[ReplicaSetConditionDict]

class RollingUpdateDaemonSet(Part[RollingUpdateDaemonSetDict]):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None

class RollingUpdateDaemonSetDict(TypedDict, total=False):
    maxUnavailable: IntOrString
    maxSurge: IntOrString

class RollingUpdateDeployment(Part[RollingUpdateDeploymentDict]):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None

class RollingUpdateDeploymentDict(TypedDict, total=False):
    maxUnavailable: IntOrString
    maxSurge: IntOrString

class RollingUpdateStatefulSetStrategy(Part[RollingUpdateStatefulSetStrategyDict]):
    partition: int | None = None
    max_unavailable: IntOrString | None = None

class RollingUpdateStatefulSetStrategyDict(TypedDict, total=False):
    partition: int
    maxUnavailable: IntOrString

class StatefulSet(Resource, group="apps", version="v1", plural="statefulsets"):
    """StatefulSet of apps/v1."""

    spec: StatefulSetSpecDict = {}
    status: StatefulSetStatusDict = {}

class StatefulSetCondition(Part[StatefulSetConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class StatefulSetConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class StatefulSetOrdinals(Part[StatefulSetOrdinalsDict]):
    start: int | None = None

class StatefulSetOrdinalsDict(TypedDict, total=False):
    start: int

class StatefulSetPersistentVolumeClaimRetentionPolicy(
    Part[StatefulSetPersistentVolumeClaimRetentionPolicyDict]
):
    when_deleted: str | None = None
    when_scaled: str | None = None

class StatefulSetPersistentVolumeClaimRetentionPolicyDict(TypedDict, total=False):
    whenDeleted: str
    whenScaled: str

class StatefulSetSpec(Part[StatefulSetSpecDict]):
    replicas: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    volume_claim_templates: list[EmbeddedPersistentVolumeClaim] | None = None
    service_name: str | None = None
    pod_management_policy: str | None = None
    update_strategy: StatefulSetUpdateStrategy | None = None
    revision_history_limit: int | None = None
    min_ready_seconds: int | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None

class StatefulSetSpecDict(TypedDict, total=False):
    replicas: int
    selector: LabelSelectorDict
    template: PodTemplateSpecDict
    volumeClaimTemplates: list[EmbeddedPersistentVolumeClaimDict]
    serviceName: str
    podManagementPolicy: str
    updateStrategy: StatefulSetUpdateStrategyDict
    revisionHistoryLimit: int
    minReadySeconds: int
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicyDict
    ordinals: StatefulSetOrdinalsDict

class StatefulSetStatus(Part[StatefulSetStatusDict]):
    observed_generation: int | None = None
    replicas: int
    ready_replicas: int | None = None
    current_replicas: int | None = None
    updated_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    collision_count: int | None = None
    conditions: list[StatefulSetCondition] | None = None
    available_replicas: int | None = None

class StatefulSetStatusDict(TypedDict, total=False):
    observedGeneration: int
    replicas: int
    readyReplicas: int
    currentReplicas: int
    updatedReplicas: int
    currentRevision: str
    updateRevision: str
    collisionCount: int
    conditions: list[StatefulSetConditionDict]
    availableReplicas: int

class StatefulSetUpdateStrategy(Part[StatefulSetUpdateStrategyDict]):
    type: str | None = None
    rolling_update: RollingUpdateStatefulSetStrategy | None = None

class StatefulSetUpdateStrategyDict(TypedDict, total=False):
    type: str
    rollingUpdate: RollingUpdateStatefulSetStrategyDict
