# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import TypedDict

from manager.api import Condition, IntOrString, Resource
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import ConditionDict, LabelSelector, LabelSelectorDict

__all__ = [
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetSpecDict",
    "PodDisruptionBudgetStatus",
    "PodDisruptionBudgetStatusDict",
]

class PodDisruptionBudget(Resource, group="policy", version="v1", plural="poddisruptionbudgets"):
    """PodDisruptionBudget of policy/v1."""

    spec: PodDisruptionBudgetSpecDict = {}
    status: PodDisruptionBudgetStatusDict = {}

class PodDisruptionBudgetSpec(Part[PodDisruptionBudgetSpecDict]):
    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None

class PodDisruptionBudgetSpecDict(TypedDict, total=False):
    minAvailable: IntOrString
    selector: LabelSelectorDict
    maxUnavailable: IntOrString
    unhealthyPodEvictionPolicy: str

class PodDisruptionBudgetStatus(Part[PodDisruptionBudgetStatusDict]):
    observed_generation: int | None = None
    disrupted_pods: dict[str, datetime] | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    conditions: list[Condition] | None = None

class PodDisruptionBudgetStatusDict(TypedDict, total=False):
    observedGeneration: int
    disruptedPods: dict[str, str]
    disruptionsAllowed: int
    currentHealthy: int
    desiredHealthy: int
    expectedPods: int
    conditions: list[ConditionDict]
