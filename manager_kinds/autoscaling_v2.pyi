# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Quantity, Resource
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import LabelSelector, LabelSelectorDict

__all__ = [
    "ContainerResourceMetricSource",
    "ContainerResourceMetricSourceDict",
    "ContainerResourceMetricStatus",
    "ContainerResourceMetricStatusDict",
    "CrossVersionObjectReference",
    "CrossVersionObjectReferenceDict",
    "ExternalMetricSource",
    "ExternalMetricSourceDict",
    "ExternalMetricStatus",
    "ExternalMetricStatusDict",
    "HPAScalingPolicy",
    "HPAScalingPolicyDict",
    "HPAScalingRules",
    "HPAScalingRulesDict",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerBehavior",
    "HorizontalPodAutoscalerBehaviorDict",
    "HorizontalPodAutoscalerCondition",
    "HorizontalPodAutoscalerConditionDict",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerSpecDict",
    "HorizontalPodAutoscalerStatus",
    "HorizontalPodAutoscalerStatusDict",
    "MetricIdentifier",
    "MetricIdentifierDict",
    "MetricSpec",
    "MetricSpecDict",
    "MetricStatus",
    "MetricStatusDict",
    "MetricTarget",
    "MetricTargetDict",
    "MetricValueStatus",
    "MetricValueStatusDict",
    "ObjectMetricSource",
    "ObjectMetricSourceDict",
    "ObjectMetricStatus",
    "ObjectMetricStatusDict",
    "PodsMetricSource",
    "PodsMetricSourceDict",
    "PodsMetricStatus",
    "PodsMetricStatusDict",
    "ResourceMetricSource",
    "ResourceMetricSourceDict",
    "ResourceMetricStatus",
    "ResourceMetricStatusDict",
]

class ContainerResourceMetricSource(Part[ContainerResourceMetricSourceDict]):
    name: str
    target: MetricTarget
    container: str

class ContainerResourceMetricSourceDict(TypedDict, total=False):
    name: Required[str]
    target: Required[MetricTargetDict]
    container: Required[str]

class ContainerResourceMetricStatus(Part[ContainerResourceMetricStatusDict]):
    name: str
    current: MetricValueStatus
    container: str

class ContainerResourceMetricStatusDict(TypedDict, total=False):
    name: Required[str]
    current: Required[MetricValueStatusDict]
    container: Required[str]

class CrossVersionObjectReference(Part[CrossVersionObjectReferenceDict]):
    kind: str
    name: str
    api_version: str | None = None

class CrossVersionObjectReferenceDict(TypedDict, total=False):
    kind: Required[str]
    name: Required[str]
    apiVersion: str

class ExternalMetricSource(Part[ExternalMetricSourceDict]):
    metric: MetricIdentifier
    target: MetricTarget

class ExternalMetricSourceDict(TypedDict, total=False):
    metric: Required[MetricIdentifierDict]
    target: Required[MetricTargetDict]

class ExternalMetricStatus(Part[ExternalMetricStatusDict]):
    metric: MetricIdentifier
    current: MetricValueStatus

class ExternalMetricStatusDict(TypedDict, total=False):
    metric: Required[MetricIdentifierDict]
    current: Required[MetricValueStatusDict]

class HPAScalingPolicy(Part[HPAScalingPolicyDict]):
    type: str
    value: int
    period_seconds: int

class HPAScalingPolicyDict(TypedDict, total=False):
    type: Required[str]
    value: Required[int]
    periodSeconds: Required[int]

class HPAScalingRules(Part[HPAScalingRulesDict]):
    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: list[HPAScalingPolicy] | None = None
    tolerance: Quantity | None = None

class HPAScalingRulesDict(TypedDict, total=False):
    stabilizationWindowSeconds: int
    selectPolicy: str
    policies: list[HPAScalingPolicyDict]
    tolerance: Quantity

class HorizontalPodAutoscaler(Resource, group="autoscaling", version="v2", plural="horizontalpodautoscalers"):
    """HorizontalPodAutoscaler of autoscaling/v2."""

    spec: HorizontalPodAutoscalerSpecDict = {}
    status: HorizontalPodAutoscalerStatusDict = {}

class HorizontalPodAutoscalerBehavior(Part[HorizontalPodAutoscalerBehaviorDict]):
    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None

class HorizontalPodAutoscalerBehaviorDict(TypedDict, total=False):
    scaleUp: HPAScalingRulesDict
    scaleDown: HPAScalingRulesDict

class HorizontalPodAutoscalerCondition(Part[HorizontalPodAutoscalerConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class HorizontalPodAutoscalerConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class HorizontalPodAutoscalerSpec(Part[HorizontalPodAutoscalerSpecDict]):
    scale_target_ref: CrossVersionObjectReference
    min_replicas: int | None = None
    max_replicas: int
    metrics: list[MetricSpec] | None = None
    behavior: HorizontalPodAutoscalerBehavior | None = None

class HorizontalPodAutoscalerSpecDict(TypedDict, total=False):
    scaleTargetRef: CrossVersionObjectReferenceDict
    minReplicas: int
    maxReplicas: int
    metrics: list[MetricSpecDict]
    behavior: HorizontalPodAutoscalerBehaviorDict

class HorizontalPodAutoscalerStatus(Part[HorizontalPodAutoscalerStatusDict]):
    observed_generation: int | None = None
    last_scale_time: datetime | None = None
    current_replicas: int | None = None
    desired_replicas: int
    current_metrics: list[MetricStatus] | None = None
    conditions: list[HorizontalPodAutoscalerCondition] | None = None

class HorizontalPodAutoscalerStatusDict(TypedDict, total=False):
    observedGeneration: int
    lastScaleTime: str
    currentReplicas: int
    desiredReplicas: int
    currentMetrics: list[MetricStatusDict]
    conditions: list[HorizontalPodAutoscalerConditionDict]

class MetricIdentifier(Part[MetricIdentifierDict]):
    name: str
    selector: LabelSelector | None = None

class MetricIdentifierDict(TypedDict, total=False):
    name: Required[str]
    selector: LabelSelectorDict

class MetricSpec(Part[MetricSpecDict]):
    type: str
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None

class MetricSpecDict(TypedDict, total=False):
    type: str
    object: ObjectMetricSourceDict
    pods: PodsMetricSourceDict
    resource: ResourceMetricSourceDict
    containerResource: ContainerResourceMetricSourceDict
    external: ExternalMetricSourceDict

class MetricStatus(Part[MetricStatusDict]):
    type: str
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None

class MetricStatusDict(TypedDict, total=False):
    type: Required[str]
    object: ObjectMetricStatusDict
    pods: PodsMetricStatusDict
    resource: ResourceMetricStatusDict
    containerResource: ContainerResourceMetricStatusDict
    external: ExternalMetricStatusDict

class MetricTarget(Part[MetricTargetDict]):
    type: str
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None

class MetricTargetDict(TypedDict, total=False):
    type: Required[str]
    value: Quantity
    averageValue: Quantity
    averageUtilization: int

class MetricValueStatus(Part[MetricValueStatusDict]):
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None

class MetricValueStatusDict(TypedDict, total=False):
    value: Quantity
    averageValue: Quantity
    averageUtilization: int

class ObjectMetricSource(Part[ObjectMetricSourceDict]):
    described_object: CrossVersionObjectReference
    target: MetricTarget
    metric: MetricIdentifier

class ObjectMetricSourceDict(TypedDict, total=False):
    describedObject: Required[CrossVersionObjectReferenceDict]
    target: Required[MetricTargetDict]
    metric: Required[MetricIdentifierDict]

class ObjectMetricStatus(Part[ObjectMetricStatusDict]):
    metric: MetricIdentifier
    current: MetricValueStatus
    described_object: CrossVersionObjectReference

class ObjectMetricStatusDict(TypedDict, total=False):
    metric: Required[MetricIdentifierDict]
    current: Required[MetricValueStatusDict]
    describedObject: Required[CrossVersionObjectReferenceDict]

class PodsMetricSource(Part[PodsMetricSourceDict]):
    metric: MetricIdentifier
    target: MetricTarget

class PodsMetricSourceDict(TypedDict, total=False):
    metric: Required[MetricIdentifierDict]
    target: Required[MetricTargetDict]

class PodsMetricStatus(Part[PodsMetricStatusDict]):
    metric: MetricIdentifier
    current: MetricValueStatus

class PodsMetricStatusDict(TypedDict, total=False):
    metric: Required[MetricIdentifierDict]
    current: Required[MetricValueStatusDict]

class ResourceMetricSource(Part[ResourceMetricSourceDict]):
    name: str
    target: MetricTarget

class ResourceMetricSourceDict(TypedDict, total=False):
    name: Required[str]
    target: Required[MetricTargetDict]

class ResourceMetricStatus(Part[ResourceMetricStatusDict]):
    name: str
    current: MetricValueStatus

class ResourceMetricStatusDict(TypedDict, total=False):
    name: Required[str]
    current: Required[MetricValueStatusDict]
