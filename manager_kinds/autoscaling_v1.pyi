# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = [
    "CrossVersionObjectReference",
    "CrossVersionObjectReferenceDict",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerSpecDict",
    "HorizontalPodAutoscalerStatus",
    "HorizontalPodAutoscalerStatusDict",
]

class CrossVersionObjectReference(Part[CrossVersionObjectReferenceDict]):
    kind: str
    name: str
    api_version: str | None = None

class CrossVersionObjectReferenceDict(TypedDict, total=False):
    kind: Required[str]
    name: Required[str]
    apiVersion: str

class HorizontalPodAutoscaler(Resource, group="autoscaling", version="v1", plural="horizontalpodautoscalers"):
    """HorizontalPodAutoscaler of autoscaling/v1."""

    spec: HorizontalPodAutoscalerSpecDict = {}
    status: HorizontalPodAutoscalerStatusDict = {}

class HorizontalPodAutoscalerSpec(Part[HorizontalPodAutoscalerSpecDict]):
    scale_target_ref: CrossVersionObjectReference
    min_replicas: int | None = None
    max_replicas: int
    target_cpu_utilization_percentage: int | None = None

class HorizontalPodAutoscalerSpecDict(TypedDict, total=False):
    scaleTargetRef: CrossVersionObjectReferenceDict
    minReplicas: int
    maxReplicas: int
    targetCPUUtilizationPercentage: int

class HorizontalPodAutoscalerStatus(Part[HorizontalPodAutoscalerStatusDict]):
    observed_generation: int | None = None
    last_scale_time: datetime | None = None
    current_replicas: int
    desired_replicas: int
    current_cpu_utilization_percentage: int | None = None

class HorizontalPodAutoscalerStatusDict(TypedDict, total=False):
    observedGeneration: int
    lastScaleTime: str
    currentReplicas: int
    desiredReplicas: int
    currentCPUUtilizationPercentage: int
